"""`sizer explain`: the count of a model as a textbook derives it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from sizer import units
from sizer.core.poly import Poly
from sizer.core.tree import Axis, Param
from sizer.core.walk import Frame, Row, walk
from sizer.measures.count import COMPONENTS, Count, count
from sizer.measures.formula import Formula, formula
from sizer.model import Model
from sizer.report.count import head, legend_lines, notes, totals
from sizer.report.report import Report, View


class Line:
    """A tensor in a derivation: its shape in letters and in numbers, and what it counts."""

    def __init__(self, row: Row, letters: Row) -> None:
        self.row = row
        self.letters = letters
        self.params = row.numel if row.leaf.tied_to is None else 0  # type: ignore[union-attr]

    @property
    def shape(self) -> str:
        """`[V, D] = [50257, 768]`, or the numbers alone where there is no letter."""
        numbers = f"[{', '.join(str(axis.size) for axis in _axes(self.row))}]"
        letters = f"[{', '.join(str(axis.size) for axis in _axes(self.letters))}]"
        return numbers if letters == numbers else f"{letters} = {numbers}"


class Section:
    """Tensors under the same repeats: `times` copies of what `lines` add up to."""

    def __init__(
        self, title: str, lines: list[Line], frames: tuple[Frame, ...], letters: tuple[Frame, ...]
    ) -> None:
        self.title = title
        self.lines = lines
        self.each = sum(line.params for line in lines)
        self.factors = [
            (frame.count, letter.count)
            for frame, letter in zip(frames, letters, strict=True)
            if not frame.shared
        ]
        self.total = self.each
        for factor, _ in self.factors:
            self.total *= factor


def report(model: Model) -> Report:
    """Each tensor, its shape, the product; the subtotals, times the layers; the sum."""
    rows, letters = model.rows(), walk(model.symbolic_tree())
    sections = list(_sections(rows, letters))
    found = count(rows)
    form = formula(model)

    def view() -> View:
        lines: list[str] = []
        for section in sections:
            lines += [*_section(section), ""]
        parts = [section.total for section in sections if section.total]
        lines += [
            "The sum",
            *_sum(parts, found.total),
            "",
            f"    params = {form.form.text()}",
            f"           = {found.total:,}  ({units.count(found.total)})",
        ]
        where = ["Where", *(f"    {line}" for line in legend_lines(form.letters))]
        return View(
            above=[f"How {model.name} comes to {found.total:,} parameters", "", *where],
            below=lines,
            notes=notes(model),
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "total": found.total,
            "formula": form.form.text(ascii_only=True),
            **totals(found),
            "components": _components(found, form),
            "legend": form.legend,
            "values": {letter: about.value for letter, about in form.letters.items()},
            "sections": [_section_document(section) for section in sections],
            "assumptions": model.assumptions,
            "sources": model.sources,
        }

    return Report(str(found.total), document, view)


def _components(found: Count, form: Formula) -> list[dict[str, Any]]:
    return [
        {
            "component": name,
            "params": found.components[name],
            "share": found.components[name] / found.total,
            "formula": _ascii(form.component_polys[name]),
        }
        for name in COMPONENTS
        if name in found.components
    ]


def _sections(rows: list[Row], letters: list[Row]) -> Iterator[Section]:
    """Runs of tensors that repeat alike, in the order of the model."""
    pairs = [(r, x) for r, x in zip(rows, letters, strict=True) if isinstance(r.leaf, Param)]
    blocks = [i for i, (row, _) in enumerate(pairs) if row.frames]
    after = {id(row) for row, _ in pairs[blocks[0] :] if not row.frames} if blocks else set()

    def alike(pair: tuple[Row, Row]) -> tuple[Any, ...]:
        row = pair[0]
        inner = len(row.frames) > 1
        return (
            _stem(row.name, all_levels=inner),
            id(row) in after,
            tuple((str(f.count), str(f.indices), f.shared) for f in row.frames),
        )

    # Tensors of one kind of block belong together even where others stand between them.
    order = {key: i for i, key in reversed(list(enumerate(map(alike, pairs))))}
    pairs.sort(key=lambda pair: order[alike(pair)])
    for _, group in groupby(pairs, key=alike):
        members = list(group)
        row, letter = members[0]
        lines = [Line(r, x) for r, x in members]
        title = (
            _title(row) if row.frames else ("After the blocks" if id(row) in after else "Before the blocks")
        )
        yield Section(title if blocks else "Tensors", lines, row.frames, letter.frames)


def _stem(name: str, *, all_levels: bool) -> str:
    """What stands before the first `{}` of a name, or before the last."""
    stem, found, _ = name.rpartition(".{}.") if all_levels else name.partition(".{}.")
    return stem if found else ""


def _title(row: Row) -> str:
    stem = _stem(row.name, all_levels=len(row.frames) > 1).replace(".{}", ".*")
    outer = row.frames[0]
    assert outer.indices is not None
    if outer.shared:
        return f"Each {stem}, one set of tensors for the {outer.count} layers {ranges(outer.indices)}"
    return f"Each {stem} of the layers {ranges(outer.indices)}"


def ranges(indices: Iterable[int]) -> str:
    """Indices with runs shortened.

    >>> ranges((0, 1, 2, 5, 7, 8))
    '0–2, 5, 7–8'
    """
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    texts = [str(a) if a == b else f"{a}–{b}" for a, b in runs]
    return ", ".join(texts[:6]) + (", …" if len(texts) > 6 else "")


def _section(section: Section) -> list[str]:
    stem = _stem(section.lines[0].row.name, all_levels=len(section.lines[0].row.frames) > 1)
    cut = len(stem) + len(".{}.") if stem else 0
    names = [line.row.name[cut:].replace("{}", "*") for line in section.lines]
    width = max(map(len, names))
    shapes = max(len(line.shape) for line in section.lines)
    lines = [section.title]
    for name, line in zip(names, section.lines, strict=True):
        tied = line.row.leaf.tied_to  # type: ignore[union-attr]
        value = f"{line.params:>18,}" if tied is None else f"{'0':>18}  the same tensor as {tied}"
        lines.append(f"    {name.ljust(width)}  {line.shape.ljust(shapes)}  {value}")
    pad = " " * (4 + width + 2 + shapes + 2)
    if len(section.lines) > 1:
        formula_ = sum((_numel(line) for line in section.lines), start=Poly({}))
        lines += [f"{pad}{'─' * 18}", f"{pad}{section.each:>18,}  = {formula_}"]
    for number, letter in section.factors:
        lines.append(f"{pad}{f'× {number:,}':>18}  {'' if str(letter) == str(number) else letter}".rstrip())
    if section.factors:
        lines.append(f"{pad}{section.total:>18,}")
    return lines


def _numel(line: Line) -> Any:
    return 0 if line.row.leaf.tied_to is not None else line.letters.numel  # type: ignore[union-attr]


def _sum(parts: list[int], total: int) -> list[str]:
    width = max(len(f"{part:,}") for part in [*parts, total])
    lines = [f"    {'+ ' if i else '  '}{part:>{width},}" for i, part in enumerate(parts)]
    return [*lines, f"    {'─' * (width + 2)}", f"      {total:>{width},}"]


def _section_document(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "tensors": [
            {
                "name": line.row.name.replace("{}", "*"),
                "shape": [axis.size for axis in _axes(line.row)],
                "letters": [str(axis.size) for axis in _axes(line.letters)],
                "params": line.params,
                "component": line.row.component,
                "tied_to": line.row.leaf.tied_to,  # type: ignore[union-attr]
            }
            for line in section.lines
        ],
        "each": section.each,
        "formula": _ascii(sum((_numel(line) for line in section.lines), start=Poly({}))),
        "times": [number for number, _ in section.factors],
        "times_letters": [_ascii(letter) for _, letter in section.factors],
        "total": section.total,
    }


def _ascii(size: Any) -> str:
    return size.text(ascii_only=True) if isinstance(size, Poly) else str(size)


def _axes(row: Row) -> tuple[Axis, ...]:
    axes: tuple[Axis, ...] = row.leaf.axes  # type: ignore[union-attr]
    return axes
