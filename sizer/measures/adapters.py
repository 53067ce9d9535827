"""FLOPs of a step that trains low-rank adapters alone (LoRA, arXiv:2106.09685)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from sizer.core.layers import MATRICES
from sizer.core.tree import Op, Param
from sizer.core.walk import Row
from sizer.errors import InvalidConfig
from sizer.measures.lora import LoRA, adapters
from sizer.measures.needs import Needs, routed, sides
from sizer.measures.products import Part

if TYPE_CHECKING:
    from sizer.measures.flops import Flops
    from sizer.measures.passes import Pass

NOTE = (
    "LoRA: a frozen matrix has no gradient of its own, and nothing before the first adapter needs one; "
    "routed experts have no adapters"
)


def with_lora(found: Flops, lora: LoRA, rows: Sequence[Row], run: Pass) -> Flops:
    """The same step with every weight frozen but the adapters.

    An adapter is two matrices beside a frozen one, `[rank, in]` and `[out, rank]`.
    """
    if lora.dora:
        raise InvalidConfig("lora: FLOPs of the magnitudes of DoRA are not counted; leave dora out")
    trained = {one.name for one in adapters((row for row in rows if not routed(row)), lora)}
    parts = {id(part.row): part for part in found.parts}
    spared = dict.fromkeys(parts, 0)
    for row, amount in _not_needed(rows, parts, Needs(trained)):
        spared[id(row)] += amount
    counted: list[Part] = []
    for row in rows:
        part = parts.get(id(row))
        if part is not None:
            counted.append(_frozen(part, spared[id(row)]))
        if row.name.removesuffix(".weight") in trained:
            counted.append(_adapter(row, part, lora.rank, run, spared.get(id(row), 0)))
    forward = sum(part.forward for part in counted)
    backward = sum(part.backward for part in counted)
    assumptions = [*found.assumptions, NOTE]
    return type(found)(
        forward, backward, 0, counted, found.tokens, assumptions, found.latents, found.own_input
    )


def _not_needed(rows: Sequence[Row], parts: dict[int, Part], needs: Needs) -> Iterator[tuple[Row, int]]:
    """Of each row, FLOPs of a backward pass that nobody asks for, layer after layer."""
    for block, group in groupby(rows, key=lambda row: row.name.partition("{}")[0] if row.frames else ""):
        members = [row for row in group if isinstance(row.leaf, Op | Param)]
        visits = _uses(row for row in members if id(row) in parts)
        for layer in range(_depth(members)) if block else (0,):
            here = [row for row in members if not block or layer in (row.frames[0].indices or ())]
            for _ in range(visits):
                for row in needs.through(here):
                    part = parts.get(id(row))
                    if part is not None and part.backward:
                        count = int(row.frames[0].count) * visits if block else 1
                        yield row, needs.spared(row, part.forward // count, part.backward // count)


def _depth(rows: Iterable[Row]) -> int:
    return max((max(row.frames[0].indices or (0,)) + 1 for row in rows), default=0)


def _uses(rows: Iterable[Row]) -> int:
    """How often the layers of a block run on the same tensors."""
    framed = (row for row in rows if row.frames and row.visits)
    return min((int(row.visits // row.frames[0].count) for row in framed), default=1)


def _frozen(part: Part, spared: int) -> Part:
    if part.kind == "attention":
        return part._replace(backward=part.backward - spared)
    if isinstance(part.row.leaf, Param) and part.backward:
        return part._replace(backward=part.forward - spared)
    return part


def _adapter(row: Row, part: Part | None, rank: int, run: Pass, spared: int) -> Part:
    if row.kind not in MATRICES or part is None:
        # A table: its narrow half is looked up, and the other multiplies.
        wide = row.leaf.axes[1].size  # type: ignore[union-attr]
        forward = 2 * run.length(row.stream) * run.batch * rank * wide
        return Part(row, "adapter", forward, 2 * forward, True)
    out, into = (axis.size for axis in sides(row))
    each = part.forward // (into * out) * rank
    # What a frozen matrix is spared, its adapter's first half is, at the rank's share of it.
    return Part(row, "adapter", each * (into + out), 2 * each * (into + out) - spared * rank // out, True)
