"""Caches against those of transformers, engines' logs, and what must hold of any."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from cache_models import QWEN3_4B, QWEN3_235B, gpt_oss, llama
from repository import ROOT

import sizer
from sizer.architectures.registry import HF_MODULES
from sizer.measures.cache_budget import fit
from sizer.measures.cache_dtypes import token_bytes
from sizer.measures.cache_kinds import kept
from sizer.measures.cache_layers import Setup
from sizer.measures.cache_policies import POLICIES
from sizer.measures.closed_forms import cache_forms
from sizer.units import parse_bytes

Run = Callable[..., tuple[int, str, str]]
FIXTURES = ROOT / "tests" / "fixtures"
GIB = 2**30


def rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(FIXTURES / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


MEASURED = [row for row in rows("kv-cache") if row["config"]["model_type"] in HF_MODULES]
# Room of the static caches, and tokens with which T5's decoder began.
ROOM, T5_BEGAN = 128, 10


def measured_name(row: dict[str, Any]) -> str:
    return f"{row['model']}-{row['batch']}x{row['prefill']}+{row['decode']}-{row['dtype']}-{row['cache']}"


@pytest.mark.parametrize("row", MEASURED, ids=measured_name)
def test_a_measured_cache_is_equal_to_the_last_byte(row: dict[str, Any]) -> None:
    model = sizer.load(row["config"], cls=row["cls"])
    dynamic = row["cache"] == "dynamic"
    begun = T5_BEGAN if row["cls"].startswith("T5") else row["prefill"]
    options: dict[str, Any] = {"encoder_len": row["prefill"]}
    if not dynamic:
        options["max_len"] = ROOM

    def found(tokens: int, *, decoded: bool) -> tuple[int, int, int]:
        policy = "transformers" if dynamic else "static"
        cache = model.kv_cache(row["batch"], tokens, row["dtype"], policy, decoded=decoded, **options)
        return cache.bytes, cache.bytes + cache.bookkeeping_bytes, cache.stored_bytes

    def measured(when: str) -> tuple[int, int, int]:
        words = (f"kv_{when}", f"after_{when}_logical", f"after_{when}_storage")
        return tuple(row[word] for word in words)  # type: ignore[return-value]

    assert found(begun, decoded=False) == measured("prefill")
    assert found(begun + row["decode"], decoded=True) == measured("decode")
    assert found(begun + row["decode"] - 1, decoded=True)[0] == row["kv_before_last"]


# what, the number, the number that is known, how it is known
BYTES = [
    ("gpt-oss-120b, all layers", lambda: gpt_oss(36).kv_cache().bytes_per_token, 73728, "vLLM's log"),
    ("qwen3-4b", lambda: sizer.load(QWEN3_4B).kv_cache().bytes_per_token, 147456, "LMCache pull 694"),
    (
        "qwen3-235b, a rank of four",
        lambda: sizer.load(QWEN3_235B).kv_cache(tp=4).bytes_per_token,
        48128,
        "vLLM 21348",
    ),
    (
        "deepseek-v3, one latent and one rope key a layer",
        lambda: sizer.load("deepseek-v3").kv_cache().bytes_per_token,
        70272,
        "LMCache pull 694: 61 · (512 + 64) · 2",
    ),
    (
        "gpt-oss-20b, 32 × 8,192 tokens, windows",
        lambda: gpt_oss(24).kv_cache(32, 8192).bytes,
        6.09375 * GIB,
        "12 · 2048 · 32 · (8192 + 128)",
    ),
    (
        "the same without windows",
        lambda: gpt_oss(24).kv_cache(32, 8192, policy="full").bytes,
        12 * GIB,
        "24 · 2048 · 32 · 8192",
    ),
    (
        "minimax-m2 in fp8",
        lambda: (
            llama(num_hidden_layers=62, num_key_value_heads=8, head_dim=128).kv_cache(1, 196608, "fp8").bytes
        ),
        24964497408,
        "62 · 8 · 128 · 2 · 196608",
    ),
    (
        "minimax-m2 in 16 bits, which weights in fp8 do not change",
        lambda: llama(num_hidden_layers=62, num_key_value_heads=8, head_dim=128).kv_cache(1, 196608).bytes,
        49928994816,
        "hf-mem's README (read 2026-11): 62 · 8 · 128 · 2 · 2 · 196608",
    ),
    (
        "16 layers of 4 heads of 256 in fp8, 302,921 tokens",
        lambda: (
            llama(num_hidden_layers=16, num_key_value_heads=4, head_dim=256).kv_cache(1, 302921, "fp8").bytes
        ),
        302921 * 32768,
        "vLLM's log, 9.2444 GiB",
    ),
    (
        "q8_0 is 34 bytes for 32",
        lambda: llama(num_hidden_layers=1, num_key_value_heads=8, head_dim=128).kv_cache(1, 10, "q8_0").bytes,
        10 * 2 * 1024 * 34 // 32,
        "ggml-common.h",
    ),
    (
        "keys in q8_0, values in q4_0",
        lambda: (
            llama(num_hidden_layers=1, num_key_value_heads=8, head_dim=128)
            .kv_cache(1, 10, key_dtype="q8_0", value_dtype="q4_0")
            .bytes
        ),
        10 * (1024 * 34 // 32 + 1024 * 18 // 32),
        "ggml-common.h",
    ),
    (
        "scales of each token and head",
        lambda: (
            llama(num_hidden_layers=1, num_key_value_heads=8, head_dim=128)
            .kv_cache(1, 10, "int8_per_token_head")
            .bytes
        ),
        10 * 2 * (1024 + 8 * 4),
        "vllm/v1/kv_cache_interface.py",
    ),
]


@pytest.mark.parametrize(("what", "number", "known", "how"), BYTES, ids=[row[0] for row in BYTES])
def test_known_bytes(what: str, number: Callable[[], int], known: int, how: str) -> None:
    assert number() == known


def test_hybrid_layers_share_pages_of_one_size() -> None:
    # vLLM's arithmetic for Qwen3.5: a state of 2,146,304 bytes makes a page of 1,056 tokens, 2,162,688
    # bytes; three of four layers have a state, and their groups have as many layers as attention.
    model = sizer.load(
        {
            "model_type": "qwen3_next",
            "num_hidden_layers": 48,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "linear_num_value_heads": 32,
            "linear_num_key_heads": 16,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
        }
    )
    found = model.kv_cache(1, 8192, policy="vllm")
    by_name = {one.kept.name: one for one in found.layers}

    assert by_name["conv"].constant + by_name["ssm"].constant == 36 * 2146304
    assert by_name["kv"].reserved == 8 * 1056
    assert found.bytes == (12 * 8 + 36) * 2162688


def test_llama_cpp_pads_its_cells() -> None:
    # llama-kv-cache-iswa.cpp: PAD(min(context, window · sequences + ubatch), 256).
    model = sizer.load({"model_type": "gemma3_text", "sliding_window": 1024, "num_hidden_layers": 6})
    found = model.kv_cache(1, 32000, policy="llama.cpp")

    assert {one.kept.window: one.reserved for one in found.layers} == {None: 32000, 1024: 1536}
    assert model.kv_cache(1, 100, policy="llama.cpp").layers[0].reserved == 256


def test_llama_cpp_keeps_one_input_less_of_a_convolution() -> None:
    # llama-hparams.cpp, in fp32: n_embd_r = (d_conv - 1) · d_inner and n_embd_s = d_state · d_inner.
    found = sizer.load("mamba-130m").kv_cache(1, 100, policy="llama.cpp")

    assert found.stored_bytes == 24 * 4 * (3 * 1536 + 16 * 1536)


def test_a_budget_and_a_cache_agree() -> None:
    model = sizer.load("llama-3-8b")
    kinds = kept(model.rows())
    for policy in POLICIES:
        found = fit(kinds, Setup(2, 5000, 5000, "bf16"), policy, 3 * GIB)
        tokens = found.tokens or 0
        assert model.kv_cache(2, tokens, policy=policy).stored_bytes <= 3 * GIB
        assert model.kv_cache(2, tokens + 1, policy=policy).stored_bytes > 3 * GIB


def test_sequences_that_a_budget_holds() -> None:
    # 8,192 tokens of Llama-3-8B keep 2 · 8 · 128 · 2 · 32 · 8,192 bytes, one GiB.
    found = fit(
        kept(sizer.load("llama-3-8b").rows()), Setup(1, 8192, 8192, "bf16"), "architecture", 7 * GIB // 2
    )

    assert (found.sequences, found.concurrency, found.tokens) == (3, 3.5, 28672)


def test_a_model_without_a_cache_fits_anywhere() -> None:
    found = fit(kept(sizer.load("bert-base").rows()), Setup(1, 10, 10, "bf16"), "architecture", 1)

    assert (found.tokens, found.sequences) == (None, None)


DEFAULTS = {
    (row["model_type"], row["cls"]): row
    for row in rows("transformers")
    if not row["variant"] and row["model_type"] in HF_MODULES
}


@pytest.mark.parametrize("key", DEFAULTS, ids="-".join)
def test_the_formula_is_the_number(key: tuple[str, str]) -> None:
    model = sizer.load(DEFAULTS[key]["config"], cls=key[1])
    for tokens in (40, 40_000):
        lengths = {"batch_size": 3, "seq_len": tokens, "encoder_len": 24}
        found, forms = model.kv_cache(**lengths), cache_forms(model, **lengths)

        for name in ("bytes", "bytes_per_token", "constant_bytes"):
            assert forms.value(name) == getattr(found, name), name
    for policy in POLICIES:
        least = model.kv_cache(2, 5000, policy="architecture").bytes
        if policy not in ("transformers", "vllm", "llama.cpp"):
            assert model.kv_cache(2, 5000, policy=policy).bytes >= least
        model.kv_cache(2, 5000, policy=policy)


BAD = [
    (["--seq-len", "0"], ["--seq-len 0 is zero"]),
    (["--batch-size", "-1"], ["--batch-size -1 is negative"]),
    (["--dtype", "bf17"], ["no cache dtype named 'bf17'", "bf16"]),
    (["--key-dtype", "q9"], ["no cache dtype named 'q9'", "q8_0"]),
    (["--policy", "vlm"], ["no cache policy named 'vlm'; did you mean 'vllm'?"]),
    (["--tp", "3"], ["--tp 3", "n_kv_heads = 8", "use 1, 2, 4, 8 or 16"]),
    (["--budget", "40 apples"], ["--budget 40 apples is no number of bytes; write 40GiB"]),
    (["--unit", "Gib"], ["no unit named 'Gib'; did you mean 'GiB'"]),
    (
        ["--seq-len", "100", "--policy", "static", "--max-len", "10"],
        ["--seq-len 100 is more than --max-len 10"],
    ),
    (["--dtype", "fp8_ds_mla"], ["latent of 576", "use fp8"]),
    (["--draft", "llama-3-9b"], ["no preset named 'llama-3-9b'"]),
]


@pytest.mark.parametrize(("args", "fragments"), BAD, ids=lambda x: " ".join(x))
def test_bad_input(sizer_cli: Run, args: list[str], fragments: list[str]) -> None:
    code, out, err = sizer_cli("kv-cache", "llama-3-8b", *args)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert [text for text in fragments if text not in err] == []


def test_ranks_that_do_not_divide_a_state() -> None:
    with pytest.raises(sizer.SizerError, match=r"tp = 5 does not divide a state of 6,144.*use 1, 2, 3, 4, 6"):
        sizer.load("mamba-130m").kv_cache(tp=5)


def test_an_encoder_that_is_not_there_is_a_warning(sizer_cli: Run) -> None:
    code, _, err = sizer_cli("kv-cache", "llama-3-8b", "--encoder-len", "8", "-q")

    assert (code, err.count("\n")) == (0, 1)
    assert "encoder_len = 8 changes nothing: llama-3-8b has no encoder" in err


def test_blocks_that_do_not_come_out_even_are_refused() -> None:
    with pytest.raises(sizer.SizerError, match="q8_0 stores 32 elements together"):
        llama(num_key_value_heads=1, head_dim=80).kv_cache(dtype="q8_0")


# ggml-common.h, bytes of a block of 32: 16-bit scales and minima, four bytes of fifth bits, the values.
GGML_BLOCKS = [
    ("q8_0", 2 + 32),
    ("q5_1", 4 + 4 + 16),
    ("q5_0", 2 + 4 + 16),
    ("q4_1", 4 + 16),
    ("q4_0", 2 + 16),
]


@pytest.mark.parametrize(("dtype", "n_bytes"), GGML_BLOCKS)
def test_a_block_of_llama_cpp(dtype: str, n_bytes: int) -> None:
    assert token_bytes(1024, dtype, heads=8) == 32 * n_bytes


def test_deepseeks_layout_is_of_its_latent_and_of_index_keys_alone() -> None:
    # vLLM, flashmla_sparse.py: 512 in fp8, 4 scales in fp32, 64 in bf16; an index key in fp8 and its scale.
    assert token_bytes(576, "fp8_ds_mla", heads=None, latent=True) == 512 + 4 * 4 + 64 * 2
    assert token_bytes(128, "fp8_ds_mla", heads=None) == 128 + 4
    for elements, heads, latent in ((320, None, True), (576, 8, False), (1024, 8, False), (100, None, False)):
        with pytest.raises(sizer.SizerError, match="latent of 576"):
            token_bytes(elements, "fp8_ds_mla", heads=heads, latent=latent)


def test_the_document(sizer_cli: Run) -> None:
    args = ["kv-cache", "llama-3-8b", "--batch-size", "2", "--seq-len", "8192", "--dtype", "bf16", "--json"]
    code, out, err = sizer_cli(*args, "--budget", "40GiB")
    found = json.loads(out)

    assert (code, err) == (0, "")
    assert (found["bytes"], found["bytes_per_token"], found["constant_bytes"]) == (2 * GIB, 131072, 0)
    assert (found["label"], found["formula"]) == ("exact", "4*L*T*B*D*K/H")
    assert found["budget"]["tokens"] == 163840


def test_a_draft_model_is_kept_beside_it(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("kv-cache", "llama-3-8b", "--draft", "llama-3.2-1b", "-q")
    both = sizer.load("llama-3-8b").kv_cache().bytes + sizer.load("llama-3.2-1b").kv_cache().bytes

    assert int(out) == both


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("40GiB", 40 * GIB),
        ("1.5 GB", 1_500_000_000),
        ("1,000", 1000),
        ("3.8125gib", 4093640704),
        ("", None),
        ("GiB", None),
        ("4 apples", None),
        ("1/0GiB", None),
    ],
)
def test_bytes_as_people_write_them(text: str, number: int | None) -> None:
    assert parse_bytes(text) == number
