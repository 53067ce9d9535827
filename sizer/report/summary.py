"""`sizer.summary`: a live torch module as a table, in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizer import units
from sizer.core.fold import fold
from sizer.errors import InvalidConfig
from sizer.oracles.ledger import ModuleCount, Part, count_module
from sizer.report.report import Table, View, text

HEADERS = ("module", "class", "copies", "each", "params", "share", "")
MOST_NAMED = 4


def summary(module: Any, *, depth: int | None = 3) -> Summary:
    """A live torch module, part by part; each tied tensor once, equal blocks as one row.

    `depth`: levels to show, `None` for all. The answer prints as text, and as HTML in a notebook;
    its numbers are in `.count`.

    For `torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 4))`:

        module      class       copies  each  params    share
        ──────────  ──────────  ──────  ────  ──────  ───────  ─
        Sequential  Sequential            76      76  100.0 %
          0         Linear                40      40   52.6 %
          1         Linear                36      36   47.4 %
    """
    if depth is not None and (type(depth) is not int or depth < 1):
        raise InvalidConfig(f"depth is {depth!r}; give 1 or more levels, or None for all")
    return Summary(count_module(module), depth)


class Summary:
    """The table of a module: `str(summary)` is text, `_repr_html_` what a notebook shows."""

    def __init__(self, count: ModuleCount, depth: int | None) -> None:
        self.count = count
        self.depth = depth

    @property
    def view(self) -> View:
        """The table, and the lines below it."""
        return View(table=Table(HEADERS, list(self._rows()), numbers=(2, 3, 4, 5)), below=self._below())

    def __str__(self) -> str:
        return text(self.view)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from sizer.core.html import table

        return table(HEADERS, self._rows(), numbers=range(2, 6), below=self._below())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        root = self.count.root
        yield self._row(root.cls, root, 1)
        yield from self._inside(root, 1, 1)

    def _inside(self, part: Part, level: int, times: int) -> Iterator[tuple[str, ...]]:
        if self.depth is not None and level > self.depth:
            return
        for child in part.parts:
            name, shown, times_here = child.name, child, times
            # A list of equal blocks is one line: `layers.{0-31}`.
            while len(shown.parts) == 1 and not shown.tensors and shown.parts[0].copies > 1:
                times_here *= shown.copies
                shown = shown.parts[0]
                name = f"{name}.{shown.name}"
            if not (shown.params or shown.buffers or shown.tied or shown.lazy):
                continue
            yield self._row("  " * level + name, shown, times_here)
            yield from self._inside(shown, level + 1, times_here * shown.copies)

    def _row(self, name: str, part: Part, times: int) -> tuple[str, ...]:
        params = part.params * part.copies * times
        tied = [t for t in part.tensors if t.tied_to is not None and t.kind == "param"]
        remarks = [f"{t.name.rpartition('.')[2]} is {t.tied_to}" for t in tied]
        if any(t.lazy for t in part.tensors):
            remarks.append("not initialised")
        if part.params and not part.trainable:
            remarks.append("frozen")
        return (
            name,
            part.cls,
            f"× {part.copies * times:,}" if part.copies * times > 1 else "",
            f"{part.params:,}",
            f"{params:,}",
            units.share(params, self.count.total),
            "; ".join(remarks),
        )

    def _below(self) -> list[str]:
        count = self.count
        lines = [
            ("total", count.total, f"({units.count(count.total)})"),
            ("trainable", count.trainable, ""),
        ]
        if count.frozen:
            lines.append(("frozen", count.frozen, ""))
        if count.tied:
            lines.append(("tied", count.tied, f"not in the total: {self._ties()}"))
        if count.buffers:
            lines.append(("buffers", count.buffers, "not in the total"))
        lines.append(("memory", count.bytes, f"bytes ({units.size(count.bytes)}), parameters and buffers"))
        width = max(len(f"{number:,}") for _, number, _ in lines)
        shown = [f"{name:<9}  {number:>{width},}  {remark}".rstrip() for name, number, remark in lines]
        if count.lazy:
            names = ", ".join(name for name, _ in fold((name, 0) for name in count.lazy[:1000])[:MOST_NAMED])
            more = ", …" if len(count.lazy) > MOST_NAMED else ""
            shown.append(
                f"{len(count.lazy):,} parameters have no shape before the module has run once, and are not "
                f"counted: {names}{more}"
            )
        return shown

    def _ties(self) -> str:
        pairs = fold((t.name, t.tied_to) for t in self.count.tensors if t.tied_to and t.kind == "param")
        more = ", …" if len(pairs) > MOST_NAMED else ""
        return ", ".join(f"{name} is {first}" for name, first in pairs[:MOST_NAMED]) + more
