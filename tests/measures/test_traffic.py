"""What ranks send each other, against the volumes that the papers state."""

from __future__ import annotations

import json
from typing import Any

import pytest

import sizer
from sizer.errors import SizerError
from sizer.measures.traffic import traffic


def total(group: str = "", **options: Any) -> int:
    return sum(part.sent for part in traffic(**options) if group in ("", part.group))


def test_zero_moves_as_much_as_its_paper_says() -> None:
    # Section 7: 2Ψ for data parallelism and stages 1 and 2, 3Ψ for stage 3, each less a part in n.
    psi, n = 8_000, 8
    volumes = [
        total(layers=1, between=1, weights=psi, gradients=psi, dp=n, zero=zero) for zero in (0, 1, 2, 3)
    ]

    assert [volume * n / (n - 1) / psi for volume in volumes] == [2, 2, 2, 3]


def test_a_tensor_parallel_layer_has_four_all_reduces() -> None:
    (part,) = traffic(layers=1, between=1_000, tp=4)

    assert (part.collective, part.times, part.sent) == ("all-reduce", 4, 4 * 2 * 3 * 1_000 // 4)


def test_layers_that_run_again_have_six_all_reduces() -> None:
    # Megatron-LM, arXiv:1909.08053, section 3: two a layer in the forward pass, which runs twice.
    (found,) = traffic(layers=5, between=100, tp=2, again=True)

    assert (found.collective, found.times) == ("all-reduce", 6 * 5)


@pytest.mark.parametrize("tp", [2, 3, 8])
def test_sequence_parallelism_moves_as_much(tp: int) -> None:
    # Korthikanti et al., section 4.2.2: an all-reduce is a reduce-scatter and an all-gather.
    how = {"layers": 5, "between": 9_600, "micro_batches": 3, "tp": tp}
    split = traffic(sp=True, **how)

    assert [part.collective for part in split] == ["all-gather", "reduce-scatter"]
    assert sum(part.sent for part in split) == total(**how)


def test_every_degree_has_its_collective() -> None:
    found = traffic(
        layers=4, between=800, micro_batches=2, weights=160, gradients=160, tp=2, pp=2, cp=2, dp=4,
        replicate=2, ep=4, zero=2, moe_layers=3, top_k=2, keys_values=100,
    )  # fmt: skip

    assert [(p.group, p.collective, p.times, p.sent) for p in found] == [
        ("tp", "all-reduce", 32, 32 * 800),
        ("pp", "send", 4, 4 * 400),
        ("cp", "ring", 6, 6 * 100),
        ("ep", "all-to-all", 24, 24 * 800 * 3 // 4),
        ("dp", "reduce-scatter", 1, 140),
        ("dp", "all-gather", 1, 140),
        ("replicas", "all-reduce", 1, 20),
    ]


def test_the_command_says_what_a_rank_sends(sizer_cli: Any) -> None:
    args = ("--tp", "4", "--dp", "8", "--zero", "1", "--traffic", "--seq-len", "8192", "--json")
    code, out, _ = sizer_cli("shard", "llama-3-8b", *args)
    document = json.loads(out)

    # 32 layers · 4 all-reduces of 8,192 · 4,096 elements in 16 bits, 2·3/4 of each.
    assert code == 0
    assert document["transfers"][0]["sent_bytes"] == 32 * 4 * 8192 * 4096 * 2 * 3 // 2
    assert document["label"] == "estimate"


def test_replicas_and_context_ranks_hold_the_same() -> None:
    model = sizer.load("llama-3-8b")
    one, two = model.shards("fsdp2", dp=4), model.shards("fsdp2", dp=4, replicate=2)

    assert [two.of(i).params for i in range(8)] == 2 * [one.of(i).params for i in range(4)]
    assert model.shards(tp=2, cp=2, dp=2).heaviest.params == model.shards(tp=2, dp=4).heaviest.params


BAD = [
    (("--sp", "--traffic"), "sp without tp"),
    (("--framework", "vllm", "--traffic"), "vllm trains nothing"),
    (("--framework", "fsdp2", "--cp", "2"), "known for megatron alone"),
    (("--replicate", "2"), "known for fsdp2 alone"),
    (("--traffic", "--seq-len", "0"), "--seq-len 0 is zero"),
]


@pytest.mark.parametrize(("args", "fragment"), BAD, ids=lambda x: " ".join(x) if isinstance(x, tuple) else "")
def test_what_has_no_traffic(sizer_cli: Any, args: tuple[str, ...], fragment: str) -> None:
    code, out, err = sizer_cli("shard", "gpt2-small", *args)

    assert (code, out) == (2, "")
    assert fragment in err


def test_bad_sequence_parallelism() -> None:
    with pytest.raises(SizerError, match="sp without tp"):
        traffic(layers=1, between=1, sp=True)
