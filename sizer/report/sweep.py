"""`sizer sweep`: a grid as a table, as lines, or as a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import prod
from typing import IO, Any

from sizer.errors import InvalidConfig, SizerError
from sizer.model import Model
from sizer.planning.sweeping.chunk import Chunk
from sizer.planning.sweeping.registry import Registry
from sizer.planning.sweeping.spread import Job, each
from sizer.planning.sweeping.sweep import CHUNK, MAX_POINTS, UNITS, Sweep
from sizer.planning.sweeping.variant import Variant
from sizer.planning.sweeping.writers import encoder, format_of, whole_file, write_parquet
from sizer.planning.sweeping.writing import write
from sizer.report.report import Report, Table, View

# A grid of at most as many points is shown as a table.
FEW = 200
# No table is longer; lines have no end.
MAX_ROWS = 100_000


def job(
    model: Model | None,
    axes: Mapping[str, Any],
    *,
    models: str | Sequence[str] | None = None,
    what: str | Sequence[str] = ("params", "active"),
    settings: Mapping[str, Any] | None = None,
    max_points: int = MAX_POINTS,
    chunk: int = CHUNK,
) -> Sweep | Registry:
    """The grid of one model, or of many."""
    names = [name.strip() for name in what.split(",")] if isinstance(what, str) else list(what)
    if max_points < 1:
        raise InvalidConfig(f"max_points = {max_points} allows no point; it must be at least 1")
    if models is not None:
        if model is not None:
            raise InvalidConfig("a model and --models both say what is measured; give one of the two")
        return Registry(models, axes, names, settings=settings, max_points=max_points, chunk=chunk)
    if model is None:
        raise InvalidConfig("name a model to sweep over, or many with --models")
    if not axes:
        raise InvalidConfig("nothing varies; give a size its values, such as d_model=512:4096:512")
    return Sweep(model, axes, names, settings=settings, max_points=max_points, chunk=chunk)


def report(
    model: Model | None,
    axes: Mapping[str, Any],
    *,
    scheduler: str | None = None,
    explain: bool = False,
    **options: Any,
) -> Report:
    """A grid of a bounded number of points as a table; its document is a record for each point."""
    grid = job(model, axes, **options)
    if grid.size is not None and grid.size > MAX_ROWS:
        raise InvalidConfig(
            f"a table of {grid.size:,} rows is more than {MAX_ROWS:,}; use --csv, --json or --output FILE"
        )
    records = list(islice(_records(grid, scheduler), MAX_ROWS + 1))
    if len(records) > MAX_ROWS:
        raise InvalidConfig(f"a table of more than {MAX_ROWS:,} rows; use --csv, --json or --output FILE")
    wrong = sum(record["error"] is not None for record in records)
    headers = [*grid.names, *(["error"] if wrong else [])]
    numbers = [i for i, name in enumerate(headers) if name not in ("model", "error")]

    def view() -> View:
        rows = [[_cell(record.get(name)) for name in headers] for record in records]
        return View(
            Table(headers, rows, numbers, records=[{n: _csv(r.get(n)) for n in headers} for r in records]),
            above=[] if model is None else [f"{model.name}  ({model.architecture})"],
            below=explained(grid) if explain else [],
            notes=[f"{name}: {UNITS[name]}" for name in grid.what],
        )

    value = "\n".join("" if r["error"] else str(r[grid.what[0]]) for r in records)
    return Report(
        value,
        lambda: _plain(records),
        view,
        talk=[told(wrong, len(records))] if wrong else [],
    )


def lines(grid: Sweep | Registry) -> Report:
    """A grid as a document alone: a record a point, each worked out when it is read."""
    return Report("", lambda: _plain(_records(grid, None)), View)


def stream(
    grid: Sweep | Registry,
    form: str,
    file: IO[bytes],
    *,
    scheduler: str | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> tuple[int, int]:
    """Write a grid as "csv" or "jsonl", chunk by chunk; the points, and those without an answer."""
    points = wrong = 0
    for count, mine in write(grid, encoder(form, grid.names), file, scheduler):
        points += count
        wrong += mine
        if progress is not None:
            progress(points, grid.size)
    return points, wrong


def same(chunk: Chunk) -> Chunk:
    """A chunk as it is."""
    return chunk


def save(
    grid: Sweep | Registry,
    path: str,
    *,
    scheduler: str | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> tuple[int, int]:
    """Write a grid to a file, whose ending says how; the points, and those without an answer."""
    form = format_of(path)
    with whole_file(path) as file:
        if form != "parquet":
            return stream(grid, form, file, scheduler=scheduler, progress=progress)
        seen = [0, 0]

        def chunks() -> Iterator[Chunk]:
            for count, chunk in each(grid, same, scheduler):
                seen[0] += count
                seen[1] += chunk.wrong
                if progress is not None:
                    progress(seen[0], grid.size)
                yield chunk

        write_parquet(file, grid.names, chunks(), largest(grid))
        return seen[0], seen[1]


def told(wrong: int, points: int) -> str:
    """That some points have no answer."""
    return f"{wrong:,} of {points:,} points have no answer; the column `error` says why"


def largest(grid: Sweep | Registry) -> int:
    """The measures where all sizes are largest, with room to spare: what decides on a column's type."""
    if isinstance(grid, Registry):
        return 0
    most = 0
    ends = {axis.name: [max(axis.values)] if axis.numeric else axis.values for axis in grid.axes}
    if prod(map(len, ends.values())) > 1000:
        return 2**63
    for chunk in Sweep(grid.model, ends, grid.what, settings=grid.settings).chunks():
        for record in chunk.records():
            most = max([most, *(record[name] or 0 for name in grid.what)])
    return 16 * most


def explained(grid: Job) -> list[str]:
    """The closed forms that a grid is worked out by."""
    if not isinstance(grid, Sweep):
        return ["each model is measured by its own closed form, or by its ledger"]
    variant = grid.variant(tuple(0 for axis in grid.switches))
    if isinstance(variant, SizerError) or not variant.trusted:
        return ["by the ledger, point by point"]
    lines = []
    for name in grid.what:
        form = variant.forms[name]
        lines.append(f"{name} = {form.text() if form else 'by the ledger, point by point'}  ({UNITS[name]})")
    return [*lines, *_letters(variant)]


def _letters(variant: Variant) -> list[str]:
    used = {x for form in variant.forms.values() if form is not None for x in form.poly.letters}
    varying = {axis.name for axis in variant.axes}
    lines = []
    for code, name in variant.lettered.names.items():
        if code in used:
            lines.append(
                f"{code:<4} {name}" + ("" if name in varying else f" = {variant.lettered.numbers[code]:,}")
            )
    known = {"T": "seq_len", "B": "batch_size", "Te": "encoder_len"}
    return lines + [f"{code:<4} {name}" for code, name in known.items() if code in used]


def _records(grid: Job, scheduler: str | None) -> Iterator[dict[str, Any]]:
    for _, chunk in each(grid, same, scheduler):
        yield from chunk.records()


def _plain(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Records with an error only where there is one."""
    return ({k: v for k, v in record.items() if k != "error" or v} for record in records)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else _csv(value)


def _csv(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
