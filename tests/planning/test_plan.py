"""The search finds the optimum: on small spaces that of a plain enumeration, on large ones in time."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import sizer
from sizer.errors import InvalidConfig, SizerError
from sizer.planning.cost import cost_of
from sizer.planning.demand import Demand
from sizer.planning.hardware import Accelerator, hardware
from sizer.planning.hardware_file import parse
from sizer.planning.held import Held, held
from sizer.planning.job import Job
from sizer.planning.layout import Layout, check
from sizer.planning.plan import plan
from sizer.planning.space import Choices

Run = Callable[..., tuple[int, str, str]]
GIB = 2**30


def card(gib: float) -> Accelerator:
    text = (
        f"[card]\nmemory_gb = {gib}\nusable_gib = {gib}\nbandwidth_gb_s = 1000\nnode_gpus = 4\n"
        "link_gb_s = 200\nnetwork_gbit_s = 100\ndense_tflops = { bf16 = 100, fp32 = 20 }\n"
    )
    return parse(text.encode(), "test")[0]


def models() -> Iterator[tuple[str, Demand]]:
    yield "dense", Demand(sizer.load("llama-3.2-1b", n_layers=6, d_model=1024, d_ff=3072))
    yield (
        "moe",
        Demand(
            sizer.load("mixtral-8x7b", n_layers=4, d_model=512, d_ff=1024, n_heads=8, n_kv_heads=4, d_head=64)
        ),
    )
    yield "deep", Demand(sizer.load("llama-3.2-1b", n_layers=16, d_model=1024, d_ff=3072))
    yield "gpt2", Demand(sizer.load("gpt2-small", n_layers=4))


DEMANDS = dict(models())


def enumerated(
    job: Job, demand: Demand, device: Accelerator, gpus: int, experts: int
) -> Iterator[tuple[Job, Layout, Held]]:
    """Every layout, written down plainly: all degrees that multiply to the GPUs, all that is allowed."""
    n_layers = demand.pieces(job, Layout()).n_layers
    degrees = range(1, gpus + 1)
    for tp, pp, cp, dp in product(degrees, repeat=4):
        if tp * pp * cp * dp != gpus or tp > (device.node_gpus or 8) or pp > n_layers:
            continue
        if job.trains:
            if cp not in (1, 2, 4, 8, 16) or (cp > 1 and cp > job.seq_len // 1024):
                continue
            chunks = [n for n in range(1, n_layers + 1) if n_layers % (pp * n) == 0] if pp > 1 else [1]
            away = ["none", *(("optimizer", "gradients", "params") if job.host_memory else ())]
            sizes = (1, 2, 4, 8, 16, 32, 64)
            options = product(degrees, range(4), ("none", "full"), sizes, chunks or [1], away)
        else:
            if cp > 1:
                continue
            options = product((1, tp * dp), (0,), ("none",), (0,), [1], ["none"])
        for ep, zero, checkpointing, micro, vpp, offload in set(options):
            if ep > 1 and (not experts or ep > experts or (job.trains and experts % ep)):
                continue
            if zero and dp * cp == 1 and offload != "params":
                continue
            layout = Layout(tp, pp, dp, cp, ep, zero, checkpointing, vpp, offload)
            one = job
            if job.trains:
                batch = job.batch_size
                if batch is None:
                    if micro > 1:
                        continue
                    batch = dp * pp
                if batch % dp or batch // dp % micro:
                    continue
                one = job._replace(batch_size=batch, micro_batch=micro)
            try:
                check(one, layout)
                yield one, layout, held(demand, device, one, layout)
            except InvalidConfig:
                continue


CASES = [
    ("dense", Job("train", 16, 4096), 3.0, 8),
    ("dense", Job("train", 16, 4096), 1.2, 8),
    ("dense", Job("train", None, 2048), 2.0, 8),
    ("dense", Job("infer", 8, 16384), 0.6, 8),
    ("moe", Job("train", 8, 2048), 1.4, 8),
    ("moe", Job("infer", 4, 4096), 0.1, 8),
    ("gpt2", Job("train", 8, 1024), 1.0, 4),
    ("dense", Job("train", 16, 4096, host_memory=2 * GIB), 0.9, 8),
    ("dense", Job("train", 16, 2048, host_memory=4 * GIB), 0.65, 4),
    ("dense", Job("train", 8, 2048, host_memory=GIB // 2), 0.9, 8),
    ("moe", Job("train", 8, 2048, host_memory=2 * GIB), 0.5, 8),
    ("gpt2", Job("train", 8, 1024, host_memory=GIB), 0.4, 4),
    # Few micro-batches and no room for whole weights: stages wait less where they interleave.
    ("deep", Job("train", 4, 1024), 2.0, 4),
    ("gpt2", Job("infer", 2, 1024, engine="vllm", overhead=0, batched_tokens=512), 0.2, 4),
]


@pytest.mark.parametrize(("name", "job", "gib", "most"), CASES, ids=lambda x: str(x)[:24])
def test_fewest_gpus_is_that_of_a_plain_enumeration(name: str, job: Job, gib: float, most: int) -> None:
    job = job if job.overhead is not None else job._replace(overhead=0)
    demand, device = DEMANDS[name], card(gib)
    experts = 8 if name == "moe" else 0
    expected: tuple[int, float] | None = None
    for gpus in (1, 2, 3, 4, 8):
        if gpus > most:
            break
        costs = [
            (cost.seconds / cost.tokens, layout)
            for one, layout, holds in enumerated(job, demand, device, gpus, experts)
            if holds.fits
            for cost in [cost_of(demand, device, one, layout, holds)]
        ]
        if costs:
            expected = gpus, min(costs, key=lambda entry: entry[0])[0]
            break
    found = plan(demand, device, job, max_gpus=most)

    if expected is None:
        assert found.best is None
        return
    assert found.best is not None
    best = found.best
    assert (best.layout.gpus, best.cost.seconds / best.cost.tokens) == pytest.approx(expected)
    assert best.held.fits
    assert found.least <= best.layout.gpus


@pytest.mark.parametrize(
    ("name", "job", "gib", "gpus", "objective"),
    [
        ("dense", Job("train", 4, 1), 1.5, 4, "seq-len"),
        ("dense", Job("infer", 2, 1), 0.4, 2, "seq-len"),
        ("gpt2", Job("train", None, 256), 0.9, 4, "batch-size"),
        ("moe", Job("infer", None, 2048), 0.3, 4, "concurrency"),
    ],
)
def test_the_most_is_that_of_asking_for_one_more(
    name: str, job: Job, gib: float, gpus: int, objective: str
) -> None:
    """The best value fits, and one more fits in no layout at all."""
    job = job._replace(overhead=0)
    demand, device = DEMANDS[name], card(gib)
    found = plan(demand, device, job, gpus=gpus, objective=objective)
    best = found.best

    assert best is not None
    assert best.held.fits
    assert best.value > 1
    experts = 8 if name == "moe" else 0
    if objective == "seq-len":
        longer = job._replace(seq_len=best.value + 1)
        spaces = [enumerated(longer, demand, device, gpus, experts)]
    elif not job.trains:
        spaces = [enumerated(job._replace(batch_size=best.value + 1), demand, device, gpus, experts)]
    else:
        spaces = []
        for tp, pp, dp in product((1, 2, 4), repeat=3):
            if tp * pp * dp != gpus:
                continue
            micro = best.value // (dp * pp) + 1
            for zero, checkpointing in product(range(4) if dp > 1 else (0,), ("none", "full")):
                if zero > 1 and pp > 1:
                    continue
                layout = Layout(tp, pp, dp, 1, 1, zero, checkpointing)
                more = job._replace(batch_size=micro * dp * pp, micro_batch=micro)
                assert not held(demand, device, more, layout).fits, str(layout)
    for space in spaces:
        assert [str(layout) for _, layout, holds in space if holds.fits] == []


def test_runners_up_say_why_they_lost() -> None:
    found = plan(DEMANDS["dense"], card(3.0), Job("train", 16, 2048, overhead=0), gpus=4)
    best = found.best

    assert best is not None
    assert found.others
    assert len({str(choice.layout) for choice in [best, *found.others]}) == len(found.others) + 1
    for other in found.others:
        assert other.why
        assert other.cost.seconds >= best.cost.seconds


def test_several_formats_of_weights_are_all_looked_at() -> None:
    model = sizer.load("llama-3-70b")
    job = Job(engine="vllm", seq_len=2048)
    found = plan(model, hardware("h100"), job, max_gpus=8, fixed=Choices(formats=("bf16", "fp8")))

    assert found.best is not None
    assert (found.best.layout.gpus, found.best.job.dtype) == (1, "fp8")


def test_what_is_fixed_stays_fixed() -> None:
    fixed = Choices(tp=2, zero=1, checkpointing="full")
    found = plan(DEMANDS["dense"], card(3.0), Job("train", 16, 2048, overhead=0), gpus=8, fixed=fixed)

    assert found.best is not None
    for choice in [found.best, *found.others]:
        layout = choice.layout
        assert (layout.tp, layout.zero, layout.checkpointing) == (2, 1, "full")


def test_405_billion_over_1024_gpus_within_two_seconds() -> None:
    model = sizer.load("llama-3.1-405b")
    seconds = []
    for _ in range(2):
        start = time.process_time()
        found = plan(model, hardware("h100"), Job("train", 1024, 8192), gpus=1024)
        seconds.append(time.process_time() - start)

    assert found.best is not None
    assert found.best.layout.gpus == 1024
    assert found.looked > 500
    # The faster of two: other processes share the machine.
    assert min(seconds) < 2


def test_a_search_that_finds_nothing_ends() -> None:
    start = time.process_time()
    job = Job("train", 1, 2**27)
    found = plan(sizer.load("llama-3-8b"), hardware("rtx-3060"), job, max_gpus=16)

    assert found.best is None
    assert found.nearest is not None
    assert time.process_time() - start < 5


BAD = [
    ([], ["give --gpus N, so many, or --max-gpus N, at most so many"]),
    (["--gpus", "8", "--max-gpus", "8"], ["--gpus 8 and --max-gpus 8 contradict"]),
    (["--gpus", "0"], ["--gpus 0 is not a number of GPUs"]),
    (["--max-gpus", "-3"], ["--max-gpus -3"]),
    (["--max-gpus", "999999999"], ["--max-gpus 999999999"]),
    (["--gpus", "8", "--tp", "3"], ["--gpus 8 is no multiple of --tp 3"]),
    (["--gpus", "8", "--tp", "0"], ["--tp 0 is zero"]),
    (["--gpus", "8", "--for", "speed"], ["no objective named 'speed'"]),
    (["--gpus", "8", "--for", "concurrency", "--mode", "train"], ["concurrency is of serving"]),
    (["--gpus", "8", "--zero", "2"], ["--zero 2 is of training"]),
    (["--gpus", "8", "--mode", "train", "--zero", "7"], ["--zero 7 is no stage"]),
    (["--gpus", "8", "--mode", "train", "--zero", "3", "--pp", "2"], ["--zero 3 and --pp 2 contradict"]),
    (["--gpus", "8", "--mode", "train", "--checkpointing", "some"], ["no checkpointing named 'some'"]),
    (["--gpus", "8", "--dtype", "bf16,zz"], ["no weight format named 'zz'"]),
    (["--gpus", "8", "--overhead", "100GiB"], ["its runtime alone takes more than"]),
]


@pytest.mark.parametrize(("args", "fragments"), BAD, ids=lambda x: " ".join(x)[:50])
def test_bad_input_is_a_line_and_exit_2(sizer_cli: Run, args: list[str], fragments: list[str]) -> None:
    code, out, err = sizer_cli("plan", "llama-3-8b", "--on", "h100", *args)

    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert [fragment for fragment in fragments if fragment not in err] == [], err


# Nothing was too large: nothing is so laid out, and the answer says of what.
NONE = [
    ("llama-3-8b --gpus 3 --mode train --batch-size 4 --micro-batch 3", "batch_size = 4, micro_batch = 3"),
    ("llama-3-8b --gpus 8 --mode train --batch-size 8 --vpp 3", "vpp = 3"),
    ("mixtral-8x7b --gpus 16 --ep 3", "ep = 3"),
    ("mixtral-8x7b --gpus 64 --mode train --batch-size 64 --ep 3", "ep = 3"),
    ("llama-3-8b --max-gpus 8 --ep 2", "no experts to share"),
    ("t5-small --gpus 8 --pp 2", "in 2 stacks"),
]


@pytest.mark.parametrize(("line", "why"), NONE, ids=[line for line, _ in NONE])
def test_where_no_layout_is_possible_the_answer_says_why(sizer_cli: Run, line: str, why: str) -> None:
    code, out, err = sizer_cli("plan", "--on", "h100", *line.split())

    assert (code, err) == (1, "")
    assert why in out.splitlines()[-1]
    assert "nearest" not in out


def test_too_few_accelerators_for_the_weights_alone(sizer_cli: Run) -> None:
    # 405,853,388,800 parameters of two bytes are 9.6 times the 79.1 GiB of an H100.
    line = "plan llama-3.1-405b --on h100 --max-gpus 1 --for seq-len"
    code, out, _ = sizer_cli(*line.split())

    assert code == 1
    assert out.startswith("nothing fits: llama-3.1-405b on at most 1 h100")
    assert "weights and their states alone need 10 GPUs" in out


def test_replicas_that_are_fixed_are_in_every_layout(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("plan", "llama-3-8b", "--on", "h100", "--gpus", "8", "--dp", "2", "--json")
    found = json.loads(out)

    for choice in [found["best"], *found["others"]]:
        layout = choice["layout"]
        assert (layout["dp"], layout["tp"] * layout["pp"]) == (2, 4)


def test_attention_that_holds_its_scores_is_not_split_over_ranks(sizer_cli: Run) -> None:
    line = "plan llama-3-8b --on h100 --gpus 8 --mode train --batch-size 8 --seq-len 4096 --attention"
    eager = json.loads(sizer_cli(*line.split(), "eager", "--json")[1])
    code, _, err = sizer_cli(*line.split(), "eager", "--cp", "2")
    split = json.loads(sizer_cli(*line.split(), "sdpa", "--cp", "2", "--json")[1])

    assert {choice["layout"]["cp"] for choice in [eager["best"], *eager["others"]]} == {1}
    assert (code, "--cp 2 needs --attention sdpa" in err) == (2, True)
    assert split["best"]["layout"]["cp"] == 2


def test_links_that_a_table_does_not_know_are_pci_express(tmp_path: Path, sizer_cli: Run) -> None:
    text = "memory_gb = 80\nbandwidth_gb_s = 1000\nnode_gpus = 4\ndense_tflops = { bf16 = 100 }\n"
    own = tmp_path / "own.toml"
    # PCI Express 4.0 with 16 lanes: 32 GB/s each way, which data sheets add up.
    own.write_text(f"[unknown]\n{text}[known]\n{text}link_gb_s = 64\n")
    line = f"--hardware-file {own} --gpus 4 --tp 4 --mode train --batch-size 4 --seq-len 512 --json"
    unknown, known = (
        json.loads(sizer_cli("plan", "llama-3.2-1b", "--on", name, *line.split())[1])
        for name in ("unknown", "known")
    )

    assert unknown["best"]["cost"]["parts"]["tensor parallel"] > 0
    assert unknown["best"]["cost"] == known["best"]["cost"]
    assert any("PCI Express 4.0" in note for note in unknown["assumptions"])


def test_plan_on_the_command_line(sizer_cli: Run) -> None:
    args = ("plan", "llama-3-70b", "--on", "h100", "--engine", "vllm", "--max-gpus", "8")
    code, out, _ = sizer_cli(*args, "--json")
    document = json.loads(out)

    assert code == 0
    assert document["solved"] is True
    assert document["best"]["layout"]["gpus"] == document["value"] == 2
    assert document["best"]["rank"]["total_bytes"] <= document["best"]["rank"]["budget_bytes"]
    assert sizer_cli(*args, "-q")[:2] == (0, "tp=2\n")
    code, out, _ = sizer_cli(*args[:-1], "1", "--json")
    document = json.loads(out)
    assert code == 1
    assert (document["solved"], document["best"]) == (False, None)
    assert document["nearest"]["rank"]["left_bytes"] < 0
    code, out, _ = sizer_cli(*args, "--csv")
    assert out.startswith("gpus,tp,pp")


def test_errors_are_ours() -> None:
    with pytest.raises(SizerError):
        plan(DEMANDS["gpt2"], card(1.0), Job(), gpus=4, objective="nothing")


def test_traffic_that_is_said_to_hide_costs_no_time(sizer_cli: Callable[..., tuple[int, str, str]]) -> None:
    words = shlex.split(
        "plan gpt2-large --on h100 --gpus 16 --mode train --batch-size 64 --seq-len 1024 --tp 2 --dp 8 --json"
    )
    alone, half, whole = (
        json.loads(sizer_cli(*words, *more)[1]) for more in ([], ["--overlap", "0.5"], ["--overlap", "1"])
    )

    def split(answer: dict[str, Any]) -> tuple[float, float]:
        cost = answer["best"]["cost"]["parts"]
        return cost["compute"], cost["tensor parallel"] + cost["data parallel"]

    (compute, sent), (same, left), (_, none) = map(split, (alone, half, whole))
    assert compute == same
    assert left == pytest.approx(max(sent / 2, sent - compute))
    assert none == pytest.approx(max(0, sent - compute))
    assert any("50% of the traffic" in note for note in half["assumptions"])
    assert any("nothing overlaps" in note for note in alone["assumptions"])


@pytest.mark.parametrize("share", ["-0.1", "1.5", "nan"])
def test_a_share_of_traffic_is_a_share(sizer_cli: Callable[..., tuple[int, str, str]], share: str) -> None:
    code, _, err = sizer_cli("plan", "gpt2-xl", "--on", "h100", "--gpus", "8", "--overlap", share)

    assert code == 2
    assert "share between 0 and 1" in err
