"""A picture of a sweep: its measures along one axis, a line for each value of another."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from importlib.util import find_spec
from math import prod
from typing import Any

from sizer.errors import BadInput, InvalidConfig, MissingExtra, clip
from sizer.planning.sweeping.axes import Axis
from sizer.planning.sweeping.registry import Registry
from sizer.planning.sweeping.sweep import UNITS, Sweep

# Colours that people with any colour vision tell apart (Okabe and Ito 2008), and marks beside them.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
MAX_LINES = len(COLOURS)
MAX_DRAWN = 100_000
ENDINGS = (".svg", ".png", ".pdf")


def draw(grid: Sweep | Registry, path: str) -> None:
    """Draw a grid: its longest axis of numbers to the right, a line for each value of the others."""
    if not path.lower().endswith(ENDINGS):
        raise BadInput(f"{clip(path)} is no picture that can be drawn; end it in {', '.join(ENDINGS)}")
    if isinstance(grid, Registry):
        raise InvalidConfig("--plot draws one model; leave --models out")
    if find_spec("matplotlib") is None:
        raise MissingExtra("plot", "--plot")
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
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise BadInput(f"there is no folder {clip(folder)} to draw in")
    _figure(grid, records, along, others, path)


def _along(grid: Sweep) -> Axis:
    numeric = [axis for axis in grid.axes if axis.numeric]
    if not numeric:
        raise InvalidConfig("--plot needs an axis of numbers; give a size a range of values")
    return max(numeric, key=len)


def _figure(
    grid: Sweep, records: Sequence[dict[str, Any]], along: Axis, others: Sequence[Axis], path: str
) -> None:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, NullFormatter

    matplotlib.rcParams["svg.hashsalt"] = "sizer"
    figure: Any = Figure(figsize=(7.2, 3.6 * len(grid.what) + 0.4), layout="constrained")
    plots = figure.subplots(len(grid.what), 1, squeeze=False, sharex=True)[:, 0]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(tuple(record[axis.name] for axis in others), []).append(record)
    for plot, name in zip(plots, grid.what, strict=True):
        for i, (values, points) in enumerate(groups.items()):
            known = [p for p in points if p["error"] is None]
            label = ", ".join(f"{axis.name} = {_word(v)}" for axis, v in zip(others, values, strict=True))
            xs, ys = [p[along.name] for p in known], [float(p[name]) for p in known]
            marks = {"marker": MARKS[i], "markersize": 4} if len(known) <= 40 else {}
            # A line that lies on another leaves it to be seen.
            width = 1.4 + 1.2 * (len(groups) - 1 - i) / len(groups)
            plot.plot(xs, ys, color=COLOURS[i], label=label or None, linewidth=width, **marks)
        plot.set_ylabel(_measured(name))
        plot.grid(True, color="#dddddd", linewidth=0.6)
        plot.spines[["top", "right"]].set_visible(False)
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
        plot.yaxis.set_major_formatter(units.get(UNITS[name]) or _counts())
    last = plots[-1]
    last.set_xlabel(along.name + {"seq_len": " (tokens)", "batch_size": " (sequences)"}.get(along.name, ""))
    if _geometric(along):
        last.xaxis.set_major_locator(FixedLocator(list(along.values)))
        last.xaxis.set_minor_formatter(NullFormatter())
    last.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    if _geometric(along) or len(along) <= 12:
        last.tick_params(axis="x", labelrotation=30)
    figure.suptitle(f"{grid.model.name}  ({grid.model.architecture})", fontsize=11)
    if others:
        plots[0].legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.lower().endswith(".svg") else None)


def _measured(name: str) -> str:
    """The label of an axis: what is measured, and in what."""
    words = name.replace("_", " ")
    if UNITS[name] != "parameters":
        return words if words.endswith("flops") else f"{words} ({UNITS[name]})"
    return "parameters" if name == "params" else f"{words} parameters"


def _counts() -> Any:
    """Counts of parameters in k, M, B and T."""
    from matplotlib.ticker import FuncFormatter

    from sizer.units import count

    return FuncFormatter(lambda y, _: count(int(y)) if y >= 0 else "")


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
