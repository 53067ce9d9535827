"""`sizer count`: what a model's parameters are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sizer import __version__, units
from sizer.core.dims import Dim
from sizer.core.poly import Poly, as_poly
from sizer.core.record import Record
from sizer.core.tree import Buffer, Param
from sizer.core.walk import Row, indices_of, name_at, walk
from sizer.measures.count import COMPONENTS, Count, count
from sizer.model import Model
from sizer.report.report import Report, Table, View

if TYPE_CHECKING:
    from sizer.measures.formula import Letter

CONVENTIONS = (
    "active: the parameters one token visits, input embedding included",
    "non-embedding: without the tables of tokens, token types and learned positions; "
    "a head of its own is counted in",
)


def head(model: Model) -> dict[str, Any]:
    """The keys every document begins with."""
    return {"sizer_version": __version__, "model": model.name, "architecture": model.architecture}


def report(model: Model, *, by: str = "component", depth: int | None = None) -> Report:
    """Parameters by component, layer, module or tensor, with totals."""
    rows = model.rows()
    found = count(rows)

    def document() -> dict[str, Any]:
        return _document(model, found, rows, by, depth)

    def view() -> View:
        entries = _entries(model, rows, by, depth)
        return View(
            table=_table(found, by, entries),
            above=[f"{model.name}  ({model.architecture})"],
            below=[*_below(model, found, rows), *_legend(model, entries)],
            notes=notes(model, CONVENTIONS),
        )

    return Report(str(found.total), document, view)


def notes(model: Model, conventions: Iterable[str] = ()) -> list[str]:
    """What `-v` adds: assumptions, conventions, sources, and keys of a file that nobody knows."""
    unknown = ", ".join(model.unknown_keys)
    return [
        *model.assumptions,
        *conventions,
        *(f"source: {source}" for source in model.sources),
        *([f"unknown keys, ignored: {unknown}"] if unknown else []),
    ]


class Entry(Record):
    """One row: a name, its parameters, and their formula where there is one for the group."""

    __slots__ = ("formula", "name", "params")

    def __init__(
        self,
        name: str,
        params: int,
        formula: Poly | None,
    ) -> None:
        self.name = name
        self.params = params
        self.formula = formula


def _entries(model: Model, rows: list[Row], by: str, depth: int | None) -> list[Entry]:
    if by == "layer":
        return _by_layer(rows)
    key = _KEYS[by]
    sums: dict[str, tuple[int, Dim]] = {}
    for row, letters in zip(rows, walk(model.symbolic_tree()), strict=True):
        if isinstance(row.leaf, Param) and row.leaf.tied_to is None:
            name = key(row, depth)
            params, formula = sums.get(name, (0, 0))
            sums[name] = params + row.numel * row.copies, formula + letters.numel * letters.copies
    names = [n for n in COMPONENTS if n in sums] if by == "component" else list(sums)
    return [Entry(name, sums[name][0], as_poly(sums[name][1])) for name in names]


def _by_layer(rows: Iterable[Row]) -> list[Entry]:
    """One row a layer, and one for each part outside of the layers."""
    sums: dict[str, int] = {}
    for row in rows:
        if not isinstance(row.leaf, Param) or row.leaf.tied_to is not None:
            continue
        for name, params in _layers(row):
            sums[name] = sums.get(name, 0) + params
    return [Entry(name, params, None) for name, params in sums.items()]


def _layers(row: Row) -> Iterator[tuple[str, int]]:
    if not row.frames:
        yield row.name.rsplit(".", 1)[0], row.numel
        return
    outer = row.frames[0]
    stem = row.name.partition(".{}")[0]
    each = row.numel * row.copies
    if outer.shared:
        yield name_at(stem + ".{}", indices_of(row, outer)[:1]), each
        return
    for index in indices_of(row, outer):
        yield f"{stem}.{index}", each // outer.count


def _component(row: Row, depth: int | None) -> str:
    return row.component


def _module(row: Row, depth: int | None) -> str:
    parts = row.name.split(".")[:-1]
    # A repeated module and its index are one step: `h.*`.
    steps: list[str] = []
    for part in parts:
        if part == "{}" and steps:
            steps[-1] += ".*"
        else:
            steps.append(part)
    return ".".join(steps[:depth] if depth else steps)


def _tensor(row: Row, depth: int | None) -> str:
    return row.name.replace("{}", "*")


_KEYS: dict[str, Callable[[Row, int | None], str]] = {
    "component": _component,
    "module": _module,
    "tensor": _tensor,
}
GROUPINGS = ("component", "layer", "module", "tensor")


def totals(found: Count) -> dict[str, Any]:
    """The totals of a count as documents hold them."""
    return {
        "params": {
            "total": found.total,
            "active": found.active,
            "embedding": found.embedding,
            "non_embedding": found.non_embedding,
            "trainable": found.trainable,
        },
        "buffers": {"total": found.buffers},
        "tied": {"total": found.tied},
    }


def _document(model: Model, found: Count, rows: list[Row], by: str, depth: int | None) -> dict[str, Any]:
    groupings = {"component": _entries(model, rows, "component", None)}
    if by not in groupings:
        groupings[by] = _entries(model, rows, by, depth)
    return {
        **head(model),
        **totals(found),
        **{f"{name}s": _records(found, name, rows) for name, rows in groupings.items()},
        "assumptions": [*model.assumptions, *CONVENTIONS],
        "sources": model.sources,
    }


def _records(found: Count, by: str, entries: list[Entry]) -> list[dict[str, Any]]:
    return [
        {
            by: e.name,
            "params": e.params,
            "share": e.params / found.total,
            **({} if e.formula is None else {"formula": e.formula.text(ascii_only=True)}),
        }
        for e in entries
    ]


def _table(found: Count, by: str, entries: list[Entry]) -> Table:
    formulas = [e.formula.text() if e.formula is not None else "" for e in entries]
    with_formula = any(formulas)

    def row(name: str, formula: str, params: int, bar: str) -> tuple[str, ...]:
        cells = (f"{params:,}", units.share(params, found.total), bar)
        return (name, formula, *cells) if with_formula else (name, *cells)

    rows = [
        row(e.name, formula, e.params, units.bar(e.params, found.total))
        for e, formula in zip(entries, formulas, strict=True)
    ]
    headers = (by, "formula", "params", "share", "") if with_formula else (by, "params", "share", "")
    first = len(headers) - 3
    return Table(
        headers,
        [*rows, row("total", "", found.total, "")],
        numbers=(first, first + 1),
        records=_records(found, by, entries),
    )


def _below(model: Model, found: Count, rows: Iterable[Row]) -> list[str]:
    lines = [
        f"total          {found.total:>18,}  ({units.count(found.total)})",
        f"active         {found.active:>18,}"
        + ("  (every parameter)" if found.active == found.total else ""),
        f"non-embedding  {found.non_embedding:>18,}",
    ]
    if found.trainable != found.total:
        lines.append(f"trainable      {found.trainable:>18,}")
    for row in rows:
        leaf = row.leaf
        if (
            isinstance(leaf, Param)
            and leaf.tied_to is not None
            and row.numel * row.copies * 1000 > found.total
        ):
            lines.append(
                f"tied           {row.numel * row.copies:>18,}  {row.name.replace('{}', '*')} "
                f"is {leaf.tied_to.replace('{}', '*')}"
            )
    lines += [
        f"buffers        {elements:>18,}  {name}, not in the total" for name, elements in _buffers(rows)
    ]
    if model.mtp_params:
        lines.append(
            f"prediction     {model.mtp_params:>18,}  layers for multi-token prediction, not in the total "
            "(--set count_mtp=true)"
        )
    return lines


def _buffers(rows: Iterable[Row], most: int = 6) -> Iterable[tuple[str, int]]:
    """The buffers by name; by the last part of their names where there would be too many lines."""
    kept = [row for row in rows if isinstance(row.leaf, Buffer) and row.leaf.persistent]
    names = [row.name.replace("{}", "*") for row in kept]
    if len(set(names)) > most:
        names = [f"*.{name.rpartition('.')[2]}" for name in names]
    sums: dict[str, int] = {}
    for name, row in zip(names, kept, strict=True):
        sums[name] = sums.get(name, 0) + row.numel * row.copies
    return sums.items()


def _legend(model: Model, entries: Iterable[Entry]) -> list[str]:
    from sizer.measures.formula import legend

    letters = {letter for e in entries if e.formula is not None for letter in e.formula.letters}
    return ["", *legend_lines(legend(model, letters))] if letters else []


def legend_lines(letters: Mapping[str, Letter]) -> list[str]:
    """A legend: each letter, its value, its meaning."""
    names = max((len(code) for code in letters), default=0)
    values = max((len(f"{entry.value:,}") for entry in letters.values()), default=0)
    return [
        f"{code.ljust(names)} = {format(entry.value, ',').rjust(values)}  {entry.meaning}"
        for code, entry in letters.items()
    ]
