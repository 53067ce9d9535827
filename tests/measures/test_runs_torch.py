"""Real modules of random small configurations, run: FLOPs, caches and shards as torch has them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from drawn_models import FAMILIES, MORE, decoder, drawn

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import sizer  # noqa: E402
from sizer.report import verify_runs  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
# Products this small take longer on two threads than on one.
torch.set_num_threads(1)
Run = Callable[..., tuple[int, str, str]]


# A kernel, a seed of the sizes: every family under each kernel, and twice under the first.
RUNS = [("eager", 1), ("eager", 2), ("sdpa", 3), ("flash", 4), ("checkpointing", 5)]


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


# A cache to begin with, passes of so many tokens or of one, and the logits of the last alone.
PASSES: list[dict[str, int]] = [
    {"past_len": 9},
    {"chunk": 4},
    {"decode": 3},
    {"past_len": 5, "chunk": 3, "logits_to_keep": 2},
    {"past_len": 7, "decode": 2},
]
OVER_A_CACHE = [
    pytest.param(family, passes, seed, id=f"{family[0]}-{'-'.join(passes)}")
    for family in FAMILIES + MORE
    for seed, passes in enumerate(PASSES)
    if family[0] != "bert" and not (family[0] == "t5" and "logits_to_keep" in passes)
]


@pytest.mark.parametrize(("family", "passes", "seed"), OVER_A_CACHE)
def test_passes_over_a_cache_count_as_much(family: Any, passes: dict[str, int], seed: int) -> None:
    model, lengths = drawn(family, seed)

    found = verify_runs.report(model, "flops", attention="eager", **lengths, **passes)

    assert found.document()["differences"] == []


@pytest.mark.parametrize("cls", ["BertModel", "BertForPreTraining", "BertForNextSentencePrediction"])
def test_every_result_of_an_encoder_has_a_backward_pass(cls: str) -> None:
    kind, _, sizes = next(family for family in FAMILIES if family[0] == "bert")
    model, lengths = drawn((kind, cls, sizes), 8)

    assert verify_runs.report(model, "flops", attention="eager", **lengths).document()["ok"]


# BERT keeps nothing, and a static cache of an encoder-decoder has room for one length alone.
CACHED = [
    pytest.param(family, policy, seed, id=f"{family[0]}-{policy}")
    for family in FAMILIES + MORE
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


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen3", "olmo2", "gemma"])
def test_tensor_parallelism_gives_every_rank_as_much(kind: str, tied: bool) -> None:
    sizes = decoder(random.Random(f"{kind} {tied}"))
    if kind == "olmo2":
        sizes["head_dim"] = sizes["hidden_size"] // sizes["num_attention_heads"]
    cls = {"llama": "Llama", "qwen3": "Qwen3", "olmo2": "Olmo2", "gemma": "Gemma"}[kind] + "ForCausalLM"
    model = sizer.load({"model_type": kind, **sizes, "tie_word_embeddings": tied}, cls=cls)

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
    (["--what", "flops", "--past", "-1"], "--past -1 is negative"),
    (["--what", "flops", "--chunk", "2", "--decode", "3"], "give one of the two"),
    (["--what", "kv-cache", "--dtype", "fp8"], "no type of a cache of transformers named 'fp8'"),
    (["--what", "kv-cache", "--seq-len", "0"], "--seq-len 0 is zero"),
    (["--what", "kv-cache", "--policy", "vllm"], "no cache of transformers named 'vllm'"),
]


@pytest.mark.parametrize(("args", "fragment"), BAD, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_what_cannot_be_measured(sizer_cli: Run, args: list[str], fragment: str) -> None:
    code, out, err = sizer_cli("verify", "gpt2-small", *args)

    assert (code, out) == (2, "")
    assert fragment in err
