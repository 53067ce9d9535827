"""The picture of `sizer shard`: what every rank holds, stacked by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sizer.core.record import Record
from sizer.measures.sharding import Rank, Shards
from sizer.report import bars, figure

GIB = 2**30
# Beyond so many ranks, equal ones are one bar.
MOST_BARS = 64
# AdamW's two moments, in 32 bits.
MOMENTS = 8
# Frameworks that serve, and train nothing.
SERVING = ("vllm",)
PARTS = ("weights", "held by others too", "padding", "gradients", "optimizer state")
# Beside the colours, for who prints in grey; in narrow bars they would be noise.
HATCHES = dict(zip(PARTS, ("", "//", "..", "\\\\", ""), strict=True))
MOST_HATCHED, MOST_NAMED = 24, 32


class Holdings(Record):
    """Bars from left to right: whose each is, and the bytes of its parts, from the bottom up."""

    __slots__ = ("bars", "names", "note", "parts")

    def __init__(
        self, bars: Sequence[str], names: Sequence[str], parts: Sequence[Sequence[int]], note: str
    ) -> None:
        self.bars = bars
        self.names = names
        self.parts = parts
        self.note = note


def holdings(found: Shards, *, width: int, per: int, dtype: str) -> Holdings:
    """What the ranks hold, in `width` bytes for `per` elements: weights, and what trains them."""
    alone = found.plan.world <= MOST_BARS
    kinds = sorted(found.ranks, key=lambda rank: rank.first)
    held: list[tuple[str, Rank]] = []
    for rank in kinds:
        if alone:
            held += [(str(number), rank) for part in rank.ranks for number in part]
        else:
            held.append((_range(rank), rank))
    if alone:
        held.sort(key=lambda pair: int(pair[0]))
    trains = found.plan.framework not in SERVING
    rows = [_parts(rank, width, per, trains=trains) for _, rank in held]
    shown = [i for i in range(len(PARTS)) if any(row[i] for row in rows)]
    note = f"weights and gradients in {dtype}, AdamW's moments in fp32" if trains else f"weights in {dtype}"
    return Holdings(
        [name for name, _ in held],
        [PARTS[i] for i in shown],
        [[row[i] for row in rows] for i in shown],
        note,
    )


def _range(rank: Rank) -> str:
    first = rank.ranks[0]
    text = str(first.start) if len(first) == 1 else f"{first.start}-{first.stop - 1}"
    return text if len(rank.ranks) == 1 else f"{text}, …"


def _parts(rank: Rank, width: int, per: int, *, trains: bool) -> tuple[int, ...]:
    def size(elements: int) -> int:
        return -(-elements * width // per)

    weights = (rank.params - rank.copies - rank.padding, rank.copies, rank.padding)
    training = (size(rank.gradients), MOMENTS * rank.optimizer) if trains else (0, 0)
    return *map(size, weights), *training


def lines(found: Holdings) -> list[str]:
    """The bars as text."""
    rows = list(zip(found.bars, zip(*found.parts, strict=True), strict=True))
    return bars.stacked(rows, found.names, above=f"rank, and what it holds: {found.note}")


def draw(path: str, found: Holdings, *, title: str) -> None:
    """Draw a bar for each rank, or for each kind of rank."""
    drawing = figure.new()
    axes: Any = drawing.subplots()
    places = range(len(found.bars))
    under = [0.0] * len(found.bars)
    wide = len(found.bars) <= MOST_HATCHED
    for name, part in zip(found.names, found.parts, strict=True):
        heights = [value / GIB for value in part]
        look = {"color": figure.OF_PARTS.get(name, figure.GREY), "hatch": HATCHES[name] if wide else ""}
        axes.bar(places, heights, bottom=under, label=name, edgecolor="white", linewidth=0.4, **look)
        under = [a + b for a, b in zip(under, heights, strict=True)]
    every = -(-len(found.bars) // MOST_NAMED)
    crowded = sum(map(len, found.bars[::every])) > 60
    axes.set_xticks(places[::every], found.bars[::every], rotation=90 if crowded else 0, fontsize=8)
    axes.set_xlabel("rank")
    axes.set_ylabel("GiB")
    axes.set_title(f"{title}\n{found.note}", fontsize=10)
    figure.plain(axes)
    axes.grid(False, axis="x")
    figure.legend(drawing, axes)
    figure.save(drawing, path)
