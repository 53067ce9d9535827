"""Parts along one axis of every tensor (FSDP2, DTensor), and of flat buffers (DeepSpeed)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from sizer.core.dims import round_up
from sizer.core.tree import Param
from sizer.core.walk import Row
from sizer.measures.sharding.plan import TENSOR_AXES, Plan, Rank, param_of


def chunked(
    rows: Sequence[Row], ranks: int, axis_of: Callable[[Param], int | None], place: str
) -> Iterator[Rank]:
    """`torch.chunk` along an axis of every tensor; ranks between two changes hold the same."""
    tensors: list[tuple[int, int, int, int]] = []
    whole = 0
    for row in rows:
        leaf = param_of(row)
        if leaf.tied_to is not None:
            continue
        axis = axis_of(leaf)
        if axis is None:
            whole += row.numel * row.copies
            continue
        if not leaf.axes:
            whole += row.copies
            continue
        # A tensor with more rows than mean anything is split as it is.
        along = leaf.axes[axis]
        rest: int = row.numel // along.size * row.copies
        size: int = int(along.size if along.padded is None else along.padded)
        chunk = -(-size // ranks)
        tensors.append((size, rest, chunk, size // chunk))
    changes = {0, ranks}
    for _, _, _, full in tensors:
        changes |= {min(full, ranks), min(full + 1, ranks)}
    edges = sorted(changes)
    reserved = whole + sum(chunk * rest for _, rest, chunk, _ in tensors)
    for first, last in pairwise(edges):
        held = whole
        for size, rest, chunk, _ in tensors:
            held += max(0, min(size, (first + 1) * chunk) - first * chunk) * rest
        yield Rank((range(first, last),), place, held, 0, 0, held, held, reserved)


def fsdp2(rows: Sequence[Row], plan: Plan) -> Iterator[Rank]:
    """The first dimension of every tensor over `dp` ranks, in each group of them alike."""
    for rank in chunked(rows, plan.dp, lambda leaf: 0, "dp"):
        again = range(0, plan.replicate * plan.dp, plan.dp)
        yield rank._replace(ranks=tuple(range(r.start + i, r.stop + i) for i in again for r in rank.ranks))


def dtensor(rows: Sequence[Row], plan: Plan) -> Iterator[Rank]:
    """Heads, MLP widths and the vocabulary over `tp` ranks; a norm over all heads is whole on each."""
    whole = {id(row.leaf) for row in rows if row.component == "norm" and len(param_of(row).axes) == 1}

    def axis_of(leaf: Param) -> int | None:
        if id(leaf) in whole:
            return None
        return next((i for i, axis in enumerate(leaf.axes) if axis.name in TENSOR_AXES), None)

    return chunked(rows, plan.tp, axis_of, "tp")


def deepspeed(rows: Sequence[Row], plan: Plan) -> Iterator[Rank]:
    """Stages 1 and 2: one flat buffer, padded to 2 · dp; stage 3: each tensor by itself, rounded up."""
    own = [row for row in rows if param_of(row).tied_to is None]
    total = sum(row.numel * row.copies for row in own)
    everyone = (range(plan.dp),)
    if plan.zero == 3:
        part = sum(-(-row.numel // plan.dp) * row.copies for row in own)
        yield Rank(everyone, "dp", part, 0, 0, part, part, part)
        return
    share = round_up(total, 2 * plan.dp) // plan.dp
    states = share if plan.zero else total
    gradients = share if plan.zero == 2 else total
    yield Rank(everyone, "dp", total, 0, 0, gradients, states, total)
