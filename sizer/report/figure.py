"""What all pictures share: where they are written, their colours, and axes in people's numbers."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sizer import units
from sizer.errors import BadInput, MissingExtra, clip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that people with any colour vision tell apart (Okabe and Ito 2008), and marks beside them.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
ENDINGS = (".svg", ".png", ".pdf")


# Instead of a file: bars of text below the answer.
TEXT = "-"


# A colour for each part of memory, in every picture of it.
OF_PARTS = {
    "weights": COLOURS[0],
    "held by others too": COLOURS[5],
    "gradients": COLOURS[1],
    "optimizer state": COLOURS[2],
    "KV cache": COLOURS[4],
    "activations": COLOURS[3],
}
GREY = "#bbbbbb"


def check(path: str, *, text: bool = False) -> None:
    """Refuse a picture that cannot be drawn, before anything is worked out for it; `text`: bars may be."""
    if text and path == TEXT:
        return
    if not path.lower().endswith(ENDINGS):
        raise BadInput(f"{clip(path)} is no picture that can be drawn; end it in {', '.join(ENDINGS)}")
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise BadInput(f"there is no folder {clip(folder)} to draw in")
    if find_spec("matplotlib") is None:
        raise MissingExtra("plot", "--plot")


def new(width: float = 7.2, height: float = 4.2) -> Figure:
    """An empty figure whose SVG is the same each time."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "sizer"
    return Figure(figsize=(width, height), layout="constrained")


def plain(axes: Axes) -> None:
    """A light grid and no frame."""
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def legend(figure: Figure, axes: Axes) -> None:
    """A legend beside the picture, in the order of its stacks."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], frameon=False, fontsize=9, loc="outside right upper")


def numbers(words: Callable[[int], str] = units.count) -> Any:
    """Labels of an axis: counts in k, M, B and T, or bytes with `units.size`."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: words(int(value)) if value >= 0 else "")


def save(figure: Figure, path: str) -> None:
    """Write a figure as its file's name says."""
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.lower().endswith(".svg") else None)
