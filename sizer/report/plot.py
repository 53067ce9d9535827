"""A picture of a sweep: its measures along one axis, a line for each value of another."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

from sizer.errors import InvalidConfig
from sizer.planning.sweeping.axes import Axis
from sizer.planning.sweeping.registry import Registry
from sizer.planning.sweeping.sweep import UNITS, Sweep
from sizer.report import figure

MAX_LINES = len(figure.COLOURS)
MAX_DRAWN = 100_000


def draw(grid: Sweep | Registry, path: str) -> None:
    """Draw a grid: its longest axis of numbers to the right, a line for each value of the others."""
    figure.check(path)
    if isinstance(grid, Registry):
        raise InvalidConfig("--plot draws one model; leave --models out")
    along = _along(grid)
    others = [axis for axis in grid.axes if axis is not along]
    lines = prod(len(axis) for axis in others)
    if lines > MAX_LINES:
        counts = " × ".join(f"{len(axis)} {axis.name}" for axis in others)
        raise InvalidConfig(
            f"--plot draws at most {MAX_LINES} lines and this grid has {counts} = {lines} "
            f"along {along.name}; give fewer values of the others"
        )
    if grid.size > MAX_DRAWN:
        raise InvalidConfig(f"--plot draws at most {MAX_DRAWN:,} points and this grid has {grid.size:,}")
    records = [record for chunk in grid.chunks() for record in chunk.records()]
    if all(record["error"] for record in records):
        raise InvalidConfig(f"no point of this grid is a model: {records[0]['error']}")
    _draw(grid, records, along, others, path)


def _along(grid: Sweep) -> Axis:
    numeric = [axis for axis in grid.axes if axis.numeric]
    if not numeric:
        raise InvalidConfig("--plot needs an axis of numbers; give a size a range of values")
    return max(numeric, key=len)


def _draw(
    grid: Sweep, records: Sequence[dict[str, Any]], along: Axis, others: Sequence[Axis], path: str
) -> None:
    from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, NullFormatter

    drawing = figure.new(height=3.6 * len(grid.what) + 0.4)
    plots: Any = drawing.subplots(len(grid.what), 1, squeeze=False, sharex=True)[:, 0]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(tuple(record[axis.name] for axis in others), []).append(record)
    for plot, name in zip(plots, grid.what, strict=True):
        for i, (values, points) in enumerate(groups.items()):
            known = [p for p in points if p["error"] is None]
            label = ", ".join(f"{axis.name} = {_word(v)}" for axis, v in zip(others, values, strict=True))
            xs, ys = [p[along.name] for p in known], [float(p[name]) for p in known]
            marks = {"marker": figure.MARKS[i], "markersize": 4} if len(known) <= 40 else {}
            # A line that lies on another leaves it to be seen.
            width = 1.4 + 1.2 * (len(groups) - 1 - i) / len(groups)
            plot.plot(xs, ys, color=figure.COLOURS[i], label=label or None, linewidth=width, **marks)
        plot.set_ylabel(_measured(name))
        figure.plain(plot)
        if _geometric(along):
            plot.set_xscale("log", base=2)
            drawn = [float(p[name]) for p in records if p["error"] is None]
            # Where there is no power of ten on the way, no number would stand at the axis.
            if drawn and 0 < 10 * min(drawn) < max(drawn):
                plot.set_yscale("log")
                plot.yaxis.set_minor_formatter(NullFormatter())
            else:
                plot.set_ylim(bottom=0)
        units = {"bytes": EngFormatter(unit="B"), "FLOPs": EngFormatter(unit="FLOPs")}
        plot.yaxis.set_major_formatter(units.get(UNITS[name]) or figure.numbers())
    last = plots[-1]
    last.set_xlabel(along.name + {"seq_len": " (tokens)", "batch_size": " (sequences)"}.get(along.name, ""))
    if _geometric(along):
        last.xaxis.set_major_locator(FixedLocator(list(along.values)))
        last.xaxis.set_minor_formatter(NullFormatter())
    last.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    if _geometric(along) or len(along) <= 12:
        last.tick_params(axis="x", labelrotation=30)
    drawing.suptitle(f"{grid.model.name}  ({grid.model.architecture})", fontsize=11)
    if others:
        plots[0].legend(frameon=False, fontsize=9)
    figure.save(drawing, path)


def _measured(name: str) -> str:
    """The label of an axis: what is measured, and in what."""
    words = name.replace("_", " ")
    if UNITS[name] != "parameters":
        return words if words.endswith("flops") else f"{words} ({UNITS[name]})"
    return "parameters" if name == "params" else f"{words} parameters"


def _geometric(axis: Axis) -> bool:
    """Whether its values are a factor apart."""
    values = axis.values
    return (
        not isinstance(values, range)
        and len(values) > 2
        and values[0] > 0
        and all(later >= 2 * before for before, later in itertools.pairwise(values))
    )


def _word(value: Any) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
