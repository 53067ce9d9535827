"""What a rank holds, whether it fits, and the changes that would make it fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import sizer
from sizer.errors import InvalidConfig, SizerError
from sizer.planning.changes import together
from sizer.planning.demand import Demand
from sizer.planning.fit import fit
from sizer.planning.hardware import Accelerator, hardware
from sizer.planning.hardware_file import parse
from sizer.planning.held import held
from sizer.planning.job import Job
from sizer.planning.largest import largest_left
from sizer.planning.layout import Layout, layout_of
from sizer.planning.pieces import Pieces, plan_of

Run = Callable[..., tuple[int, str, str]]
GIB = 2**30


def card(gib: float, **more: object) -> Accelerator:
    """An accelerator with that much usable memory."""
    lines = [f"memory_gb = {gib}", f"usable_gib = {gib}", "bandwidth_gb_s = 1000"]
    lines += [f"{name} = {value}" for name, value in more.items()]
    return parse("\n".join(["[card]", *lines, "dense_tflops = { bf16 = 100 }"]).encode(), "test")[0]


# Elements of a rank are those that `sharding` has, which were measured in Megatron itself.
@pytest.mark.parametrize(
    ("name", "tp", "pp"),
    [
        ("llama-3-8b", 4, 4),
        ("llama-3-8b", 16, 1),
        ("llama-3.2-1b", 2, 2),
        ("gpt2-small", 4, 3),
        ("mixtral-8x7b", 2, 8),
        ("qwen3-30b-a3b", 4, 2),
        ("jamba-v0.1", 2, 2),
        ("gpt-oss-20b", 2, 4),
        ("gemma-2-2b", 2, 2),
    ],
)
def test_elements_of_a_stage(name: str, tp: int, pp: int) -> None:
    model = sizer.load(name)
    stages = Pieces(model.rows("transformers"), plan_of("megatron", tp, 1, tp)).stages(pp)
    measured = model.shards("megatron", tp=tp, pp=pp, vocab_multiple=128 if tp > 1 else 1)

    assert [s.elements.total for s in stages] == [measured.ranks[s.index].params for s in stages]


@pytest.mark.parametrize(
    "name", ["deepseek-v3", "t5-3b", "whisper-tiny", "zamba-7b", "mamba2-2.7b", "albert-base-v2"]
)
def test_one_rank_holds_the_model(name: str) -> None:
    model = sizer.load(name)
    stage = Pieces(model.rows("transformers"), plan_of("megatron", 1, 1, 1)).stages(1)[0]

    # The router's bias of DeepSeek-V3 is a buffer in transformers, and no part of either.
    assert stage.elements.total == model.count().total


@pytest.mark.parametrize("checkpointing", ["none", "full"])
@pytest.mark.parametrize(("precision", "master"), [("mixed", True), ("bf16", False), ("fp32", False)])
def test_one_rank_trains_in_what_memory_says(checkpointing: str, precision: str, master: bool) -> None:
    """`sizer memory` was compared with PyTorch's own MemTracker."""
    model = sizer.load("gpt2-small")
    job = Job("train", 4, 512, precision=precision, overhead=0)
    one = held(Demand(model), hardware("h100"), job, Layout(checkpointing=checkpointing))
    step = "fp32" if precision == "fp32" else "bf16"
    peak = model.memory(
        "train", batch_size=4, seq_len=512, precision=step, checkpointing=checkpointing, master_weights=master
    ).peak_bytes

    assert one.total == peak


def test_one_rank_serves_in_what_memory_says() -> None:
    model = sizer.load("llama-3-8b")
    one = held(Demand(model), hardware("h100"), Job("infer", 3, 2048), Layout())

    assert one.total == model.memory("infer", batch_size=3, seq_len=2048).total_bytes


LAYOUTS = [Layout(dp=4), Layout(tp=4), Layout(pp=4), Layout(tp=2, pp=2), Layout(cp=4)]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_more_ranks_and_higher_stages_never_hold_more(layout: Layout) -> None:
    demand, device = Demand(sizer.load("llama-3.2-1b")), hardware("h100")
    job = Job("train", 16, 1024)

    def total(other: Layout) -> int:
        return held(demand, device, job, other).total

    assert total(layout._replace(checkpointing="full")) < total(layout)
    assert total(layout._replace(tp=layout.tp * 2)) < total(layout)
    if layout.dp * layout.cp > 1:
        one, two = (total(layout._replace(zero=z)) for z in (1, 2))
        assert two < one < total(layout)


def test_experts_are_shared_by_fewer_ranks_than_the_rest() -> None:
    demand = Demand(sizer.load("mixtral-8x7b"))
    job = Job("train", 8, 512)
    whole = held(demand, hardware("h100"), job, Layout(dp=8))
    spread = held(demand, hardware("h100"), job, Layout(dp=8, ep=8, zero=1))
    dense, expert = 1_605_636_096, 45_097_156_608  # of 46,702,792,704: by hand from the configuration

    assert whole.of("weights") == 2 * (dense + expert)
    assert spread.of("weights") == 2 * (dense + expert // 8)
    # Each expert is on one of the eight ranks, so nobody shares its state.
    assert spread.of("optimizer state") == pytest.approx(12 * (dense / 8 + expert / 8), rel=1e-6)


CASES = [
    ("llama-3-70b", "h100", Job(engine="vllm"), Layout()),
    ("llama-3-70b", "rtx-4090", Job(engine="llama.cpp", dtype="int4"), Layout()),
    ("llama-3-8b", "rtx-4090", Job(batch_size=64, seq_len=8192, engine="vllm"), Layout()),
    ("llama-3-8b", "h100", Job("train", 8, 8192), Layout(dp=8)),
    ("llama-3-8b", "h100", Job("train", 64, 8192), Layout(dp=8, zero=1)),
    ("gpt2-xl", "rtx-3090", Job("train", 8, 1024), Layout()),
    ("mixtral-8x7b", "h200", Job("train", 16, 4096), Layout(dp=8, ep=8, zero=1)),
]


@pytest.mark.parametrize(("name", "on", "job", "layout"), CASES, ids=lambda x: str(x)[:30])
def test_each_change_makes_it_fit_and_a_smaller_one_does_not(
    name: str, on: str, job: Job, layout: Layout
) -> None:
    demand, device = Demand(sizer.load(name)), hardware(on)
    found = fit(demand, device, job, layout)

    assert not found.fits
    assert found.changes
    assert all(change.held.fits for change in found.changes)
    for change in found.changes:
        if change.name in ("seq_len", "batch_size", "gpu_layers"):
            more = job._replace(**{change.name: change.value + 1})  # type: ignore[operator]
            assert held(demand, device, more, layout).fits is False, change.text
        if change.name == "zero":
            assert not held(demand, device, job, layout._replace(zero=change.value - 1)).fits  # type: ignore[operator]
        if change.name == "dtype":
            wider = {"fp8": "bf16", "int4": "fp8"}[str(change.value)]
            cache = job.cache_dtype
            assert not held(demand, device, job._replace(dtype=wider, kv_dtype=cache), layout).fits


def test_several_changes_at_once_where_one_is_not_enough() -> None:
    demand, device = Demand(sizer.load("llama-3-8b")), hardware("a100-40gb")
    found = next(together(demand, device, Job("train", 8, 8192), Layout(dp=8)))

    assert "checkpointing=full" in str(found.value)
    assert found.held.fits


def test_llama_cpp_puts_as_many_layers_on_the_gpu_as_fit() -> None:
    demand, job = Demand(sizer.load("llama-3-70b")), Job(engine="llama.cpp", dtype="int4", seq_len=8192)
    found = fit(demand, hardware("rtx-4090"), job, Layout())
    change = next(one for one in found.changes if one.name == "gpu_layers")

    assert 40 < change.value < 80  # type: ignore[operator]
    assert change.text.endswith("of 80 layers on the GPU, the others on the CPU")


@pytest.mark.parametrize(
    ("left", "most", "answer"),
    [
        (lambda n: 37 - n, 1000, 37),
        (lambda n: -1, 1000, 0),
        (lambda n: 1, 1000, 1000),
        (lambda n: 10**9 - n * n, 2**28, 31622),
        (lambda n: 1000 - -(-n // 256) * 256, 2**28, 768),
        (lambda n: 5 if n < 12345 else -(10**12), 2**28, 12344),
        # The line through two points of a curve ends one too far.
        (lambda n: 10 - n if n < 10 else -(100**n), 15, 10 - 1),
        (lambda n: 1000 - n * n // 7, 4096, 83),
        # From 64, where 448 are left, a line to -448 at 512 ends at 288.
        (lambda n: 448 if n <= 64 else 1 if n < 288 else -448, 1000, 287),
    ],
)
def test_the_largest_number_that_leaves_something(left: Callable[[int], int], most: int, answer: int) -> None:
    asked: list[int] = []

    def noted(n: int) -> int:
        asked.append(n)
        return left(n)

    assert largest_left(noted, most) == answer
    assert len(asked) < 100


def test_a_stage_without_the_layers_that_share_their_tensors() -> None:
    # Zamba 7B v1: attention in layers 2, 7, 13, 19, …, 73 of 76, a layer of a mixer alone has 86,530,432
    # elements, the table 32000 · 3712; the last stage has the norm behind, and the tied table again.
    model = sizer.load("zamba-7b")
    stages = Pieces(model.rows("transformers"), plan_of("megatron", 1, 1, 1)).stages(38)

    assert stages[0].elements.total == 2 * 86_530_432 + 32_000 * 3712
    assert stages[-1].elements.total == 2 * 86_530_432 + 3712 + 32_000 * 3712


PROPOSED = [
    # A cache in 4.5 bits is smaller than one in 8, and SGD keeps less than Adam in 8 bits.
    ("llama-3-8b --on h100 --batch-size 80", "cache in fp8", True),
    ("llama-3-8b --on h100 --batch-size 120 --kv-dtype q4_0", "cache in fp8", False),
    ("llama-3.2-1b --on t4 --mode train --batch-size 1 --seq-len 512", "adamw-8bit", True),
    ("llama-3.2-1b --on t4 --mode train --batch-size 64 --seq-len 512 --optimizer sgd", "adamw-8bit", False),
    ("llama-3-8b --on rtx-4090 --engine llama.cpp --seq-len 70000", "layers on the GPU, the others", True),
    (
        "llama-3-8b --on rtx-4090 --engine llama.cpp --seq-len 120000 --gpu-layers 32",
        "layers on the GPU, the others",
        False,
    ),
    ("llama-3-70b --on h100 --gpu-memory-utilization 0.0001", "no single change makes it fit", True),
]


@pytest.mark.parametrize(("line", "text", "there"), PROPOSED, ids=[line for line, _, _ in PROPOSED])
def test_what_is_proposed_would_help(sizer_cli: Run, line: str, text: str, there: bool) -> None:
    code, out, _ = sizer_cli("fit", *line.split())

    assert code == 1
    assert (text in out) == there, out


def test_degrees_multiply_to_the_gpus() -> None:
    train, serve = Job("train"), Job()

    assert layout_of(train, gpus=16, tp=4, pp=2) == Layout(4, 2, 2)
    assert layout_of(serve, gpus=8) == Layout(8)
    assert layout_of(serve, gpus=8, tp=4) == Layout(4, 1, 2)
    assert layout_of(serve, tp=2, pp=3) == Layout(2, 3)


BAD = [
    (["--gpus", "0"], ["--gpus 0 is zero; it must be at least 1"]),
    (["--gpus", "-4"], ["--gpus -4"]),
    (["--gpus", "99999999999"], ["--gpus 99999999999 is more than"]),
    (["--gpus", "8", "--tp", "3"], ["--gpus 8 is not what --tp 3 multiply to", "use --gpus 9"]),
    (["--gpus", "8", "--tp", "2", "--dp", "2"], ["--gpus 8", "tp = 2 · dp = 2", "use --gpus 4"]),
    (["--tp", "3"], ["--tp 3"]),
    (["--pp", "64"], ["--pp 64 is more than n_layers = 32"]),
    (["--batch-size", "-1"], ["--batch-size -1"]),
    (["--seq-len", "0"], ["--seq-len 0"]),
    (["--mode", "tain"], ["no mode named 'tain'; did you mean 'train'"]),
    (["--mode", "train", "--engine", "vllm"], ["--engine vllm serves and --mode train trains"]),
    (["--zero", "3"], ["--zero 3 is of training"]),
    (["--mode", "train", "--zero", "4"], ["--zero 4 is no stage"]),
    (["--mode", "train", "--zero", "3", "--pp", "2", "--dp", "2"], ["--zero 3 and --pp 2 contradict"]),
    (["--mode", "train", "--dp", "8", "--batch-size", "9"], ["--batch-size 9 is no multiple of --dp 8"]),
    (["--mode", "train", "--dp", "3", "--ep", "2"], ["--ep 2 does not divide dp · cp = 3"]),
    (["--tp", "4", "--ep", "2"], ["--ep 2", "use that, or 1"]),
    (["--gpu-memory-utilization", "1.5"], ["gpu_memory_utilization = 1.5"]),
    (["--dtype", "bf17"], ["no weight format named 'bf17'"]),
    (["--kv-dtype", "fp7"], ["no cache dtype named 'fp7'"]),
    (["--engine", "vlm"], ["no engine named 'vlm'; did you mean 'vllm'"]),
    (["--optimizer", "adamx"], ["no optimizer named 'adamx'"]),
    (["--overhead", "much"], ["--overhead much is no number of bytes"]),
    (["--gpu-layers", "5"], ["--gpu-layers 5", "llama.cpp"]),
    (["--unit", "GX"], ["no unit named 'GX'"]),
    (["--hardware-file", "nowhere.toml"], ["nowhere.toml is no file"]),
]


@pytest.mark.parametrize(("args", "fragments"), BAD, ids=lambda x: " ".join(x)[:50])
def test_bad_input_is_a_line_and_exit_2(sizer_cli: Run, args: list[str], fragments: list[str]) -> None:
    code, out, err = sizer_cli("fit", "llama-3-8b", "--on", "h100", *args)

    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert [fragment for fragment in fragments if fragment not in err] == [], err


def test_the_nearest_accelerators_are_named(sizer_cli: Run) -> None:
    code, _, err = sizer_cli("fit", "llama-3-8b", "--on", "h1000")

    assert code == 2
    assert "no accelerator named 'h1000'; did you mean 'h100'" in err


def test_fit_on_the_command_line(sizer_cli: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[small]\nmemory_gb = 16\nusable_gib = 15.5\n")
    args = ("llama-3-8b", "--on", "small", "--hardware-file", str(own))
    code, out, _ = sizer_cli("fit", *args, "--json")
    document = json.loads(out)

    assert code == 1
    assert document["fits"] is False
    assert document["rank"]["budget_bytes"] == int(15.5 * GIB)
    assert (
        document["rank"]["left_bytes"] == document["rank"]["budget_bytes"] - document["rank"]["total_bytes"]
    )
    assert {change["name"] for change in document["changes"]} >= {"dtype", "seq_len", "gpus"}
    assert sizer_cli("fit", *args, "-q")[:2] == (1, "no\n")
    assert sizer_cli("fit", *args, "--dtype", "int4", "-q")[:2] == (0, "yes\n")
    code, out, _ = sizer_cli("fit", *args, "--csv")
    assert out.splitlines()[0] == "name,bytes,label,what"


def test_a_context_beyond_the_models_is_warned_of(sizer_cli: Run) -> None:
    code, _, err = sizer_cli("fit", "gpt2-small", "--on", "h100", "--seq-len", "4096")

    assert code == 0
    assert "warning" in err
    assert sizer_cli("fit", "gpt2-small", "--on", "h100")[2] == ""


def test_a_job_is_checked_wherever_it_is_made() -> None:
    for values in (
        {"mode": "x"},
        {"batch_size": 0},
        {"utilization": 0.0},
        {"overhead": -1},
        {"seq_len": True},
    ):
        with pytest.raises(SizerError):
            Job(**values)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfig, match="pp = 2"):
        held(Demand(sizer.load("t5-small")), hardware("h100"), Job("train", 8, 128), Layout(pp=2))
    assert card(10).usable_bytes == 10 * GIB
