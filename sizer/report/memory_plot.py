"""The picture of `sizer memory`: its parts over the length or the number of sequences, stacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sizer.core.record import Record
from sizer.errors import InvalidConfig
from sizer.report import bars, figure
from sizer.report.memory import ALONG

# What is stacked, from the bottom up; the keys of the document.
PARTS = {
    "weights_bytes": "weights",
    "gradients_bytes": "gradients",
    "optimizer_bytes": "optimizer state",
    "kv_cache_bytes": "KV cache",
    "activations_bytes": "activations",
}
# Points to the left and right of the one that is asked for, each twice the one before.
BEFORE, AFTER = 3, 3
GIB = 2**30


class Stacks(Record):
    """The parts at each size, from the bottom up, and the peak or total of each."""

    __slots__ = ("label", "line", "names", "sizes", "values")

    def __init__(
        self,
        sizes: Sequence[int],
        names: Sequence[str],
        values: Sequence[Sequence[int]],
        label: str,
        line: Sequence[int],
    ) -> None:
        self.sizes = sizes
        self.names = names
        self.values = values
        self.label = label
        self.line = line


def stacks(at: int, document_of: Callable[[int], Mapping[str, Any]]) -> Stacks:
    """The parts for sizes around `at`, each of them worked out.

    What is alive at the peak and no part of the others, such as the gradient of the logits, is the rest.
    """
    smaller = [at >> i for i in range(1, BEFORE + 1) if at % 2**i == 0]
    sizes = sorted([*smaller, at, *(at << i for i in range(1, AFTER + 1))])
    documents = [document_of(size) for size in sizes]
    whole = next((key for key in ("peak_bytes", "total_bytes") if key in documents[0]), None)
    if whole is None:
        raise InvalidConfig("--plot draws a step or inference; leave --estimate and --ledger out")
    shown = [key for key in PARTS if any(document.get(key) for document in documents)]
    line = [int(document[whole]) for document in documents]
    values = [[int(document.get(key, 0)) for document in documents] for key in shown]
    rest = [max(0, top - sum(parts)) for top, *parts in zip(line, *values, strict=True)]
    names, label = [PARTS[key] for key in shown], whole.removesuffix("_bytes")
    if any(1000 * left > top for left, top in zip(rest, line, strict=True)):
        names, values = [*names, f"the rest of the {label}"], [*values, rest]
    return Stacks(sizes, names, values, label, line)


def lines(found: Stacks, along: str) -> list[str]:
    """The same as bars of text."""
    columns = zip(*found.values, strict=True)
    rows = [(f"{size:,}", parts) for size, parts in zip(found.sizes, columns, strict=True)]
    return bars.stacked(rows, found.names, above=f"{ALONG[along]}, and all parts together")


def draw(path: str, along: str, found: Stacks, *, title: str) -> None:
    """Draw the parts, and the peak or total as a line."""
    drawing = figure.new()
    axes: Any = drawing.subplots()
    axes.stackplot(
        found.sizes,
        *([value / GIB for value in part] for part in found.values),
        labels=found.names,
        colors=[figure.OF_PARTS.get(name, figure.GREY) for name in found.names],
        alpha=0.85,
    )
    line = [value / GIB for value in found.line]
    axes.plot(found.sizes, line, color="#000000", linewidth=1.4, marker="o", markersize=4, label=found.label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(found.sizes, [f"{size:,}" for size in found.sizes])
    axes.set_xlim(found.sizes[0], found.sizes[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(ALONG[along])
    axes.set_ylabel("GiB")
    axes.set_title(title, fontsize=10)
    figure.plain(axes)
    figure.legend(drawing, axes)
    figure.save(drawing, path)
