"""Which values need a gradient where adapters alone are trained: what is behind the first of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sizer.core.tree import Axis, Op, Param
from sizer.core.walk import Row

STREAM = "embed"


class Needs:
    """What needs a gradient, on the way forward through the rows of a model.

    `streams`: the residual stream of each tower. `made`: what matrices have read from it and none has
    given back, by the axis that it lies along. `letters`: of queries, keys and values, those that do.
    """

    def __init__(self, trained: set[str]) -> None:
        self.trained = trained
        self.streams: dict[str, bool] = {}
        self.given: dict[str, bool] = {}
        self.made: dict[str, bool] = {}
        self.letters: set[str] = set()
        self.needed = False

    def through(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Pass the rows of a layer; at each, `spared` answers for it.

        What a part gives back joins the stream at the next norm, so that an MLP beside attention, or
        experts beside each other, read what was there before.
        """
        norms = any(_is_norm(row) for row in rows)
        self.made, self.letters = {}, set()
        for row in rows:
            if _is_norm(row):
                self._join()
            elif isinstance(row.leaf, Op):
                if row.leaf.kind in ("attention", "cross_attention"):
                    yield row
                    self.made["heads"], self.letters = bool(self.letters), set()
            elif row.kind == "embedding":
                name = row.name.removesuffix(".weight")
                self.streams[row.stream] = self.streams.get(row.stream, False) or name in self.trained
            elif isinstance(row.leaf, Param) and row.leaf.use:
                self._matrix(row)
                yield row
                if not norms:
                    self._join()
        self._join()

    def spared(self, row: Row, forward: int, backward: int) -> int:
        """FLOPs of the row's backward pass that nobody asks for, of those of one visit."""
        if isinstance(row.leaf, Op):
            return _spared_attention(row.leaf, self.letters, forward, backward)
        return 0 if self.needed else forward

    def _join(self) -> None:
        for stream, given in self.given.items():
            self.streams[stream] = self.streams.get(stream, False) or given
        self.given = {}

    def _matrix(self, row: Row) -> None:
        out, into = (axis.name for axis in sides(row))
        inside = into in self.made
        self.needed = self.made[into] if inside else self.streams.get(row.stream, False)
        result = self.needed or row.name.removesuffix(".weight") in self.trained
        if out != STREAM:
            self.made[out] = self.made.get(out, False) or result
            if result:
                self.letters |= letters(row)
            return
        self.given[row.stream] = self.given.get(row.stream, False) or result
        self.made.pop(into, None)


def sides(row: Row) -> tuple[Axis, Axis]:
    """The axes of a matrix: of what comes out, and of what goes in."""
    axes: tuple[Axis, ...] = row.leaf.axes  # type: ignore[union-attr]
    return (axes[-1], axes[-2]) if row.kind == "conv1d" else (axes[-2], axes[-1])


def routed(row: Row) -> bool:
    """Whether a row is of experts that a router picks from."""
    return any(frame.active is not frame.count and frame.active != frame.count for frame in row.frames[1:])


def letters(row: Row) -> set[str]:
    """Of queries, keys and values, what a matrix makes, by its name; all where that does not say.

    A name such as `kv_b_proj` begins with them, and one such as `query_key_value` spells them.
    """
    module = row.name.rpartition(".")[0].rpartition(".")[2].lower()
    spelled = {word[0] for word in ("query", "key", "value") if word in module}
    begins = re.match("[qkv]+(?=_|$)", module)
    return spelled or (set(begins[0]) if begins else {"q", "k", "v"})


def _is_norm(row: Row) -> bool:
    return row.component == "norm" or row.kind.endswith("norm")


def _spared_attention(leaf: Op, trained: set[str], forward: int, backward: int) -> int:
    """Attention skips the gradients of what nothing trained is in."""
    if trained >= {"q", "k", "v"}:
        return 0
    if not trained:
        return backward
    if backward > 2 * forward:
        # A fused kernel answers all three at once.
        return 0
    d_qk, d_v = int(leaf.sizes["d_qk"] or 0), int(leaf.sizes["d_v"] or 0)
    one = forward // (d_qk + d_v)
    spared = one * d_qk * (2 - len(trained & {"q", "k"}))
    spared += 0 if "v" in trained else one * d_v
    spared += 0 if trained & {"q", "k"} else one * d_v
    return spared
