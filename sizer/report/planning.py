"""What `sizer fit` and `sizer plan` share: a job from plain values, a layout and a rank as records."""

from __future__ import annotations

from typing import Any

from sizer import units
from sizer.errors import UnknownName
from sizer.measures.context import context
from sizer.model import Model
from sizer.planning.cost import Cost
from sizer.planning.hardware import Accelerator
from sizer.planning.held import Held
from sizer.planning.job import PRECISIONS, Job
from sizer.planning.layout import Layout, sequences
from sizer.planning.weights import format_named
from sizer.report.report import Table

UNITS = ("auto", "B", "GB", "GiB")
# Tokens of a sequence unless given; a model with a shorter context has that.
SEQ_LEN = 4096


def job_of(model: Model, *, seq_len: int | None = None, **values: Any) -> Job:
    """The job that the values describe; those that are not given have the job's defaults."""
    longest = context(model)
    length = seq_len if seq_len is not None else min(SEQ_LEN, longest[1] if longest else SEQ_LEN)
    given = {name: value for name, value in values.items() if value is not None}
    return Job(given.pop("mode", "infer"), given.pop("batch_size", None), length, **given)


def check_unit(unit: str) -> None:
    """Refuse a unit that is not known."""
    if unit not in UNITS:
        raise UnknownName("unit", unit, UNITS, hint=", ".join(UNITS))


def size(number: int, unit: str) -> str:
    """Bytes in a unit, or in both kinds of them."""
    if unit == "B":
        return f"{number:,} B"
    if unit != "auto":
        return units.in_unit(number, unit)
    sign, number = ("-", -number) if number < 0 else ("", number)
    return f"{sign}{units.size(number)}, {sign}{units.size(number, binary=True)}"


def several(number: int, word: str) -> str:
    """A number of things.

    >>> several(1, "sequence"), several(2048, "sequence")
    ('1 sequence', '2,048 sequences')
    """
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def batch_record(job: Job, layout: Layout) -> dict[str, int | None]:
    """Sequences over all ranks, and those a rank trains at once."""
    if not job.trains:
        return {"batch_size": job.batch_size or 1, "micro_batch": None}
    micro, times = sequences(job, layout)
    return {"batch_size": micro * times * layout.dp, "micro_batch": micro}


def layout_record(layout: Layout) -> dict[str, Any]:
    """The degrees."""
    return {
        "gpus": layout.gpus,
        "tp": layout.tp,
        "pp": layout.pp,
        "cp": layout.cp,
        "dp": layout.dp,
        "ep": layout.ep,
        "zero": layout.zero,
        "checkpointing": layout.checkpointing,
        "vpp": layout.vpp,
        "offload": layout.offload,
    }


def held_record(held: Held) -> dict[str, Any]:
    """What the heaviest rank holds."""
    return {
        "place": held.place,
        "parts": [
            {"name": line.name, "bytes": line.n_bytes, "label": line.label, "what": line.what}
            for line in held.lines
        ],
        "total_bytes": held.total,
        "budget_bytes": held.budget,
        "left_bytes": held.left,
        "host_bytes": held.host,
    }


def on_host(held: Held, unit: str) -> str:
    """What a rank has on the host; nothing where that is nothing."""
    if not held.host:
        return ""
    most = "" if held.host_budget is None else f" of {size(held.host_budget, unit)}"
    return f"on the host {size(held.host, unit)}{most} for each rank"


def cost_record(cost: Cost) -> dict[str, Any]:
    """Seconds of a step by the cost model."""
    return {"seconds": cost.seconds, "tokens_per_s": cost.tokens_per_s, "parts": dict(cost.parts)}


def rank_table(held: Held, unit: str) -> Table:
    """The parts of a rank, with their share of what it may hold."""
    records = held_record(held)["parts"]
    rows = [
        (
            line.name,
            f"{line.n_bytes:,}",
            size(line.n_bytes, "GiB" if unit == "auto" else unit),
            units.share(line.n_bytes, held.budget),
            line.label,
            line.what,
        )
        for line in held.lines
    ]
    headers = ("part", "bytes", "size", "of the budget", "label", "what")
    return Table(headers, rows, (1, 2, 3), records)


def assumptions(model: Model, device: Accelerator, job: Job, layout: Layout) -> list[str]:
    """What an answer takes for granted."""
    usable = f"usable memory of {device.name}: {device.usable_bytes:,} bytes, {device.usable_label}"
    notes = [*model.assumptions, usable]
    if job.trains:
        how = PRECISIONS[job.precision]
        micro, times = sequences(job, layout)
        notes.append(f"precision {job.precision}: {how.source}")
        notes.append(f"{several(micro, 'sequence')} at once on a rank, {times} times a step")
        if layout.gpus > 1:
            notes.append(
                "gradients stay while activations are there; activations are a part in tp of what one rank "
                "keeps (sequence parallelism, Korthikanti et al. 2022), from a run of the step"
            )
        if layout.vpp > 1:
            notes.append(
                "interleaved 1F1B (Narayanan et al. 2021): the first stage keeps 1 + (pp − 1) / (pp · vpp) "
                "of what pp micro-batches keep in it, waits a part in vpp, and sends vpp times as much"
            )
        elif layout.pp > 1:
            notes.append("1F1B pipeline: the first stage has pp micro-batches under way")
        if layout.offload != "none":
            notes.append(
                f"offload {layout.offload} (Ren et al. 2021): PCI Express 4.0 ×16, 32 GB/s each "
                "way, and 51.2 GB/s of the host's memory for each accelerator (DDR4-3200) are assumed"
            )
        if layout.ep > 1:
            notes.append("every expert gets as many tokens as any other")
        if layout.zero == 3:
            notes.append("ZeRO-3 gathers two layers at a time, or the largest table")
        return notes
    chosen = format_named(job.dtype)
    notes.append(f"weights in {job.dtype}: {chosen.source}")
    if not chosen.exact:
        notes.append("embeddings, the head and vectors stay in 16 bits; a checkpoint may differ")
    if job.engine == "vllm":
        notes.append(f"vLLM takes {job.share:g} of the memory; CUDA graphs come out of the rest")
    if layout.tp > 1:
        notes.append("activations of a tensor-parallel rank: its part, and the residual stream twice")
    return notes
