"""How many elements one rank holds of each layer: one fold over the rows for each way to split them.

Stages of a pipeline are sums of layers, so that a search over them asks the rows only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from sizer.core.record import Record
from sizer.core.tree import Param
from sizer.core.walk import Row
from sizer.errors import InvalidConfig
from sizer.measures.sharding import MEGATRON_VOCAB, Plan, piece_of


class Elements(NamedTuple):
    """Elements on a rank: of tensors that data-parallel ranks share, of experts, of matrices in
    blocks among both, and outputs of those matrices."""

    dense: int = 0
    expert: int = 0
    linear: int = 0
    channels: int = 0

    def __add__(self, other: object) -> Elements:
        assert isinstance(other, Elements)
        return Elements(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def total(self) -> int:
        """All of them."""
        return self.dense + self.expert


class Stage(Record):
    """A stage of a pipeline: its number, its layers, and the elements of one of its ranks."""

    __slots__ = ("elements", "first", "index", "largest", "last", "layers")

    def __init__(
        self, index: int, first: bool, last: bool, layers: int, elements: Elements, largest: Elements
    ) -> None:
        self.index = index
        self.first = first
        self.last = last
        self.layers = layers
        self.elements = elements
        # The layer that has most, which ZeRO-3 gathers.
        self.largest = largest


class Pieces:
    """What a rank holds of every layer, of what is before them and of what is behind."""

    def __init__(self, rows: Sequence[Row], plan: Plan) -> None:
        self.layers: list[Elements] = []
        self.before = self.behind = self.tied = Elements()
        # Layers that are one and the same set of tensors: stored once on each stage that has any.
        self.shared: list[tuple[list[int], Elements]] = []
        self.stacks = 0
        offset, stack = 0, ""
        for row in rows:
            leaf = row.leaf
            if not isinstance(leaf, Param):
                continue
            if not row.frames:
                self._outside(row, leaf, plan)
                continue
            name = row.name.partition("{}")[0]
            if name != stack:
                stack, offset = name, len(self.layers)
                self.stacks += 1
            if leaf.tied_to is not None:
                continue
            outer = row.frames[0]
            indices = list(outer.indices or range(int(outer.count)))
            found = _elements(row, leaf, plan, 1 if outer.shared else row.copies // len(indices))
            self.layers += [Elements()] * (offset + max(indices) + 1 - len(self.layers))
            if outer.shared:
                self.shared.append(([offset + index for index in indices], found))
                continue
            for index in indices:
                self.layers[offset + index] += found
        self._sums = list(accumulate(self.layers, initial=Elements()))
        self._stages: dict[tuple[int, int], list[Stage]] = {}

    def _outside(self, row: Row, leaf: Param, plan: Plan) -> None:
        found = _elements(row, leaf, plan, 1)
        if leaf.tied_to is None:
            if self.layers:
                self.behind += found
            else:
                self.before += found
        elif self.layers and len(leaf.axes) > 1:
            # A head that is tied to the first stage's table is stored again on the last.
            self.tied += found

    @property
    def n_layers(self) -> int:
        """Layers of all stacks."""
        return len(self.layers)

    def stages(self, pp: int, chunks: int = 1) -> list[Stage]:
        """The stages that can be the heaviest: the first, one with most layers, and the last.

        Of an interleaved pipeline each has so many chunks, dealt out in turn.
        """
        if (pp, chunks) not in self._stages:
            if chunks > 1 and self.n_layers % (pp * chunks):
                raise InvalidConfig(
                    f"vpp = {chunks}: n_layers = {self.n_layers} is no multiple of pp · vpp = {pp * chunks}"
                )
            edges = stage_edges(self.n_layers, pp * chunks, self.stacks)
            widest = max(range(pp), key=lambda i: (edges[i][1] - edges[i][0], -i))
            dealt = {i: edges[i::pp] for i in sorted({0, widest, pp - 1})}
            self._stages[pp, chunks] = [self._stage(i, pp, spans) for i, spans in dealt.items()]
        return self._stages[pp, chunks]

    def _stage(self, index: int, pp: int, spans: Sequence[tuple[int, int]]) -> Stage:
        first, last = index == 0, index == pp - 1
        inside = Elements()
        for start, end in spans:
            inside += Elements(*(b - a for a, b in zip(self._sums[start], self._sums[end], strict=True)))
        for places, found in self.shared:
            if any(start <= layer < end for layer in places for start, end in spans):
                inside += found
        if first:
            inside += self.before
        if last:
            inside += self.behind
            if pp > 1:
                inside += self.tied
        layers = [layer for start, end in spans for layer in self.layers[start:end]]
        largest = max(layers, key=lambda one: one.total, default=Elements())
        return Stage(index, first, last, len(layers), inside, largest)


def stage_edges(layers: int, pp: int, stacks: int = 1) -> list[tuple[int, int]]:
    """The layers of each stage; what is left over goes to the stages before the last (vLLM's rule).

    >>> stage_edges(10, 4)
    [(0, 2), (2, 5), (5, 8), (8, 10)]
    """
    if pp > 1 and stacks > 1:
        raise InvalidConfig(f"pp = {pp}: the layers of this model are in {stacks} stacks; use pp = 1")
    if pp > max(layers, 1):
        raise InvalidConfig(f"pp = {pp} is more than n_layers = {layers}; use at most {layers}")
    counts = [layers // pp] * pp
    for back in range(2, layers % pp + 2):
        counts[-back] += 1
    return list(pairwise(accumulate(counts, initial=0)))


def _elements(row: Row, leaf: Param, plan: Plan, copies: int) -> Elements:
    held = piece_of(row, plan).params * copies
    expert = row.component == "experts"
    linear = leaf.use == "matmul" and row.frames and len(leaf.axes) > 1 and row.component != "router"
    channels = 0
    if linear:
        # Of a tensor [.., out, in] each output has a scale; experts have theirs each.
        channels = held // int(leaf.axes[-1].size)
    return Elements(0 if expert else held, held if expert else 0, held if linear else 0, channels)


def plan_of(framework: str, tp: int, ep: int, etp: int, n_groups: int | None = None) -> Plan:
    """The plan that a rank's pieces follow; a vocabulary that is not split is not padded."""
    vocab = MEGATRON_VOCAB if tp > 1 else 1
    return Plan(framework, tp, 1, ep, ep, etp, 0, vocab, n_groups)
