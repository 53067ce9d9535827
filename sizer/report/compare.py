"""`sizer compare`: two or more models side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sizer import __version__, units
from sizer.measures.count import COMPONENTS
from sizer.measures.formula import formula
from sizer.model import Model
from sizer.planning.comparison import Comparison, Line, comparison
from sizer.report import figure
from sizer.report.count import legend_lines
from sizer.report.report import Report, Table, View


def report(
    models: Sequence[Model],
    *,
    seq_len: int = 8192,
    dtype: str = "bf16",
    everything: bool = False,
    explain: bool = False,
    plot: str | None = None,
) -> Report:
    """What differs between models, and their sizes with the ratio to the first."""
    if plot is not None:
        figure.check(plot)
    found = comparison(models, seq_len=seq_len, dtype=dtype)
    if plot is not None:
        _draw(found, plot)
    shown = [line for line in found.quantities if everything or line.differs]
    names = [model.name for model in models]

    def view() -> View:
        rows = [_row(line) for line in (*found.fields, *shown)]
        headers = ("", names[0], *(cell for name in names[1:] for cell in (name, "")))
        table = Table(headers, rows, numbers=tuple(range(1, len(headers))), records=_records(found, names))
        same = "every quantity is the same; --all shows them" if found.fields else "nothing differs"
        below = [] if shown else [same]
        return View(table, [], [*below, *(_formulas(models) if explain else [])], _notes(models))

    def document() -> dict[str, Any]:
        return {
            "sizer_version": __version__,
            "model": names,
            "architecture": [model.architecture for model in models],
            "seq_len": seq_len,
            "dtype": dtype,
            "fields": [{"field": line.name, "values": line.values} for line in found.fields],
            "quantities": [
                {"quantity": line.name, "unit": line.unit, "values": line.values, "ratios": line.ratios}
                for line in found.quantities
            ],
            "formulas": [formula(model).form.text(ascii_only=True) for model in models] if explain else [],
            "assumptions": [note for model in models for note in model.assumptions],
            "sources": [source for model in models for source in model.sources],
        }

    second = found.quantities[0].ratios[1]
    return Report(f"{second:.6g}", document, view)


def _row(line: Line) -> tuple[str, ...]:
    ratios = line.ratios if line.unit else [None] * len(line.values)
    cells = [line.name, _word(line.values[0])]
    for value, ratio in zip(line.values[1:], ratios[1:], strict=True):
        cells += [_word(value), "" if ratio is None else f"{ratio:,.2f} ×"]
    return tuple(cells)


def _word(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _records(found: Comparison, names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"property": line.name, "unit": line.unit, **dict(zip(names, line.values, strict=True))}
        for line in (*found.fields, *found.quantities)
    ]


def _formulas(models: Sequence[Model]) -> list[str]:
    lines = [""]
    for model in models:
        found = formula(model)
        lines += [f"{model.name} = {found.form.text()}", *legend_lines(found.letters), ""]
    return lines[:-1]


def _notes(models: Sequence[Model]) -> list[str]:
    return [f"{model.name}: {note}" for model in models for note in model.assumptions]


def _draw(found: Comparison, path: str) -> None:
    """A bar a model, stacked by component."""
    drawing = figure.new(height=0.55 * len(found.models) + 1.6)
    axes = drawing.subplots()
    names = [model.name for model in found.models]
    left = [0] * len(names)
    parts = [line for line in found.quantities if line.name in COMPONENTS and line.unit == "parameters"]
    for i, line in enumerate(sorted(parts, key=lambda one: -sum(one.values))):
        colour = figure.COLOURS[i % len(figure.COLOURS)]
        hatch = "" if i < len(figure.COLOURS) else "//"
        axes.barh(names, line.values, left=left, color=colour, label=line.name, hatch=hatch, height=0.6)
        left = [before + value for before, value in zip(left, line.values, strict=True)]
    for name, total in zip(names, left, strict=True):
        axes.annotate(units.count(total), (total, name), (4, 0), textcoords="offset points", va="center")
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(figure.numbers())
    axes.set_xlabel("parameters")
    figure.plain(axes)
    axes.legend(frameon=False, fontsize=9, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.28))
    figure.save(drawing, path)
