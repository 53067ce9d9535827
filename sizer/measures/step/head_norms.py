"""Norms of queries and keys with the heads as the outer axis: one for all heads, or one for each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.tree import Module
from sizer.measures.step import ops
from sizer.measures.step.parts import joined
from sizer.measures.step.tensors import Tensor

if TYPE_CHECKING:
    from sizer.measures.step.run import Run


def apply(run: Run, norm: Module, path: str, x: Tensor) -> Tensor:
    """The norm of [B, H, T, Dh]; a list has one for each head, as StableLM's."""
    if norm.kind:
        return run.call(norm, path, x)
    one = norm.children[0]
    assert isinstance(one, Module)
    tape, heads, inside = run.tape, x.shape[1], joined(path, norm.name)
    apart = ops.apart(tape, x, _count(run, heads))
    normed = [run.norm(one, f"{inside}.{one.name}.{i}", piece) for i, piece in enumerate(apart)]
    tape.module = inside
    return ops.together(tape, normed, x.shape)


def _count(run: Run, heads: Dim) -> int:
    """The number of heads, also of a run over letters, which follows that of the numbers."""
    count = 0
    while run.tape.choose(partial(_left, count, heads)):
        count += 1
    return count


def _left(count: int, heads: Dim) -> bool:
    return bool(count < heads)
