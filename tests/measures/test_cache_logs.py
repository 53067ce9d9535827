"""What engines logged of their caches: blocks, tokens, concurrency, cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cache_models import GIB, QWEN3_235B, QWEN38_27B, gpt_oss, llama

import sizer
from sizer.measures.cache_budget import fit
from sizer.measures.cache_kinds import kept
from sizer.measures.cache_layers import Setup

Run = Callable[..., tuple[int, str, str]]

# what, the model, ranks, the type, bytes of the pool, the tokens that a log says it holds, the log
POOLS = [
    ("gpt-oss-120b", lambda: gpt_oss(36), 1, "bf16", int(5.3822 * GIB), 78384, "hf-mem issue 60: 5.38 GiB"),
    (
        "qwen3-235b on four ranks",
        lambda: sizer.load(QWEN3_235B),
        4,
        "bf16",
        int(2 * 8.234 * GIB),
        367404,
        "vLLM 21348: SGLang's K of 8.234 GiB, and V as large",
    ),
    (
        "16 of 64 layers, fp8",
        lambda: llama(num_hidden_layers=16, num_key_value_heads=4, head_dim=256),
        1,
        "fp8",
        int(9.2444 * GIB),
        302921,
        "vLLM's log of Qwen3.8-27B: a concurrency of 2.31 at 131,072 tokens",
    ),
]


@pytest.mark.parametrize(("what", "model", "tp", "dtype", "pool", "tokens", "how"), POOLS)
def test_the_tokens_of_a_logged_pool(
    what: str, model: Callable[[], Any], tp: int, dtype: str, pool: int, tokens: int, how: str
) -> None:
    # With every layer as if it had no window: what the engines of these logs reserved.
    setup = Setup(1, 131072, 131072, dtype, tp=tp)
    found = fit(kept(model().rows()), setup, "full", pool)

    # The pool's size was logged to a thousandth of a GiB or better.
    assert found.tokens == pytest.approx(tokens, rel=1e-4)
    if "2.31" in how:
        assert found.concurrency == pytest.approx(2.31, abs=0.005)


# vLLM's log on a card of 24 GB, pages of 16 tokens: GiB, longest sequence, blocks, tokens, concurrency
PAGES = [(3.8125, 20000, 1952, 31232, 1.56), (2.88671875, 29000, 1478, 23648, 0.82)]


@pytest.mark.parametrize(("gib", "tokens", "blocks", "held", "concurrency"), PAGES)
def test_a_pool_of_pages(gib: float, tokens: int, blocks: int, held: int, concurrency: float) -> None:
    kinds = kept(sizer.load("llama-3-8b").rows())
    found = fit(kinds, Setup(1, tokens, tokens, "bf16"), "vllm", int(gib * GIB))

    assert (found.block_bytes, found.blocks, found.tokens, found.pool_tokens) == (2097152, blocks, held, held)
    assert round(found.concurrency or 0, 2) == concurrency


@pytest.mark.parametrize(("gib", "tokens", "blocks", "held", "concurrency"), PAGES)
def test_the_command_reads_as_the_log(
    sizer_cli: Run, gib: float, tokens: int, blocks: int, held: int, concurrency: float
) -> None:
    args = ("--seq-len", str(tokens), "--policy", "vllm", "--budget", f"{gib}GiB")
    code, out, _ = sizer_cli("kv-cache", "llama-3.1-8b", *args)

    assert code == 0
    assert f"{blocks:,}  of 2,097,152 bytes, {held:,} tokens in all" in out
    assert f"of {tokens:,} tokens ({concurrency:.2f} ×)" in out


def test_states_of_a_hybrid_take_two_pages_each_beside_a_prefix_cache() -> None:
    """Qwen3.8-27B on two ranks (2026): a pool of 9.98 GiB, fp8, 302,921 tokens, 2.31 × 131,072.

    A block is 16 pages, of 1,568 tokens; 84 of them hold keys and values and 6 the states of three
    groups of layers. 208 of them over 90 is 2.311, and 131,072 as many tokens.
    """
    model = sizer.load(QWEN38_27B)
    setup = Setup(1, 131072, 131072, "fp8", tp=2, state_pages=2)
    found = fit(kept(model.rows()), setup, "vllm", int(9.98 * GIB) // 2)

    assert (found.blocks, found.pool_tokens) == (208, 302_921)
    assert f"{found.concurrency:.2f}" == "2.31"
    assert model.kv_cache(dtype="fp8").bytes_per_token == 32768


def test_states_stay_wide_in_a_narrow_cache() -> None:
    # vLLM keeps a convolution's inputs in the type of the model, whatever --kv-cache-dtype says.
    found = {one.kept.name: one.constant for one in sizer.load(QWEN38_27B).kv_cache(dtype="fp8").layers}

    assert found["conv"] == 48 * (2 * 16 * 128 + 48 * 128) * 4 * 2
    assert found["ssm"] == 48 * 48 * 128 * 128 * 4


def test_cells_of_a_window_may_stay_wide() -> None:
    """ggml-org/llama.cpp pull request 21277: 1,536 cells for a window of 1,024 and a micro-batch of 512.

    It kept them in f16 beside a cache in q8_0, which 21332 took back: a type of their own here.
    """
    model = sizer.load({"model_type": "gemma3_text", "sliding_window": 1024, "num_hidden_layers": 6})
    narrow = model.kv_cache(1, 32768, "q8_0", "llama.cpp")
    wide = model.kv_cache(1, 32768, "q8_0", "llama.cpp", sliding_dtype="fp16")
    a_cell = 5 * 2 * 4 * 256  # elements: five layers, keys and values of 4 heads of 256

    assert {one.kept.window: one.reserved for one in wide.layers} == {None: 32768, 1024: 1536}
    assert wide.bytes - narrow.bytes == 1536 * a_cell * 2 - 1536 * a_cell * 34 // 32


def test_transformers_keeps_falcon_40b_a_head_at_a_time() -> None:
    # transformers 5.24, FalconAttention: keys and values are repeated for all 128 heads before the cache.
    model = sizer.load("falcon-40b")

    assert model.kv_cache(policy="architecture").bytes_per_token == 2 * 60 * 8 * 64 * 2
    assert model.kv_cache(policy="transformers").bytes_per_token == 2 * 60 * 128 * 64 * 2
