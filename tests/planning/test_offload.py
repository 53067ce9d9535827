"""Offloading and interleaved pipelines, against the papers' figures and a schedule that is walked through."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction

import pytest

import sizer
from sizer.measures.traffic import traffic
from sizer.planning.demand import Demand
from sizer.planning.fit import fit
from sizer.planning.hardware import hardware
from sizer.planning.held import Held, held
from sizer.planning.job import Job
from sizer.planning.layout import Layout, in_flight

Run = Callable[..., tuple[int, str, str]]

# Ren et al. 2021, abstract: one 32 GB V100 trains "over 13 billion parameters", PyTorch alone 1.4 billion;
# 70 billion on the 16 of a DGX-2 beside model parallelism.
PUBLISHED = [
    ("opt-13b", Layout(offload="gradients", checkpointing="full"), True),
    ("opt-13b", Layout(checkpointing="full"), False),
    ("gpt-neox-20b", Layout(offload="gradients", checkpointing="full"), False),
    ("opt-1.3b", Layout(checkpointing="full"), True),
    ("opt-2.7b", Layout(checkpointing="full"), False),
    ("llama-2-70b", Layout(tp=16, offload="gradients", checkpointing="full"), True),
    ("llama-2-70b", Layout(tp=16, checkpointing="full"), False),
]


@pytest.mark.parametrize(("name", "layout", "fits"), PUBLISHED, ids=lambda x: str(x)[:40])
def test_models_that_zero_offload_trained_on_v100(name: str, layout: Layout, fits: bool) -> None:
    found = fit(sizer.load(name), hardware("v100-sxm2-32gb"), Job("train", 1, 1024), layout)

    assert found.fits is fits


def on_h100(model: str, job: Job, layout: Layout) -> Held:
    return held(Demand(sizer.load(model)), hardware("h100"), job, layout)


def test_bytes_on_the_host_are_those_of_the_states() -> None:
    # ZeRO-Offload, section 3: 2M stay, and 14M bytes go (12M of fp32 states, 2M of gradients).
    # AdamW counts steps as well, in 4 bytes for each of 580 tensors.
    params = 1_557_611_200
    job = Job("train", 1, 1024)
    found = {
        name: on_h100("gpt2-xl", job, Layout(zero=3 * (name == "params"), offload=name))
        for name in ("none", "optimizer", "gradients", "params")
    }

    assert {name: one.host for name, one in found.items()} == {
        "none": 0,
        "optimizer": 12 * params + 4 * 580,
        "gradients": 14 * params + 4 * 580,
        "params": 16 * params + 4 * 580,
    }
    assert found["gradients"].of("weights") == 2 * params
    assert found["params"].of("weights") == 0
    # The largest layer's gradients are on their way: 12·1600² + 13·1600 of 2 bytes.
    assert found["params"].of("gradients") == 2 * (12 * 1600**2 + 13 * 1600)


@pytest.mark.parametrize("offload", ["optimizer", "gradients"])
def test_one_rank_holds_what_memory_says(sizer_cli: Run, offload: str) -> None:
    words = [
        "--batch-size",
        "2",
        "--seq-len",
        "512",
        "--checkpointing",
        "full",
        "--offload",
        offload,
        "--json",
    ]
    more = ["--mode", "train", "--precision", "bf16", "--master-weights"]
    whole = json.loads(sizer_cli("memory", "gpt2-large", *words, *more)[1])
    rank = json.loads(
        sizer_cli("fit", "gpt2-large", "--on", "a100", "--mode", "train", "--overhead", "1GB", *words)[1]
    )["rank"]

    assert rank["total_bytes"] - 10**9 == pytest.approx(whole["peak_bytes"], rel=0.02)
    assert rank["host_bytes"] == whole["host_bytes"]


def most_at_once(pp: int, vpp: int, stage: int, micro_batches: int) -> int:
    """Chunks whose backward pass is to come, along Megatron's interleaved schedule (`schedules.py`)."""
    total = micro_batches * vpp
    warmup = total if micro_batches == pp else min(2 * (pp - stage - 1) + (vpp - 1) * pp, total)
    steps = ["F"] * warmup
    for _ in range(total - warmup):
        steps += ["F", "B"]
    steps += ["B"] * warmup
    now = most = 0
    for step in steps:
        now += 1 if step == "F" else -1
        most = max(most, now)
    assert now == 0
    return most


@pytest.mark.parametrize("pp", [2, 3, 4, 8])
@pytest.mark.parametrize("vpp", [2, 3, 5])
def test_chunks_under_way_are_those_of_the_schedule(pp: int, vpp: int) -> None:
    for stage in range(pp):
        for times in (2, 3, 8):
            layout = Layout(pp=pp, vpp=vpp)
            assert in_flight(layout, stage, times * pp) == most_at_once(pp, vpp, stage, times * pp)
    # Korthikanti et al. 2022, section 4.2.3: the first stage keeps L · (1 + (p − 1) / (p · m)) layers.
    assert Fraction(in_flight(Layout(pp=pp, vpp=vpp), 0, 8 * pp), pp * vpp) == 1 + Fraction(pp - 1, pp * vpp)


def test_an_interleaved_pipeline_trades_waiting_for_memory_and_traffic(sizer_cli: Run) -> None:
    words = (
        "plan gpt3-175b --on a100-80gb --gpus 64 --mode train --batch-size 32 --seq-len 2048 --tp 8 --pp 8 "
        "--checkpointing full --precision megatron --json --vpp"
    )

    def asked(vpp: int) -> dict[str, float]:
        _, out, _ = sizer_cli(*words.split(), str(vpp))
        best = json.loads(out)["best"]
        kept = next(part["bytes"] for part in best["rank"]["parts"] if part["name"] == "activations")
        return {**best["cost"]["parts"], "kept": kept}

    plain, thrice = asked(1), asked(3)
    # Narayanan et al. 2021, section 2.2: the bubble is (p − 1) / (v · m), and v times as much is sent.
    assert plain["pipeline bubble"] / plain["compute"] == pytest.approx(7 / 32)
    assert thrice["pipeline bubble"] / thrice["compute"] == pytest.approx(7 / 96)
    assert thrice["pipeline"] == pytest.approx(3 * plain["pipeline"])
    assert thrice["kept"] > plain["kept"]
    sent = [
        one.sent for v in (1, 3) for one in traffic(layers=12, between=1000, pp=8, chunks=v, micro_batches=4)
    ]
    assert sent == [8_000, 24_000]


def test_what_only_the_host_has_room_for(sizer_cli: Run) -> None:
    words = ["plan", "llama-3-8b", "--on", "h100", "--max-gpus", "8", "--mode", "train", "--batch-size", "8"]
    alone = json.loads(sizer_cli(*words, "--json")[1])
    _, text, _ = sizer_cli(*words, "--host-memory", "200GiB", "--explain")
    helped = json.loads(sizer_cli(*words, "--host-memory", "200GiB", "--json")[1])
    little = json.loads(sizer_cli(*words, "--host-memory", "10GB", "--json")[1])

    assert alone["value"] == 2
    assert helped["value"] == 1
    assert helped["best"]["layout"]["offload"] != "none"
    assert 12 * 8_030_261_248 <= helped["best"]["rank"]["host_bytes"] <= 200 * 2**30
    assert {"host link", "host update"} <= set(helped["best"]["cost"]["parts"])
    assert little["best"]["layout"] == alone["best"]["layout"]
    assert "on the host" in text
    assert "51.2 GB/s" in text


def test_offloading_is_among_what_would_make_it_fit(sizer_cli: Run) -> None:
    words = ["llama-3-8b", "--on", "h100", "--mode", "train", "--batch-size", "1", "--checkpointing", "full"]
    code, out, _ = sizer_cli("fit", *words, "--json")
    changes = {change["name"]: change for change in json.loads(out)["changes"]}

    assert code == 1
    assert changes["offload"]["value"] == "optimizer"
    code, out, _ = sizer_cli("fit", *words, "--offload", "optimizer", "--json")
    assert code == 0
    assert json.loads(out)["rank"]["total_bytes"] == changes["offload"]["total_bytes"]
    assert sizer_cli("fit", *words, "--offload", "optimizer", "--host-memory", "40GB", "-q")[:2] == (
        1,
        "no\n",
    )


BAD = [
    (["fit", "--mode", "train", "--offload", "all"], "no thing to offload named 'all'"),
    (["fit", "--offload", "optimizer"], "--offload optimizer is of training"),
    (["fit", "--mode", "train", "--gpus", "2", "--offload", "optimizer"], "needs --zero 1 or more"),
    (
        ["fit", "--mode", "train", "--gpus", "2", "--zero", "1", "--offload", "gradients"],
        "needs --zero 2 or 3",
    ),
    (["fit", "--mode", "train", "--offload", "params"], "needs --zero 3"),
    (["fit", "--mode", "train", "--gpus", "2", "--pp", "2", "--offload", "gradients"], "--pp 2 contradict"),
    (["fit", "--mode", "train", "--vpp", "2"], "there is nothing to interleave; add pp"),
    (["fit", "--mode", "train", "--vpp", "0"], "--vpp 0"),
    (
        ["fit", "--mode", "train", "--pp", "4", "--gpus", "4", "--vpp", "2", "--batch-size", "6"],
        "use --batch-size 8",
    ),
    (
        ["fit", "--mode", "train", "--pp", "4", "--gpus", "4", "--vpp", "3", "--batch-size", "8"],
        "n_layers = 32 is no multiple of pp · vpp = 12",
    ),
    (["plan", "--gpus", "2", "--host-memory", "64GB"], "--host-memory 64000000000 is of training"),
    (
        ["plan", "--gpus", "2", "--mode", "train", "--host-memory", "much"],
        "--host-memory much is no number",
    ),
    (["plan", "--gpus", "2", "--vpp", "2"], "--vpp 2 is of training"),
]


@pytest.mark.parametrize(("args", "why"), BAD, ids=lambda x: " ".join(x)[:60] if isinstance(x, list) else "")
def test_what_contradicts_is_said(sizer_cli: Run, args: list[str], why: str) -> None:
    command, *rest = args
    code, out, err = sizer_cli(command, "llama-3-8b", "--on", "h100", *rest)

    assert (code, out) == (2, "")
    assert why in err
    assert err.count("\n") == 1


# DeepSpeed's documentation of its estimators (memory.rst), t5-3b on 8 GPUs, GiB of a GPU: ZeRO-2 with the
# optimizer and gradients on the CPU, and ZeRO-3 so, of which 0.12 GiB are one layer in fp32.
@pytest.mark.parametrize(("zero", "gib"), [(2, 5.31), (3, 0.79 - 0.12)])
def test_what_deepspeed_leaves_of_t5_3b_on_a_gpu(zero: int, gib: float) -> None:
    layout = Layout(dp=8, zero=zero, offload="gradients")
    found = on_h100("t5-3b", Job("train", 8, 512), layout)

    assert found.of("weights") / 2**30 == pytest.approx(gib, abs=0.01)
    assert found.of("optimizer state") == 0
