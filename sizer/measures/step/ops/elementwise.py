"""Elementwise ops and means, with the layouts of their results (ATen's TensorIterator)."""

from __future__ import annotations

from functools import lru_cache

from sizer.core.dims import Dim
from sizer.measures.step.ops.views import higher, in_order, view
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Shape, Tensor, dense, steps


def like(tape: Tape, shape: Shape, *operands: Tensor) -> Shape | None:
    """The layout of an elementwise result: that of its operands, the first of which decides."""
    if tape.symbolic or all(operand.strides is None for operand in operands):
        return None
    return _laid(shape, tuple((operand.shape, operand.strides) for operand in operands))


@lru_cache(maxsize=1 << 12)
def _laid(shape: Shape, operands: tuple[tuple[Shape, Shape | None], ...]) -> Shape | None:
    rank = len(shape)
    laid = []
    for own_shape, strides in operands:
        pad = rank - len(own_shape)
        own = strides or steps(own_shape)
        laid.append(
            [0] * pad
            + [
                0 if n == 1 and shape[pad + i] != 1 else s
                for i, (n, s) in enumerate(zip(own_shape, own, strict=True))
            ]
        )
    perm = list(range(rank - 1, -1, -1))
    for i in range(1, rank):
        at = i
        for j in range(i - 1, -1, -1):
            order = _compare(perm[j], perm[at], shape, laid)
            if order > 0:
                perm[j], perm[at] = perm[at], perm[j]
                at = j
            elif order < 0:
                break
    steps_of, step = [0] * rank, 1
    for axis in perm:
        steps_of[axis] = step
        step *= shape[axis]
    return in_order(shape, tuple(steps_of))


def _compare(a: int, b: int, shape: Shape, laid: list[list[Dim]]) -> int:
    """Whether axis `a` is outside axis `b` (1), inside it (-1), or neither (ATen's TensorIterator)."""
    for strides in laid:
        if strides[a] == 0 or strides[b] == 0:
            continue
        if strides[a] != strides[b]:
            return 1 if strides[a] > strides[b] else -1
        if shape[a] > shape[b]:
            return 1
    return 0


def map_of(tape: Tape, op: str, x: Tensor, dtype: str = "") -> Tensor:
    """An elementwise result of one tensor, without a graph."""
    strides = x.strides
    if strides is not None and not dense(x):
        strides = like(tape, x.shape, x)
    return tape.new(op, x.shape, dtype or x.dtype, strides)


def zipped(tape: Tape, op: str, a: Tensor, b: Tensor) -> Tensor:
    """An elementwise result of two tensors of which the second may be smaller, without a graph."""
    if a.shape == b.shape and a.strides is b.strides is None:
        return tape.new(op, a.shape, a.dtype if a.dtype == b.dtype else higher(a, b))
    shape = a.shape if len(a.shape) >= len(b.shape) else b.shape
    if a.shape != b.shape and len(a.shape) == len(b.shape):
        shape = tuple(y if x == 1 else x for x, y in zip(a.shape, b.shape, strict=True))
    return tape.new(op, shape, higher(a, b), like(tape, shape, a, b))


def add(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    """a + b, which keeps nothing."""
    y = zipped(tape, "add", a, b)
    if a.needs_grad or b.needs_grad:
        needs = a.needs_grad, b.needs_grad
        before = tape.summands if tape.last_sum == id(a.storage) else ()
        tape.record((a, b), lambda g: (g if needs[0] else None, g if needs[1] else None), y)
        if tape.checkpointed:
            tape.summands = (*before, *(dtype for dtype in (a.dtype, b.dtype) if dtype != y.dtype))
            tape.last_sum = id(y.storage)
    return y


def sub(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    """a - b, which keeps nothing."""
    y = zipped(tape, "sub", a, b)
    if a.needs_grad or b.needs_grad:
        needs = a.needs_grad, b.needs_grad
        tape.record(
            (a, b), lambda g: (g if needs[0] else None, map_of(tape, "neg", g) if needs[1] else None), y
        )
    return y


def mul(tape: Tape, a: Tensor, b: Tensor, op: str = "mul") -> Tensor:
    """a · b, which keeps each factor for the gradient of the other."""
    kept_a = a if b.needs_grad else None
    kept_b = b if a.needs_grad else None
    tape.save(op, *(kept for kept in (kept_a, kept_b) if kept is not None))
    y = zipped(tape, op, a, b)
    if kept_a is not None or kept_b is not None:

        def backward(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
            to_a = None if kept_b is None else zipped(tape, "mul", g, kept_b)
            to_b = None if kept_a is None else zipped(tape, "mul", g, kept_a)
            return to_a, to_b

        tape.record((a, b), backward, y)
    return y


def scale(tape: Tape, x: Tensor) -> Tensor:
    """x times a number."""
    y = map_of(tape, "mul", x)
    if x.needs_grad:
        tape.record((x,), lambda g: (map_of(tape, "mul", g),), y)
    return y


def shift(tape: Tape, x: Tensor) -> Tensor:
    """x plus a number."""
    y = map_of(tape, "add", x)
    if x.needs_grad:
        tape.record((x,), lambda g: (g,), y)
    return y


def neg(tape: Tape, x: Tensor) -> Tensor:
    """-x."""
    y = map_of(tape, "neg", x)
    if x.needs_grad:
        tape.record((x,), lambda g: (map_of(tape, "neg", g),), y)
    return y


def power(tape: Tape, x: Tensor) -> Tensor:
    """x to a power, which keeps x."""
    if x.needs_grad:
        tape.save("pow", x)
    y = map_of(tape, "pow", x)
    if x.needs_grad:

        def backward(g: Tensor) -> tuple[Tensor]:
            lower = map_of(tape, "pow", x)
            scaled = map_of(tape, "mul", lower)
            return (zipped(tape, "mul", g, scaled),)

        tape.record((x,), backward, y)
    return y


def mean(tape: Tape, x: Tensor) -> Tensor:
    """The mean of the last axis."""
    y = tape.new("mean", (*x.shape[:-1], 1), x.dtype)
    if x.needs_grad:
        shape = x.shape
        tape.record((x,), lambda g: (tape.new("div", shape, g.dtype),), y)
    return y


def rsqrt(tape: Tape, x: Tensor) -> Tensor:
    """One over the root, which keeps the result."""
    y = map_of(tape, "rsqrt", x)
    if x.needs_grad:
        tape.save("rsqrt", y)
        kept = view(y, y.shape, y.strides)

        def backward(g: Tensor) -> tuple[Tensor]:
            cubed = map_of(tape, "pow", kept)
            scaled = map_of(tape, "mul", g)
            out = zipped(tape, "mul", scaled, cubed)
            return (out,)

        tape.record((x,), backward, y)
    return y


def unary(tape: Tape, op: str, x: Tensor, *, keeps: str = "input") -> Tensor:
    """A function that keeps its input or its output, and has a kernel for its gradient."""
    if x.needs_grad and keeps == "input":
        tape.save(op, x)
    y = map_of(tape, op, x)
    if x.needs_grad:
        if keeps == "output":
            tape.save(op, y)
        kept = x if keeps == "input" else view(y, y.shape, y.strides)
        tape.record((x,), lambda g: (zipped(tape, f"{op}_backward", g, kept),), y)
    return y


def to(tape: Tape, x: Tensor, dtype: str) -> Tensor:
    """The same numbers in another type; the tensor itself where it has it already."""
    if x.dtype == dtype:
        return x
    y = map_of(tape, "_to_copy", x, dtype)
    if x.needs_grad:
        old = x.dtype
        tape.record((x,), lambda g: (map_of(tape, "_to_copy", g, old),), y)
    return y
