"""Real modules of random small configurations, run: FLOPs, caches and shards as torch has them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import sizer  # noqa: E402
from sizer.model import Model  # noqa: E402
from sizer.report import verify_runs  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
Run = Callable[..., tuple[int, str, str]]


def decoder(draw: random.Random) -> dict[str, Any]:
    kv_heads = draw.choice((1, 2))
    return {
        "vocab_size": draw.randrange(50, 200),
        "hidden_size": 24 * draw.randrange(1, 4),
        "intermediate_size": draw.randrange(20, 90),
        "num_hidden_layers": draw.randrange(1, 4),
        "num_attention_heads": kv_heads * draw.choice((2, 3)),
        "num_key_value_heads": kv_heads,
        "head_dim": 2 * draw.randrange(2, 9),
    }


def experts(draw: random.Random) -> dict[str, Any]:
    return {
        "num_experts_per_tok": draw.choice((1, 2)),
        "moe_intermediate_size": draw.randrange(9, 40),
    }


def latent(draw: random.Random) -> dict[str, Any]:
    sizes = decoder(draw)
    sizes["num_key_value_heads"] = sizes["num_attention_heads"]
    return {
        **sizes,
        **experts(draw),
        "n_routed_experts": 4,
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "num_hidden_layers": 3,
        "kv_lora_rank": 2 * draw.randrange(4, 12),
        "q_lora_rank": draw.choice((None, 20)),
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": draw.randrange(3, 12),
        "v_head_dim": draw.randrange(3, 12),
        "head_dim": 4,
    }


def gpt2(draw: random.Random) -> dict[str, Any]:
    heads = draw.choice((2, 3))
    return {
        "vocab_size": 61,
        "n_embd": heads * 8,
        "n_head": heads,
        "n_layer": 2,
        "n_inner": draw.randrange(20, 90),
    }


def bert(draw: random.Random) -> dict[str, Any]:
    keys = ("vocab_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    sizes = decoder(draw)
    return {**{key: sizes[key] for key in keys}, "hidden_size": sizes["num_attention_heads"] * 8}


def t5(draw: random.Random) -> dict[str, Any]:
    return {
        "vocab_size": 70,
        "d_model": draw.randrange(10, 40),
        "d_kv": draw.randrange(3, 9),
        "d_ff": draw.randrange(20, 90),
        "num_layers": 2,
        "num_decoder_layers": draw.choice((1, 3)),
        "num_heads": draw.choice((2, 3)),
        "feed_forward_proj": draw.choice(("relu", "gated-gelu")),
        "decoder_start_token_id": 0,
    }


def windowed(draw: random.Random) -> dict[str, Any]:
    return {**decoder(draw), "sliding_window": draw.choice((4, 9, 30))}


FAMILIES: list[tuple[str, str, Callable[[random.Random], dict[str, Any]]]] = [
    ("gpt2", "GPT2LMHeadModel", gpt2),
    ("llama", "LlamaForCausalLM", decoder),
    ("mistral", "MistralForCausalLM", windowed),
    ("gemma2", "Gemma2ForCausalLM", windowed),
    ("qwen3", "Qwen3ForCausalLM", decoder),
    (
        "mixtral",
        "MixtralForCausalLM",
        lambda draw: {**decoder(draw), **experts(draw), "num_local_experts": 5},
    ),
    ("qwen3_moe", "Qwen3MoeForCausalLM", lambda draw: {**decoder(draw), **experts(draw), "num_experts": 6}),
    ("deepseek_v3", "DeepseekV3ForCausalLM", latent),
    ("bert", "BertForMaskedLM", bert),
    ("t5", "T5ForConditionalGeneration", t5),
]
# A kernel, a seed of the sizes: every family under each kernel, and twice under the first.
RUNS = [("eager", 1), ("eager", 2), ("sdpa", 3), ("flash", 4), ("checkpointing", 5)]


def drawn(
    family: tuple[str, str, Callable[[random.Random], dict[str, Any]]], seed: int
) -> tuple[Model, dict[str, Any]]:
    kind, cls, sizes = family
    draw = random.Random(f"{kind} {seed}")
    model = sizer.load({"model_type": kind, **sizes(draw)}, cls=cls)
    lengths = {"batch_size": draw.randrange(1, 4), "seq_len": draw.randrange(5, 30)}
    return model, {**lengths, "encoder_len": draw.randrange(3, 20) if kind == "t5" else None}


# Sdpa has no soft cap of the scores, which Gemma 2 needs.
COUNTED = [
    pytest.param(family, *run, id=f"{family[0]}-{run[0]}-{run[1]}")
    for family in FAMILIES
    for run in RUNS
    if not (family[0] == "gemma2" and run[0] in ("sdpa", "flash"))
]


@pytest.mark.parametrize(("family", "kernel", "seed"), COUNTED)
def test_torchs_counter_counts_as_much(family: Any, kernel: str, seed: int) -> None:
    model, lengths = drawn(family, seed)
    checkpointing = kernel == "checkpointing"
    attention = "eager" if checkpointing else kernel

    found = verify_runs.report(model, "flops", attention=attention, checkpointing=checkpointing, **lengths)

    assert found.document()["differences"] == []


# BERT keeps nothing, and a static cache of an encoder-decoder has room for one length alone.
CACHED = [
    pytest.param(family, policy, seed, id=f"{family[0]}-{policy}")
    for family in FAMILIES
    for policy, seed in (("transformers", 6), ("static", 7))
    if family[0] != "bert" and (family[0], policy) != ("t5", "static")
]


@pytest.mark.parametrize(("family", "policy", "seed"), CACHED)
def test_transformers_caches_keep_as_much(family: Any, policy: str, seed: int) -> None:
    model, lengths = drawn(family, seed)

    found = verify_runs.report(model, "kv-cache", policy=policy, dtype="bf16", **lengths)

    assert found.document()["differences"] == []


@pytest.mark.parametrize("family", FAMILIES[:3] + FAMILIES[5:], ids=lambda family: family[0])
def test_fsdp2_gives_every_rank_as_much(family: Any) -> None:
    model, _ = drawn(family, 3)

    assert verify_runs.report(model, "shards", ranks=3).document()["differences"] == []


def test_tensor_parallelism_gives_every_rank_as_much() -> None:
    model, _ = drawn(FAMILIES[1], 4)

    found = verify_runs.report(model, "shards", framework="dtensor", ranks=4)

    assert found.document()["differences"] == []


def test_a_difference_is_an_exit_code_of_1(sizer_cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from sizer.oracles import flops

    monkeypatch.setattr(flops, "measure", lambda *_, **__: {"forward": 1, "backward": 2})
    code, out, _ = sizer_cli("verify", "gpt2-small", "--what", "flops", "--json")

    assert code == 1
    assert [d["theirs"] for d in json.loads(out)["differences"]] == [1, 2]


BAD = [
    (["--what", "flop"], "no measure named 'flop'; did you mean 'flops'?"),
    (["--what", "shards", "--framework", "megatron"], "megatron cannot be measured here"),
    (["--what", "kv-cache", "--policy", "vllm"], "no cache of transformers named 'vllm'"),
]


@pytest.mark.parametrize(("args", "fragment"), BAD, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_what_cannot_be_measured(sizer_cli: Run, args: list[str], fragment: str) -> None:
    code, out, err = sizer_cli("verify", "gpt2-small", *args)

    assert (code, out) == (2, "")
    assert fragment in err
