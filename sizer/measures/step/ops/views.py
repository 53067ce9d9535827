"""Views and copies: other shapes, slices, pieces, tensors end to end."""

from __future__ import annotations

from collections.abc import Sequence

from sizer.core.dims import Dim
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Shape, Tensor, steps


def higher(*tensors: Tensor) -> str:
    """The type that an op of several tensors computes in."""
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        return tensors[0].dtype
    return next((dtype for dtype in ("fp32", "bf16", "fp16") if dtype in dtypes), tensors[0].dtype)


def view(x: Tensor, shape: Shape, strides: Shape | None) -> Tensor:
    """The same storage under another shape."""
    return Tensor(x.storage, shape, x.dtype, strides)


def transpose(tape: Tape, x: Tensor, a: int, b: int) -> Tensor:
    """Two axes exchanged."""
    y = transposed(tape, x, a, b)
    if x.needs_grad:
        tape.record((x,), lambda g: (transposed(tape, g, a, b),), y)
    return y


def transposed(tape: Tape, x: Tensor, a: int, b: int) -> Tensor:
    """Two axes exchanged, without a graph."""
    shape = list(x.shape)
    shape[a], shape[b] = shape[b], shape[a]
    if tape.symbolic:
        return view(x, tuple(shape), None)
    strides = list(x.strides or steps(x.shape))
    strides[a], strides[b] = strides[b], strides[a]
    return view(x, tuple(shape), in_order(tuple(shape), tuple(strides)))


def in_order(shape: Shape, strides: Shape) -> Shape | None:
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
    if not tape.symbolic:
        # As below, written out: most reshapes are of a tensor that is laid out in order.
        if x.strides is None:
            tape.choices.append(True)
            return Tensor(x.storage, shape, x.dtype)
        tape.choices.append(False)
    elif tape.choose(bool):
        return view(x, shape, None)
    strides: list[Shape | None] = [None]

    def fits() -> bool:
        strides[0] = view_strides(x.shape, x.strides or (), shape)
        return strides[0] is not None

    if tape.choose(fits):
        return view(x, shape, None if strides[0] is None else in_order(shape, strides[0]))
    return tape.new("clone", shape, x.dtype)


def view_strides(old: Shape, strides: Shape, new: Shape) -> Shape | None:
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


def parts(tape: Tape, x: Tensor, width: Dim) -> tuple[Tensor, Tensor]:
    """The last axis up to a width, and the rest of it; of nothing that is left, a tensor without elements."""
    rest = x.shape[-1] - width
    if not tape.choose(lambda: bool(rest == 0)):
        return part(tape, x, width), part(tape, x, rest)
    whole = view(x, x.shape, x.strides)
    if x.needs_grad:
        tape.record((x,), lambda g: (g,), whole)
    return whole, part(tape, x, rest)


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
    return view(x, shape, None if tape.symbolic else in_order(shape, x.strides or steps(x.shape)))


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


def apart(tape: Tape, x: Tensor, count: int) -> list[Tensor]:
    """The entries of the second axis one by one; backward, one tensor is put together of theirs."""
    batch, _, *rest = x.shape
    strides = None if tape.symbolic else x.strides or steps(x.shape)
    pieces = [view(x, (batch, 1, *rest), strides) for _ in range(count)]
    if x.needs_grad:
        shape, dtype = x.shape, x.dtype
        tape.record((x,), lambda *gradients: (tape.new("cat", shape, dtype),), *pieces)
    return pieces


def together(tape: Tape, pieces: Sequence[Tensor], shape: Shape) -> Tensor:
    """Such entries end to end."""
    y = tape.new("cat", shape, pieces[0].dtype)
    if any(piece.needs_grad for piece in pieces):
        one, count = pieces[0].shape, len(pieces)
        tape.record(pieces, lambda g: (view(g, one, g.strides or steps(g.shape)),) * count, y)
    return y


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
