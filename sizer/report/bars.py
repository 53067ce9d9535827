"""Stacked bars of text, for a terminal or a pipe: no colour, no cursor, no package."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from sizer import units
from sizer.report.report import Report, View

# From the bottom of a stack to its top, dark to light; and where nothing but ASCII can be written.
FILLS, PLAIN = "█▓▒░╱╲·", "#=-:/+."
NARROWEST, USUAL = 20, 80


def stacked(
    rows: Sequence[tuple[str, Sequence[int]]],
    parts: Sequence[str],
    *,
    above: str,
    totals: Sequence[int] | None = None,
) -> list[str]:
    """A bar for each row, its parts one behind the other; its total, their sum unless given; a legend.

    >>> _, one, two, legend = stacked([("1", (2**30, 2**30)), ("2", (2**30, 0))], ("a", "b"), above="n")
    >>> one.count("█"), one.count("▓"), two.count("█"), two.count("▓"), legend
    (34, 33, 34, 0, '█ a  ▓ b')
    """
    most = max(1, *(sum(sizes) for _, sizes in rows))
    said = [units.size(total, binary=True) for total in totals or [sum(sizes) for _, sizes in rows]]
    fills = _fills()
    names = max(len(name) for name, _ in rows)
    room = max(_width() - names - max(map(len, said)) - 4, NARROWEST)
    lines = [above]
    for (name, sizes), text in zip(rows, said, strict=True):
        lines.append(f"{name:>{names}}  {_bar(sizes, fills, most, room):<{room}}  {text}")
    lines.append("  ".join(f"{fill} {part}" for fill, part in zip(fills, parts, strict=False)))
    return lines


def _fills() -> str:
    try:
        FILLS.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return PLAIN
    return FILLS


def _bar(sizes: Sequence[int], fills: str, most: int, room: int) -> str:
    """Each part up to where the sum of those before it ends: the bar is as long as its sum."""
    bar, total = "", 0
    for fill, size in zip(fills, sizes, strict=False):
        total += size
        bar += fill * (_cells(total, most, room) - len(bar))
    return bar


def _cells(size: int, most: int, room: int) -> int:
    return (2 * size * room + most) // (2 * most)


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else USUAL


def below(report: Report, lines: Sequence[str]) -> Report:
    """The same answer with bars below its table; JSON, CSV and `-q` have none."""
    plain = report.view

    def view() -> View:
        found = plain()
        return found._replace(below=[*found.below, "", *lines])

    return report._replace(view=view)
