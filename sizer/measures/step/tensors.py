"""Tensors without values: storages that live as long as something refers to them, views, ops of the graph.

A storage lives as long as something refers to it: a variable, a saved tensor, a gradient on its
way. Python's own reference counts say when that ends, as they do for the real program, so the code
that runs on these tensors is written as the modules of transformers are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from sizer.core.dims import Dim
from sizer.core.record import Record

if TYPE_CHECKING:
    from sizer.measures.step.tape import Tape

Shape: TypeAlias = tuple[Dim, ...]
# From the gradients of an op's outputs to those of its inputs; none where an input needs none.
Backward: TypeAlias = "Callable[..., tuple[Tensor | None, ...]]"

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int64": 8, "int32": 4, "bool": 1}


class Storage:
    """Memory of one tensor and its views; its bytes are given back when nobody refers to it."""

    __slots__ = ("__weakref__", "is_saved", "n_bytes", "name", "shared", "tape")

    def __init__(self, tape: Tape, n_bytes: Dim, name: str = "") -> None:
        self.tape = tape
        # The parameter or buffer that this is, for a tensor that stands outside the step.
        self.name = name
        self.is_saved = False
        # Whether all layers use it, so that what one keeps of it the others need not.
        self.shared = False
        # Bytes are counted here and given back below: most of a step is making and dropping storages.
        if tape.muted and not name:
            n_bytes = 0
        self.n_bytes = n_bytes
        if name:
            return
        if tape.symbolic:
            tape.alive[id(self)] = n_bytes
        else:
            tape.live += n_bytes

    def __del__(self) -> None:
        if self.name:
            return
        if self.tape.symbolic:
            del self.tape.alive[id(self)]
        else:
            self.tape.live -= self.n_bytes
        if self.shared:
            self.tape.outlived(self.n_bytes)


class Tensor:
    """A view of a storage. `strides` is `None` where it is laid out in order.

    `node` and `slot`: the op it came from, and which of its outputs it is.
    """

    __slots__ = ("dtype", "needs_grad", "node", "shape", "slot", "storage", "strides")

    def __init__(
        self,
        storage: Storage,
        shape: Shape,
        dtype: str,
        strides: Shape | None = None,
        needs_grad: bool = False,
    ) -> None:
        self.storage = storage
        self.shape = shape
        self.dtype = dtype
        self.strides = strides
        self.needs_grad = needs_grad
        self.node: Node | None = None
        self.slot = 0


class Node:
    """An op in the graph: what its backward pass computes, and where that goes."""

    __slots__ = ("again", "again_run", "backward", "edges", "keeper", "n_inputs", "order", "place")

    def __init__(
        self,
        order: int,
        backward: Backward | None,
        edges: Sequence[Edge | None],
        place: str,
        n_inputs: int = 1,
        again_run: bool = False,
    ) -> None:
        self.order = order
        self.backward = backward
        self.edges = edges
        self.place = place
        self.n_inputs = n_inputs
        # Of a checkpointed block: runs it again and answers its last op.
        self.again: Callable[[], Node] | None = None
        self.keeper: Any = None
        self.again_run = again_run


# Where a gradient goes: a node, which of its outputs it belongs to, and the shape and type wanted.
Edge: TypeAlias = "tuple[Node, int, Shape, str]"


class Saved(Record):
    """A tensor that an op keeps for its backward pass; `new` where nobody else kept its storage yet."""

    __slots__ = ("dtype", "layers", "module", "n_bytes", "name", "new", "once", "op", "shape")

    def __init__(
        self,
        module: str,
        op: str,
        shape: Shape,
        dtype: str,
        n_bytes: Dim,
        new: Dim,
        name: str,
        layers: Dim,
        once: bool = False,
    ) -> None:
        self.module = module
        self.op = op
        self.shape = shape
        self.dtype = dtype
        self.n_bytes = n_bytes
        # Bytes of the storage if it is kept here first, else 0.
        self.new = new
        # The parameter or buffer that it is, for one that is kept anyway.
        self.name = name
        # How many equal layers keep such a tensor: it grows while more of them pass, unless all of
        # them keep this very one.
        self.layers = layers
        self.once = once


def dense(tensor: Tensor) -> bool:
    """Whether a tensor's elements fill their storage, in whatever order."""
    if tensor.strides is None:
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.strides, tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected = expected * size
    return True


def numel(shape: Shape) -> Dim:
    """Elements of a shape."""
    return prod(shape)


def nbytes(tensor: Tensor) -> Dim:
    """Bytes of a tensor's elements."""
    return numel(tensor.shape) * BYTES[tensor.dtype]


def steps(shape: Shape) -> Shape:
    """The strides of a tensor laid out in order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))
