"""What gradient checkpointing computes anew in the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.poly import exact_quotient
from sizer.core.tree import Op, Param, State
from sizer.core.walk import Row
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.measures.products import Part

CHECKPOINTING = ("none", "selective", "matmuls", "full")


def checkpointing_of(checkpointing: bool | str) -> str:
    """The kind of gradient checkpointing: `True` is "full"."""
    if isinstance(checkpointing, bool):
        return "full" if checkpointing else "none"
    if checkpointing not in CHECKPOINTING:
        raise UnknownName(
            "kind of checkpointing",
            checkpointing,
            CHECKPOINTING,
            hint=f"known are {', '.join(CHECKPOINTING)}",
        )
    return checkpointing


def recomputed(rows: Sequence[Row], parts: Sequence[Part], mode: str) -> Dim:
    """What a backward pass computes anew.

    Selective: the core of attention. "matmuls": what torch's policy that keeps the outputs of `mm`,
    `addmm`, `bmm` and fused attention does not: routed experts, which are one product of another kind,
    and scans. Full: every block's forward pass. torch stops once it has the last tensor that was kept, which
    is the input of the block's last matrix where nothing after it keeps its output.
    """
    if mode == "none":
        return 0
    total: Dim = 0
    if mode == "selective":
        for part in parts:
            if part.kind == "attention" and part.row.frames:
                total = total + part.forward
        return total
    if mode == "matmuls":
        for part in parts:
            if part.row.frames and not _is_kept(part):
                total = total + part.forward
        return total
    for part in parts:
        if part.row.frames:
            total = total + part.forward
    for part, share in _not_needed(rows, parts):
        total = total - exact_quotient(part.forward * share, part.row.frames[0].count)
    return total


def _is_kept(part: Part) -> bool:
    """Whether it is a product that the policy knows."""
    return part.kind in ("attention", "matmul") and not _is_routed(part.row)


def _is_routed(row: Row) -> bool:
    """Whether a matrix is one of experts of which a token visits some."""
    if getattr(row.leaf, "active", None) is not None:
        return True
    return any(frame.active is not frame.count and frame.active != frame.count for frame in row.frames[1:])


def _not_needed(rows: Sequence[Row], parts: Sequence[Part]) -> list[tuple[Part, int]]:
    """The last matrices of the blocks, each with the number of blocks that it ends."""
    part_of = {id(part.row): part for part in parts}
    open_: dict[str, set[int]] = {}
    found: list[tuple[Part, int]] = []
    for row in reversed(rows):
        if not row.frames or row.frames[0].indices is None or isinstance(row.leaf, State):
            continue
        block = row.name.partition("{}")[0]
        layers = set(row.frames[0].indices)
        seen = open_.setdefault(block, set())
        ends = layers - seen
        part = part_of.get(id(row))
        if ends and part is not None and _ends_a_block(row):
            found.append((part, len(ends)))
        if part is not None or _keeps_its_input(row):
            seen |= layers
    return found


def _ends_a_block(row: Row) -> bool:
    """Whether nothing keeps the output of a matrix: it goes into the sum with the residual.

    The outputs of routed experts are weighted, and kept for that.
    """
    leaf = row.leaf
    if not isinstance(leaf, Param) or leaf.use != "matmul" or _is_routed(row):
        return False
    first, last = leaf.axes[0].name, leaf.axes[-1].name
    return first == "embed" or (last == "embed" and first in ("ffn", "heads"))


def _keeps_its_input(row: Row) -> bool:
    return isinstance(row.leaf, Op) or row.component == "norm" or row.kind.endswith("norm")
