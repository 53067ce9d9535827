"""`sizer plan`: the best layout, the runners-up and why they lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sizer.measures.context import warnings
from sizer.model import Model
from sizer.planning.changes import Change, changes_of
from sizer.planning.cost import assumed
from sizer.planning.demand import Demand
from sizer.planning.fit import capacity
from sizer.planning.hardware import Accelerator, hardware
from sizer.planning.job import Job
from sizer.planning.plan import OBJECTIVES, Plan, plan
from sizer.planning.search import Choice
from sizer.planning.space import Choices
from sizer.report.count import head, notes
from sizer.report.planning import (
    assumptions,
    batch_record,
    check_unit,
    cost_record,
    held_record,
    job_of,
    layout_record,
    on_host,
    rank_table,
    several,
    size,
)
from sizer.report.report import Report, Table, View


def report(
    model: Model,
    *,
    on: str,
    hardware_file: str | None = None,
    gpus: int | None = None,
    max_gpus: int | None = None,
    objective: str = "gpus",
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    cp: int | None = None,
    ep: int | None = None,
    zero: int | None = None,
    checkpointing: str | None = None,
    vpp: int | None = None,
    offload: str | None = None,
    dtype: str | Iterable[str] | None = None,
    unit: str = "auto",
    explain: bool = False,
    **values: Any,
) -> Report:
    """The best layout; `values` are those of `sizer.planning.job.Job`, `dtype` may name several formats."""
    check_unit(unit)
    device = hardware(on, file=hardware_file)
    formats = dtype.split(",") if isinstance(dtype, str) else list(dtype or ())
    formats = [name.strip() for name in formats]
    job = job_of(model, dtype=formats[0] if formats else None, **values)
    for name in formats[1:]:
        job_of(model, dtype=name)
    fixed = Choices(tp, pp, dp, cp, ep, zero, checkpointing, formats, vpp, offload)
    demand = Demand(model)
    found = plan(demand, device, job, gpus=gpus, max_gpus=max_gpus, objective=objective, fixed=fixed)
    best = found.best
    said = warnings(model, best.job.seq_len if best else job.seq_len)
    changes = _changes(demand, device, job, found)
    taken = [*assumed(device, job), *(assumptions(model, device, best.job, best.layout) if best else [])]
    taken.append(_search_note(found))

    def view() -> View:
        if best is None:
            allowed = f"{gpus:,}" if gpus is not None else f"at most {max_gpus:,}"
            first = f"nothing fits: {model.name} on {allowed} {device.name}"
            return View(below=[first, *_nothing(found, job, fixed, changes, unit)], notes=notes(model, taken))
        lines = [f"best: {best.layout} on {several(best.layout.gpus, 'GPU')}, {_job(best)}"]
        lines += [f"rank holds {size(best.held.total, unit)} of {size(best.held.budget, unit)}"]
        lines += filter(None, [on_host(best.held, unit)])
        lines += _room(demand, best)
        if explain:
            lines += ["", *_explained(best, unit), "", *(f"- {line}" for line in taken)]
        return View(
            _table(found),
            above=[
                f"{model.name}  ({model.architecture}) on {device.name}, {job.mode}: {OBJECTIVES[objective]}",
            ],
            below=lines,
            notes=notes(model, taken),
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "solved": best is not None,
            "accelerator": device.name,
            "mode": job.mode,
            "objective": objective,
            "value": None if best is None else best.value,
            "best": None if best is None else _record(best),
            "capacity": None if best is None else _capacity(demand, best),
            "others": [_record(other) for other in found.others],
            "least_gpus": found.least,
            "looked": found.looked,
            "fitted": found.fitted,
            "reasons": dict(found.reasons),
            "nearest": None
            if found.nearest is None
            else {"layout": layout_record(found.nearest[0]), "rank": held_record(found.nearest[1])},
            "changes": [{"name": c.name, "value": c.value, "text": c.text} for c in changes],
            "warnings": said,
            "assumptions": taken,
            "sources": [*model.sources, *device.sources],
        }

    value = "no" if best is None else str(best.layout if objective == "gpus" else best.value)
    talk = [f"warning: {text}" for text in said]
    return Report(value, document, view, exit_code=0 if best else 1, talk=talk)


def _changes(demand: Demand, device: Accelerator, job: Job, found: Plan) -> list[Change]:
    if found.best is not None or found.nearest is None:
        return []
    layout = found.nearest[0]
    batch = layout.dp * layout.pp if job.trains and job.batch_size is None else job.batch_size
    micro = 1 if job.trains else None
    return list(changes_of(demand, device, job._replace(batch_size=batch, micro_batch=micro), layout))


def _job(choice: Choice) -> str:
    job = choice.job
    if job.trains:
        batch = f"{several(job.batch_size or 1, 'sequence')} of {job.seq_len:,} tokens a step"
        return f"{batch}, {job.micro_batch} at once on a rank"
    return f"weights in {job.dtype}, {several(job.batch_size or 1, 'sequence')} of {job.seq_len:,} tokens"


def _record(choice: Choice) -> dict[str, Any]:
    return {
        "layout": layout_record(choice.layout),
        "value": choice.value,
        "dtype": None if choice.job.trains else choice.job.dtype,
        **batch_record(choice.job, choice.layout),
        "seq_len": choice.job.seq_len,
        "rank": held_record(choice.held),
        "cost": cost_record(choice.cost),
        "why": choice.why,
    }


def _capacity(demand: Demand, best: Choice) -> dict[str, Any] | None:
    room = None if best.job.trains else capacity(demand, best.job, best.layout, best.held)
    if room is None:
        return None
    return {"tokens": room.tokens, "sequences": room.sequences, "pool_tokens": room.pool_tokens}


def _room(demand: Demand, best: Choice) -> list[str]:
    room = _capacity(demand, best)
    if room is None or room["sequences"] is None:
        return []
    tokens = "any number of" if room["tokens"] is None else f"{room['tokens']:,}"
    replica = " on each replica" if best.layout.dp > 1 else ""
    return [
        f"room for {tokens} tokens of one sequence, or {several(room['sequences'], 'sequence')} of "
        f"{best.job.seq_len:,}{replica}"
    ]


def _table(found: Plan) -> Table:
    assert found.best is not None
    choices = [found.best, *found.others]
    rows = [
        (
            str(choice.layout),
            "" if choice.job.trains else choice.job.dtype,
            f"{choice.layout.gpus:,}",
            f"{choice.value:,}" if found.objective != "gpus" else "",
            f"{choice.held.total / 2**30:.1f} GiB",
            f"{choice.cost.tokens_per_s:,.0f}",
            choice.why,
        )
        for choice in choices
    ]
    headers = ("layout", "weights", "gpus", found.objective, "a rank", "tokens/s ≤", "why not")
    used = [i for i in range(len(headers)) if any(row[i] for row in rows)]
    if found.objective == "gpus":
        used = [i for i in used if i != 3]
    return Table(
        [headers[i] for i in used],
        [[row[i] for i in used] for row in rows],
        [place for place, i in enumerate(used) if i in (2, 3, 4, 5)],
        [_flat(choice) for choice in choices],
    )


def _flat(choice: Choice) -> dict[str, Any]:
    return {
        **layout_record(choice.layout),
        "dtype": choice.job.dtype,
        "value": choice.value,
        "total_bytes": choice.held.total,
        "seconds": choice.cost.seconds,
        "tokens_per_s": choice.cost.tokens_per_s,
        "why": choice.why,
    }


def _explained(best: Choice, unit: str) -> list[str]:
    from sizer.report.report import aligned

    seconds = best.cost.seconds
    parts = [
        f"{name:<18} {part:>12.4g} s  {100 * part / seconds:5.1f} %"
        for name, part in best.cost.parts.items()
        if part
    ]
    return [*aligned(rank_table(best.held, unit)), "", f"a step, {best.cost.tokens:,} tokens:", *parts]


def _search_note(found: Plan) -> str:
    text = f"looked at {several(found.looked, 'layout')}, of which {found.fitted:,} fit"
    if found.reasons:
        most = ", ".join(f"{name} {count:,}" for name, count in found.reasons.most_common(3))
        text += f"; of those that do not, the largest part is: {most}"
    return f"{text}; weights and their states alone need {several(found.least, 'GPU')}"


def _nothing(found: Plan, job: Job, fixed: Choices, changes: list[Change], unit: str) -> list[str]:
    lines = [_search_note(found)]
    if found.nearest is None:
        decided = {name: getattr(fixed, name) for name in ("tp", "pp", "dp", "cp", "ep", "zero", "vpp")}
        if job.trains:
            decided |= {"batch_size": job.batch_size, "micro_batch": job.micro_batch}
        together = ", ".join(f"{name} = {value}" for name, value in decided.items() if value is not None)
        lines.append(found.refusal or f"so many GPUs have no layout with {together}")
    else:
        layout, held = found.nearest
        gpus = several(layout.gpus, "GPU")
        lines.append(f"nearest: {layout} on {gpus}, {size(-held.left, unit)} too much for a rank")
    if changes:
        lines.append("what would make that fit:")
        lines += [f"  {change.text}" for change in changes]
    return lines
