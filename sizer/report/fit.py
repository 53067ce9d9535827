"""`sizer fit`: yes or no, what each rank holds, and what would make it fit."""

from __future__ import annotations

from typing import Any

from sizer.measures.context import warnings
from sizer.model import Model
from sizer.planning.fit import Fit, fit
from sizer.planning.hardware import hardware
from sizer.planning.layout import layout_of
from sizer.report.count import head, notes
from sizer.report.planning import (
    assumptions,
    batch_record,
    check_unit,
    held_record,
    job_of,
    layout_record,
    on_host,
    rank_table,
    several,
    size,
)
from sizer.report.report import Report, View


def report(
    model: Model,
    *,
    on: str,
    hardware_file: str | None = None,
    gpus: int | None = None,
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    cp: int | None = None,
    ep: int | None = None,
    zero: int | None = None,
    checkpointing: str | None = None,
    vpp: int | None = None,
    offload: str | None = None,
    unit: str = "auto",
    explain: bool = False,
    **values: Any,
) -> Report:
    """Whether a job fits; `values` are those of `sizer.planning.job.Job`."""
    check_unit(unit)
    device = hardware(on, file=hardware_file)
    job = job_of(model, **values)
    layout = layout_of(
        job,
        gpus=gpus,
        tp=tp,
        pp=pp,
        dp=dp,
        cp=cp,
        ep=ep,
        zero=zero or 0,
        checkpointing=checkpointing or "none",
        vpp=1 if vpp is None else vpp,
        offload=offload or "none",
    )
    found = fit(model, device, job, layout)
    said = warnings(model, job.seq_len)
    taken = assumptions(model, device, job, layout)
    sources = [*model.sources, *device.sources]

    def view() -> View:
        ranks = several(layout.gpus, "GPU")
        task = f"training, {job.precision}" if job.trains else f"serving in {job.dtype}, engine {job.engine}"
        return View(
            rank_table(found.held, unit),
            above=[
                f"{model.name}  ({model.architecture}) on {ranks}, {device.name}: {layout}",
                f"{task}, sequences of {job.seq_len:,} tokens; {_who(found)} holds",
            ],
            below=[*_below(found, unit), *(["", *(f"- {line}" for line in taken)] if explain else [])],
            notes=notes(model, taken),
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "fits": found.fits,
            "accelerator": device.name,
            "mode": job.mode,
            "layout": layout_record(layout),
            **batch_record(job, layout),
            "seq_len": job.seq_len,
            "rank": held_record(found.held),
            "capacity": _capacity(found),
            "changes": [
                {
                    "name": change.name,
                    "value": change.value,
                    "text": change.text,
                    "total_bytes": change.held.total,
                    "left_bytes": change.held.left,
                }
                for change in found.changes
            ],
            "warnings": said,
            "assumptions": taken,
            "sources": sources,
        }

    answer = "yes" if found.fits else "no"
    return Report(
        answer, document, view, exit_code=0 if found.fits else 1, talk=[f"warning: {text}" for text in said]
    )


def _who(found: Fit) -> str:
    return "each rank" if found.held.place == "every rank" else f"the heaviest rank ({found.held.place})"


def _below(found: Fit, unit: str) -> list[str]:
    held = found.held
    lines = [
        f"total   {size(held.total, unit)}",
        f"budget  {size(held.budget, unit)}"
        + (f"  ({found.job.share:g} of what is usable)" if found.job.share < 1 else ""),
        f"left    {size(held.budget - held.total, unit)}",
        *filter(None, [on_host(held, unit)]),
    ]
    room = found.room
    if room is not None and room.sequences is not None:
        tokens = "any number of" if room.tokens is None else f"{room.tokens:,}"
        pool = "" if room.pool_tokens is None else f"; a pool of {room.pool_tokens:,} tokens"
        lines.append(
            f"room for {tokens} tokens of one sequence, or {several(room.sequences, 'sequence')} of "
            f"{found.job.seq_len:,} ({room.concurrency:.2f} ×){pool}"
            + (" on each replica" if found.layout.dp > 1 else "")
        )
    if found.fits:
        return [*lines, "yes, it fits"]
    lines += ["no, it does not fit" + ("; what would make it fit:" if found.changes else "")]
    if not found.changes:
        lines.append("no single change makes it fit; sizer plan looks at all layouts")
    width = max((len(change.text) for change in found.changes), default=0)
    short = "GiB" if unit == "auto" else unit
    return lines + [
        f"  {change.text:<{width}}  {size(change.held.total, short)} a rank"
        + (f", {size(change.held.host, short)} on its host" if change.held.host else "")
        for change in found.changes
    ]


def _capacity(found: Fit) -> dict[str, Any] | None:
    room = found.room
    if room is None:
        return None
    return {
        "cache_bytes": found.held.left + found.held.of("KV cache"),
        "tokens": room.tokens,
        "sequences": room.sequences,
        "concurrency": room.concurrency,
        "pool_tokens": room.pool_tokens,
    }
