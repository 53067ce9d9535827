"""The ops of PyTorch that models are made of: what each allocates, keeps, and does backwards.

Forward: the kernels as they are dispatched. Backward: `tools/autograd/derivatives.yaml`, with the
helpers in `FunctionsManual.cpp`; what those hold while they work is held here too.
"""

from __future__ import annotations

from collections.abc import Sequence

from sizer.core.dims import Dim
from sizer.measures.step.tape import BYTES, Shape, Storage, Tape, Tensor, dense, numel, steps


def higher(*tensors: Tensor) -> str:
    """The type that an op of several tensors computes in."""
    for dtype in ("fp32", "bf16", "fp16"):
        if any(tensor.dtype == dtype for tensor in tensors):
            return dtype
    return tensors[0].dtype


# -- views ------------------------------------------------------------------------------------


def view(x: Tensor, shape: Shape, strides: Shape | None) -> Tensor:
    """The same storage under another shape."""
    return Tensor(x.storage, shape, x.dtype, strides)


def transpose(tape: Tape, x: Tensor, a: int, b: int) -> Tensor:
    """Two axes exchanged."""
    y = _transposed(tape, x, a, b)
    if x.needs_grad:
        tape.record((x,), lambda g: (_transposed(tape, g, a, b),), y)
    return y


def _transposed(tape: Tape, x: Tensor, a: int, b: int) -> Tensor:
    shape = list(x.shape)
    shape[a], shape[b] = shape[b], shape[a]
    if tape.symbolic:
        return view(x, tuple(shape), None)
    strides = list(x.strides or steps(x.shape))
    strides[a], strides[b] = strides[b], strides[a]
    return view(x, tuple(shape), _in_order(tuple(shape), tuple(strides)))


def _in_order(shape: Shape, strides: Shape) -> Shape | None:
    """`None` where the strides are those of a tensor laid out in order."""
    expected: Dim = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != expected:
                return strides
            expected = expected * size
    return None


def reshape(tape: Tape, x: Tensor, shape: Shape) -> Tensor:
    """Another shape: a view where the layout allows it, else a copy."""
    y = reshaped(tape, x, shape)
    if x.needs_grad:
        old = x.shape
        tape.record((x,), lambda g: (reshaped(tape, g, old),), y)
    return y


def reshaped(tape: Tape, x: Tensor, shape: Shape) -> Tensor:
    """The same without a graph."""
    if tape.choose(lambda: x.strides is None):
        return view(x, shape, None)
    strides: list[Shape | None] = [None]

    def fits() -> bool:
        strides[0] = _view_strides(x.shape, x.strides or (), shape)
        return strides[0] is not None

    if tape.choose(fits):
        return view(x, shape, None if strides[0] is None else _in_order(shape, strides[0]))
    return tape.new("clone", shape, x.dtype)


def _view_strides(old: Shape, strides: Shape, new: Shape) -> Shape | None:
    """The strides of a view of another shape; none where only a copy can have it (ATen's computeStride)."""
    place = len(new) - 1
    found: list[Dim] = [0] * len(new)
    base, old_size, new_size = strides[-1], 1, 1
    for i in range(len(old) - 1, -1, -1):
        old_size *= old[i]
        if i == 0 or (old[i - 1] != 1 and strides[i - 1] != old_size * base):
            while place >= 0 and (new_size < old_size or new[place] == 1):
                found[place] = new_size * base
                new_size *= new[place]
                place -= 1
            if new_size != old_size:
                return None
            if i > 0:
                base, old_size, new_size = strides[i - 1], 1, 1
    return tuple(found) if place == -1 else None


def contiguous(tape: Tape, x: Tensor) -> Tensor:
    """The same tensor laid out in order: a copy where it is not."""
    if tape.choose(lambda: x.strides is None):
        return x
    y = tape.new("clone", x.shape, x.dtype)
    if x.needs_grad:
        tape.record((x,), lambda g: (g,), y)
    return y


def part(tape: Tape, x: Tensor, width: Dim, *, step: int = 1) -> Tensor:
    """A slice of the last axis, or every second element; backward, zeros take the place of the rest."""
    shape = (*x.shape[:-1], width)
    strides = None
    if not tape.symbolic:
        *outer, last = x.strides or steps(x.shape)
        strides = (*outer, last * step)
    y = view(x, shape, strides)
    if x.needs_grad:
        old = x.shape
        tape.record((x,), lambda g: (tape.new("slice_backward", old, g.dtype),), y)
    return y


def select(tape: Tape, x: Tensor) -> Tensor:
    """One entry of the first axis; backward, the others are filled with zeros."""
    y = view(x, x.shape[1:], None)
    if x.needs_grad:
        old = x.shape
        tape.record((x,), lambda g: (tape.new("select_backward", old, g.dtype),), y)
    return y


def without_first(tape: Tape, x: Tensor) -> Tensor:
    """All but the first of the last axis, without a graph."""
    shape = (*x.shape[:-1], x.shape[-1] - 1)
    return view(x, shape, None if tape.symbolic else _in_order(shape, x.strides or steps(x.shape)))


def split(tape: Tape, x: Tensor, widths: Sequence[Dim]) -> list[Tensor]:
    """The last axis cut into pieces; backward, one tensor is put together of theirs."""
    strides = None if tape.symbolic else x.strides or steps(x.shape)
    pieces = [view(x, (*x.shape[:-1], width), strides) for width in widths]
    if x.needs_grad:
        shape, dtype = x.shape, x.dtype

        def backward(*gradients: Tensor | None) -> tuple[Tensor]:
            filled = [
                tape.new("zeros", piece, dtype) if g is None else g
                for g, piece in zip(gradients, shapes, strict=True)
            ]
            out = tape.new("cat", shape, dtype)
            del filled
            return (out,)

        shapes = [piece.shape for piece in pieces]
        tape.record((x,), backward, *pieces)
    return pieces


def rows(tape: Tape, x: Tensor, sizes: Sequence[Dim]) -> list[Tensor]:
    """The first axis cut into pieces; backward, one tensor is put together of theirs."""
    pieces = [view(x, (size, *x.shape[1:]), None) for size in sizes]
    if x.needs_grad:
        shape, dtype = x.shape, x.dtype
        tape.record((x,), lambda *gradients: (tape.new("cat", shape, dtype),), *pieces)
    return pieces


def cat(tape: Tape, pieces: Sequence[Tensor]) -> Tensor:
    """Tensors end to end along the last axis."""
    width = sum((piece.shape[-1] for piece in pieces), start=0)
    y = tape.new("cat", (*pieces[0].shape[:-1], width), pieces[0].dtype)
    if any(piece.needs_grad for piece in pieces):
        shapes = [piece.shape for piece in pieces]

        def backward(g: Tensor) -> tuple[Tensor, ...]:
            strides = None if tape.symbolic else g.strides or steps(g.shape)
            return tuple(view(g, shape, strides) for shape in shapes)

        tape.record(pieces, backward, y)
    return y


def filled(tape: Tape, shape: Shape, dtype: str, pieces: Sequence[Tensor]) -> Tensor:
    """A new tensor into whose last axis pieces are copied, one after another.

    Backward, each copy keeps the gradient of all but its own place (torch's `CopySlices`).
    """
    y = tape.new("new_empty", shape, dtype)
    for place, piece in enumerate(pieces):
        if not piece.needs_grad:
            continue
        rest = y if y.needs_grad else view(y, shape, None)

        def backward(
            g: Tensor, own: Shape = piece.shape, first: bool = not place
        ) -> tuple[Tensor | None, Tensor]:
            left = tape.new("copy_", shape, g.dtype)
            gradient = tape.new("clone", own, g.dtype)
            if first:
                return None, gradient
            # What the copy overwrote gets no gradient: zeros, written into what is left.
            tape.new("zeros_like", own, g.dtype)
            return left, gradient

        tape.record((rest, piece), backward, y)
    return y


def expand(tape: Tape, x: Tensor, shape: Shape) -> Tensor:
    """The same elements again along axes of size 1; backward, a sum over them."""
    y = view(x, shape, None)
    if not tape.symbolic:
        old = x.strides or steps(x.shape)
        y.strides = tuple(
            0 if before != after else step for before, after, step in zip(x.shape, shape, old, strict=True)
        )
    if x.needs_grad:
        before = x.shape
        tape.record((x,), lambda g: (tape.new("sum", before, g.dtype),), y)
    return y


# -- elementwise ------------------------------------------------------------------------------


def _like(tape: Tape, shape: Shape, *operands: Tensor) -> Shape | None:
    """The layout of an elementwise result: that of its operands, the first of which decides."""
    if tape.symbolic or all(operand.strides is None for operand in operands):
        return None
    rank = len(shape)
    laid = []
    for operand in operands:
        pad = rank - len(operand.shape)
        own = operand.strides or steps(operand.shape)
        laid.append(
            [0] * pad
            + [
                0 if n == 1 and shape[pad + i] != 1 else s
                for i, (n, s) in enumerate(zip(operand.shape, own, strict=True))
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
    strides, step = [0] * rank, 1
    for axis in perm:
        strides[axis] = step
        step *= shape[axis]
    return _in_order(shape, tuple(strides))


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
        strides = _like(tape, x.shape, x)
    return tape.new(op, x.shape, dtype or x.dtype, strides)


def zipped(tape: Tape, op: str, a: Tensor, b: Tensor) -> Tensor:
    """An elementwise result of two tensors of which the second may be smaller, without a graph."""
    shape = a.shape if len(a.shape) >= len(b.shape) else b.shape
    if a.shape != b.shape and len(a.shape) == len(b.shape):
        shape = tuple(y if x == 1 else x for x, y in zip(a.shape, b.shape, strict=True))
    return tape.new(op, shape, higher(a, b), _like(tape, shape, a, b))


def add(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    """a + b, which keeps nothing."""
    y = zipped(tape, "add", a, b)
    if a.needs_grad or b.needs_grad:
        needs = a.needs_grad, b.needs_grad
        tape.record((a, b), lambda g: (g if needs[0] else None, g if needs[1] else None), y)
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


# -- matrix products --------------------------------------------------------------------------


def mm(tape: Tape, x: Tensor, weight: Tensor, out: Dim, *, op: str = "linear", turned: bool = True) -> Tensor:
    """x [N, in] times a weight; `turned` where it is stored [out, in]. The weight's gradient comes first."""
    inp = x.shape[-1]
    seen = view(weight, (inp, out), None)
    kept_w = seen if x.needs_grad else None
    kept_x = x if weight.needs_grad else None
    tape.save(op, *(kept for kept in (kept_x, kept_w) if kept is not None))
    y = tape.new("mm", (x.shape[0], out), x.dtype)
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
    y = tape.new("addmm", (x.shape[0], out), x.dtype)
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
    """A batch of matrix products, which keeps both; the second's gradient comes first."""
    kept_a = a if b.needs_grad else None
    kept_b = b if a.needs_grad else None
    tape.save(op, *(kept for kept in (kept_a, kept_b) if kept is not None))
    shape_a, shape_b = a.shape, b.shape
    y = tape.new("bmm", (shape_a[0], shape_a[1], shape_b[2]), a.dtype)
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


# -- normalization, softmax, lookups, losses --------------------------------------------------


def layer_norm(tape: Tape, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """torch's LayerNorm: keeps its input, the mean and the inverse deviation of each token."""
    stats = (*x.shape[:-1], 1)
    present = [tensor for tensor in (weight, bias) if tensor is not None]
    needed = x.needs_grad or any(tensor.needs_grad for tensor in present)
    if needed:
        tape.save("layer_norm", x, *present)
    out = tape.new("native_layer_norm", x.shape, x.dtype)
    mean_, rstd = (Tensor(_storage(tape, stats, x.dtype), stats, x.dtype) for _ in range(2))
    tape.done("native_layer_norm")
    if needed:
        tape.save("layer_norm", mean_, rstd)

        def backward(g: Tensor) -> tuple[Tensor | None, ...]:
            kept = (x, mean_, rstd)
            outs = [
                Tensor(_storage(tape, t.shape, t.dtype), t.shape, t.dtype) if t.needs_grad else None
                for t in (x, *present)
            ]
            tape.done("native_layer_norm_backward")
            del kept
            return tuple(outs)

        tape.record((x, *present), backward, out)
    return out


def _storage(tape: Tape, shape: Shape, dtype: str) -> Storage:
    return Storage(tape, numel(shape) * BYTES[dtype])


def softmax(tape: Tape, x: Tensor, *, op: str = "softmax") -> Tensor:
    """Softmax of the last axis, which keeps its result."""
    return unary(tape, op, x, keeps="output")


def lookup(tape: Tape, table: Tensor, ids: Tensor) -> Tensor:
    """Rows of a table; its gradient is as large as the table."""
    if table.needs_grad:
        tape.save("embedding", ids)
    y = tape.new("embedding", (*ids.shape, table.shape[1]), table.dtype)
    if table.needs_grad:
        shape = table.shape

        def backward(g: Tensor, kept: Tensor = ids) -> tuple[Tensor]:
            return (tape.new("embedding_dense_backward", shape, g.dtype),)

        tape.record((table,), backward, y)
    return y


def cross_entropy(tape: Tape, logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of logits [N, V] against labels [N]: log-softmax, then its mean at the labels."""
    logs = softmax(tape, logits, op="log_softmax")
    loss = Tensor(_storage(tape, (), logs.dtype), (), logs.dtype)
    weight = Tensor(_storage(tape, (), logs.dtype), (), logs.dtype)
    tape.done("nll_loss_forward")
    tape.save("nll_loss", logs, labels, weight)

    def backward(g: Tensor) -> tuple[Tensor]:
        kept = (logs, labels, weight)
        out = tape.new("nll_loss_backward", logs.shape, logs.dtype)
        del kept
        return (out,)

    tape.record((logs,), backward, loss)
    return loss


def attention(tape: Tape, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Fused attention, which keeps its inputs, its output and the log-sum-exp of each query.

    Its result is laid out token by token, [B, T, H, Dh] seen as [B, H, T, Dh].
    """
    batch, heads, length, _ = q.shape
    d_v = v.shape[-1]
    op = "scaled_dot_product_attention"
    needed = q.needs_grad or k.needs_grad or v.needs_grad
    if needed:
        tape.save(op, q, k, v)
    made = Tensor(_storage(tape, (batch, length, heads, d_v), q.dtype), (batch, length, heads, d_v), q.dtype)
    lse = Tensor(_storage(tape, (batch, heads, length), "fp32"), (batch, heads, length), "fp32")
    tape.done(op)
    out = _transposed(tape, made, 1, 2)
    if needed:
        tape.save(op, lse, out)
        kept = (q, k, v, lse, view(out, out.shape, out.strides))

        def backward(g: Tensor) -> tuple[Tensor, ...]:
            outs = []
            for tensor in kept[:3]:
                b, h, n, d = tensor.shape
                made = Tensor(_storage(tape, (b, n, h, d), tensor.dtype), (b, n, h, d), tensor.dtype)
                outs.append(_transposed(tape, made, 1, 2))
            tape.done(f"{op}_backward")
            return tuple(outs)

        tape.record((q, k, v), backward, out)
    return out
