"""Parameters of every rank against torch and Megatron, and what must hold of any plan."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from repository import ROOT

import sizer
from sizer.measures.sharding import FRAMEWORKS
from sizer.report.shard import by_rank

Run = Callable[..., tuple[int, str, str]]
with gzip.open(ROOT / "tests" / "fixtures" / "shard.jsonl.gz", "rt") as _file:
    MEASURED: list[dict[str, Any]] = [json.loads(line) for line in _file]
MEGATRON = {
    "hidden_size": 256,
    "num_attention_heads": 8,
    "head_dim": 32,
    "num_hidden_layers": 4,
    "vocab_size": 1024,
    "tie_word_embeddings": False,
}
DENSE = {"model_type": "llama", "intermediate_size": 704}
EXPERTS = {"model_type": "mixtral", "intermediate_size": 128, "num_local_experts": 8}


def measured_name(row: dict[str, Any]) -> str:
    plan = "-".join(f"{name}{row[name]}" for name in ("tp", "pp", "ep") if name in row)
    return f"{row['kind']}-{row.get('case', plan)}-rank{row['rank']}"


@pytest.mark.parametrize("row", MEASURED, ids=measured_name)
def test_a_measured_rank_holds_as_much(row: dict[str, Any]) -> None:
    if row["kind"] == "megatron":
        config = {**MEGATRON, **(EXPERTS if row.get("moe") else DENSE), "num_key_value_heads": row["nk"]}
        degrees = {
            "tp": row["tp"],
            "pp": row["pp"],
            "ep": row["ep"],
            "dp": row["W"] // row["tp"] // row["pp"],
        }
        framework = "megatron"
    else:
        config = {"model_type": "llama", "tie_word_embeddings": False, **row["config"]}
        framework, degrees = ("fsdp2", {"dp": 8}) if row["kind"] == "fsdp2" else ("dtensor", {"tp": 8})
    found = sizer.load(config).shards(framework, **degrees)
    rank = found.of(row["rank"])

    assert (rank.params, found.exact) == (row["local_numel"], True)
    assert rank.reserved == row.get("padded_numel", rank.reserved)
    assert found.total == row.get("full_numel", found.total)


with gzip.open(ROOT / "tests" / "fixtures" / "megatron-drawn.jsonl.gz", "rt") as _file:
    DRAWN: list[dict[str, Any]] = [json.loads(line) for line in _file]


@pytest.mark.parametrize("row", DRAWN, ids=range(len(DRAWN)))
def test_megatron_holds_as_much_of_a_drawn_model_or_refuses_it_too(row: dict[str, Any]) -> None:
    degrees = {name: row[name] for name in ("tp", "pp", "dp", "ep", "etp")}
    model = sizer.load(row["config"])

    if row["params"] is None:
        with pytest.raises(sizer.SizerError, match="; use "):
            model.shards("megatron", vocab_multiple=1, **degrees)
    else:
        found = model.shards("megatron", vocab_multiple=1, **degrees)
        assert found.of(row["rank"]).params == row["params"]


def test_experts_of_one_rank_each_need_no_data_parallel_ranks() -> None:
    # Megatron-core 0.16.1: 8 ranks with tp = 4 and etp = 1 hold experts four by four.
    model = sizer.load("mixtral-8x7b")

    assert model.shards("megatron", tp=4, ep=4, etp=1).plan.dp == 1
    with pytest.raises(sizer.SizerError, match="for ep · etp = 12 of tp · dp ranks; use dp = 3"):
        model.shards("megatron", tp=4, ep=12, etp=1, dp=2)


def test_stage_3_rounds_each_tensor_up() -> None:
    model = sizer.load("gpt2-small")
    expected = 0
    for tensor in model.tensors(layout="transformers"):
        if tensor.kind == "param" and tensor.tied_to is None:
            size = 1
            for width in tensor.shape:
                size *= width
            expected += -(-size // 7)

    assert by_rank(model.shards("deepspeed", dp=7, zero=3)) == [expected] * 7


def test_a_tied_head_stands_on_the_last_stage_again_and_its_tied_bias_does_not() -> None:
    # BertForPreTraining by hand, with the vocabulary of 30,522 padded to 239 · 128 = 30,592 rows.
    layers, vocab, d = 6 * 7_087_872, 30_592, 768
    embeddings = (vocab + 512 + 2 + 2) * d
    heads = (d * d + d) + (d * d + 3 * d) + (vocab * d + vocab) + (2 * d + 2)

    found = by_rank(sizer.load("bert-base", cls="BertForPreTraining").shards("megatron", pp=2))

    assert found == [embeddings + layers, layers + heads]


def test_stages_1_and_2_pad_one_buffer() -> None:
    # stage_1_and_2.py: padded to 2 · dp. 124,439,808 = 2 · 7 · 8,888,557 + 10.
    found = sizer.load("gpt2-small").shards("deepspeed", dp=7, zero=2).ranks[0]

    assert (found.params, found.optimizer, found.gradients) == (124439808, 2 * 8888558, 2 * 8888558)
    assert sizer.load("gpt2-small").shards("deepspeed", dp=7, zero=1).ranks[0].gradients == 124439808


def test_vllm_repeats_whole_heads() -> None:
    # 8 KV heads on 16 ranks: each has one, so k and v of 32 layers take 2 · 4096 · 128 a layer and rank.
    found = sizer.load("llama-3-8b").shards("vllm", tp=16)
    half = sizer.load("llama-3-8b").shards("megatron", tp=16)

    assert found.ranks[0].copies == 32 * 2 * 4096 * 128 // 2
    assert found.ranks[0].params - found.ranks[0].copies == half.ranks[0].params - half.ranks[0].padding


def test_vllm_pads_the_vocabulary_to_64() -> None:
    found = sizer.load("gpt2-small").shards("vllm", tp=4).ranks[0]

    assert found.padding == (50304 - 50257) // 4 * 768


def test_vllm_gives_what_is_left_to_the_stages_before_the_last() -> None:
    found = sizer.load("llama-3-8b", n_layers=10).shards("vllm", pp=4)

    assert [rank.place for rank in found.ranks] == [
        "stage 0: layers 0 to 1",
        "stage 1: layers 2 to 4",
        "stage 2: layers 5 to 7",
        "stage 3: layers 8 to 9",
    ]


def test_a_tied_table_is_on_both_ends_of_a_pipeline() -> None:
    found = sizer.load("gpt2-small", vocab_size=50304).shards("megatron", pp=2)

    assert found.ranks[-1].copies == 50304 * 768
    assert sum(rank.params - rank.copies for rank in found.ranks) == found.total


@pytest.mark.parametrize("degrees", [{"tp": 2}, {"tp": 4, "pp": 2}, {"pp": 8}, {"tp": 8, "pp": 4, "dp": 2}])
def test_ranks_add_up_to_the_model_and_what_is_replicated(degrees: dict[str, int]) -> None:
    model = sizer.load("llama-3-8b")
    found = model.shards("megatron", **degrees)
    norms = model.count().components["norm"]
    tp = degrees.get("tp", 1)
    one_copy = sum(rank.params * rank.count for rank in found.ranks) // degrees.get("dp", 1)
    padding = sum(rank.padding * rank.count for rank in found.ranks) // degrees.get("dp", 1)

    assert one_copy - padding == found.total + (tp - 1) * norms
    assert found.imbalance >= 1
    assert found.heaviest.params == max(by_rank(found))


BAD = [
    (["--tp", "3"], ["--tp 3 does not divide n_heads = 32", "use 1, 2, 4, 8, 16 or 32"]),
    (["--pp", "5"], ["--pp 5 does not divide n_layers = 32", "1, 2, 4, 8, 16 or 32"]),
    (["--dp", "0"], ["--dp 0 is zero"]),
    (["--zero", "4"], ["--zero 4 is no stage of ZeRO", "0, 1, 2 and 3"]),
    (["--framework", "megatrom"], ["no framework named 'megatrom'; did you mean 'megatron'?"]),
    (["--framework", "fsdp2", "--tp", "2"], ["--tp 2", "fsdp2 is known for dp alone"]),
    (["--framework", "vllm", "--pp", "64"], ["--pp 64 is more than n_layers = 32"]),
    (["--ep", "3", "--dp", "4"], ["--dp 4 is not a multiple of --ep 3; use --dp 6"]),
    (["--dtype", "bf17"], ["no cache dtype named 'bf17'"]),
    (["--ep", "2"], ["--ep 2: this architecture has no experts", "leave ep out"]),
    (["--sp"], ["--sp: that is of what ranks send; add --traffic"]),
]


@pytest.mark.parametrize(("args", "fragments"), BAD, ids=lambda x: " ".join(x))
def test_bad_input(sizer_cli: Run, args: list[str], fragments: list[str]) -> None:
    code, out, err = sizer_cli("shard", "llama-3-8b", *args)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert [text for text in fragments if text not in err] == []


def test_experts_that_do_not_divide() -> None:
    with pytest.raises(sizer.SizerError, match=r"ep = 3 does not divide n_experts = 8; use 1, 2, 4 or 8"):
        sizer.load({"model_type": "mixtral"}).shards("megatron", ep=3)


def test_the_document(sizer_cli: Run) -> None:
    code, out, _ = sizer_cli("shard", "gpt2-small", "--framework", "fsdp2", "--dp", "5", "--json")
    found = json.loads(out)

    assert code == 0
    assert found["heaviest"]["rank"] == 0
    assert found["params_by_rank"] == [24923636] * 4 + [24745264]
    assert sum(found["params_by_rank"]) == found["total"] == 124439808


def test_every_framework_says_where_its_rule_is_from() -> None:
    assert all("measured" in text for text in FRAMEWORKS.values())


def test_a_hundred_layers_of_experts_take_less_than_five_milliseconds() -> None:
    model = sizer.load({"model_type": "mixtral", "num_hidden_layers": 100})
    times = []
    for framework, degrees in (("megatron", {"tp": 8, "pp": 4, "ep": 8}), ("fsdp2", {"dp": 1024})):
        for _ in range(4):
            start = time.process_time()
            model.shards(framework, **degrees)
            times.append(time.process_time() - start)

    assert min(times[:4]) < 0.005
    assert min(times[4:]) < 0.005


def test_the_state_of_an_expert_is_shared_by_the_ranks_that_have_it() -> None:
    """Mixtral on eight ranks, an expert each: nobody else keeps the state of an expert."""
    found = sizer.load("mixtral-8x7b").shards("megatron", dp=8, ep=8, zero=1).ranks[0]
    dense, expert = 1_605_636_096, 45_097_156_608 // 8  # by hand from the configuration

    assert found.params - found.padding == dense + expert
    assert found.optimizer == pytest.approx(dense / 8 + expert, rel=1e-4)
