"""Matrix products, lookups by index, and ops whose gradients have the shapes of their inputs."""

from __future__ import annotations

from collections.abc import Sequence

from sizer.core.dims import Dim
from sizer.measures.step.ops.views import reshape, view
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Shape, Tensor


def mm(tape: Tape, x: Tensor, weight: Tensor, out: Dim, *, op: str = "linear", turned: bool = True) -> Tensor:
    """x [N, in] times a weight; `turned` where it is stored [out, in]. The weight's gradient comes first."""
    inp = x.shape[-1]
    seen = view(weight, (inp, out), None)
    kept_w = seen if x.needs_grad else None
    kept_x = x if weight.needs_grad else None
    tape.save(op, *(kept for kept in (kept_x, kept_w) if kept is not None))
    y = tape.product("mm", (x.shape[0], out), x.dtype)
    if kept_x is not None or kept_w is not None:
        shape, dtype = weight.shape, weight.dtype
        rows = x.shape

        def backward(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
            to_weight = None if kept_x is None else tape.new("mm", shape, dtype)
            to_x = None if kept_w is None else tape.new("mm", rows, g.dtype)
            return to_x, to_weight

        tape.record((x, weight), backward, y)
    return y


def addmm(tape: Tape, bias: Tensor, x: Tensor, weight: Tensor, out: Dim, *, op: str = "linear") -> Tensor:
    """bias + x [N, in] times a weight. The input's gradient comes first, the bias's last."""
    inp = x.shape[-1]
    kept_w = view(weight, (inp, out), None) if x.needs_grad else None
    kept_x = x if weight.needs_grad else None
    tape.save(op, *(kept for kept in (kept_x, kept_w) if kept is not None))
    y = tape.product("addmm", (x.shape[0], out), x.dtype)
    if kept_x is not None or kept_w is not None or bias.needs_grad:
        shape, rows, has_bias = weight.shape, x.shape, bias.needs_grad

        def backward(g: Tensor) -> tuple[Tensor | None, ...]:
            to_x = None if kept_w is None else tape.new("mm", rows, g.dtype)
            to_weight = None if kept_x is None else tape.new("mm", shape, g.dtype)
            return g if has_bias else None, to_x, to_weight

        tape.record((bias, x, weight), backward, y)
    return y


def matmul(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    """A product of matrices of every head, [B, H, n, m] times [B, H, m, k]."""
    batch, heads, n, m = a.shape
    k = b.shape[-1]
    a3 = reshape(tape, a, (batch * heads, n, m))
    b3 = reshape(tape, b, (batch * heads, m, k))
    del a, b
    y = bmm(tape, a3, b3, op="matmul")
    return reshape(tape, y, (batch, heads, n, k))


def bmm(tape: Tape, a: Tensor, b: Tensor, *, op: str) -> Tensor:
    """A batch of matrix products, which keeps the second and the first; the second's gradient comes first."""
    kept_a = a if b.needs_grad else None
    kept_b = b if a.needs_grad else None
    tape.save(op, *(kept for kept in (kept_b, kept_a) if kept is not None))
    shape_a, shape_b = a.shape, b.shape
    y = tape.product("bmm", (shape_a[0], shape_a[1], shape_b[2]), a.dtype)
    if kept_a is not None or kept_b is not None:

        def backward(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
            to_b = None if kept_a is None else tape.new("bmm", shape_b, g.dtype)
            to_a = None if kept_b is None else tape.new("bmm", shape_a, g.dtype)
            return to_a, to_b

        tape.record((a, b), backward, y)
    return y


def generic(
    tape: Tape,
    op: str,
    inputs: Sequence[Tensor],
    shape: Shape,
    dtype: str,
    *,
    saved: Sequence[Tensor] = (),
) -> Tensor:
    """An op whose backward pass makes a gradient of each input's own shape, from what it saved."""
    needed = any(tensor.needs_grad for tensor in inputs)
    if needed and saved:
        tape.save(op, *saved)
    y = tape.new(op, shape, dtype)
    if needed:
        kept = tuple(saved)
        wanted = [(t.shape, t.dtype) if t.needs_grad else None for t in inputs]

        def backward(g: Tensor) -> tuple[Tensor | None, ...]:
            held = kept
            outs = [w and tape.new(f"{op}_backward", *w) for w in wanted]
            del held
            return tuple(outs)

        tape.record(inputs, backward, y)
    return y


def index(tape: Tape, x: Tensor, shape: Shape, *places: Tensor) -> Tensor:
    """Elements at places that are kept; backward, they are put into zeros, which makes a tensor more."""
    if x.needs_grad:
        tape.save("index", *places)
    y = tape.new("index", shape, x.dtype)
    if x.needs_grad:
        old = x.shape

        def backward(g: Tensor, kept: Sequence[Tensor] = places) -> tuple[Tensor]:
            zeros = tape.new("new_zeros", old, g.dtype)
            out = tape.new("index_put", old, g.dtype)
            del zeros
            return (out,)

        tape.record((x,), backward, y)
    return y
