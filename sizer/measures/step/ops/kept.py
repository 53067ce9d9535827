"""Norms, softmax, tables, losses and fused attention: what each keeps for its backward pass."""

from __future__ import annotations

from sizer.measures.step.ops.elementwise import like, unary
from sizer.measures.step.ops.views import transposed, view
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import BYTES, Shape, Storage, Tensor, dense, numel


def layer_norm(tape: Tape, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """torch's LayerNorm: keeps its input, the mean and the inverse deviation of each token."""
    stats = (*x.shape[:-1], 1)
    present = [tensor for tensor in (weight, bias) if tensor is not None]
    needed = x.needs_grad or any(tensor.needs_grad for tensor in present)
    if needed:
        tape.save("layer_norm", x, *present)
    out = tape.new("native_layer_norm", x.shape, x.dtype)
    # Under autocast 16-bit tokens meet weights of 32 bits, whose type those of each token have.
    dtype = present[0].dtype if present else x.dtype
    mean_, rstd = (Tensor(storage_of(tape, stats, dtype), stats, dtype) for _ in range(2))
    tape.done("native_layer_norm")
    if needed:
        tape.save("layer_norm", mean_, rstd)

        def backward(g: Tensor) -> tuple[Tensor | None, ...]:
            kept = (x, mean_, rstd)
            outs = [
                Tensor(storage_of(tape, t.shape, t.dtype), t.shape, t.dtype) if t.needs_grad else None
                for t in (x, *present)
            ]
            tape.done("native_layer_norm_backward")
            del kept
            return tuple(outs)

        tape.record((x, *present), backward, out)
    return out


def storage_of(tape: Tape, shape: Shape, dtype: str) -> Storage:
    """A new storage for a tensor of that shape."""
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
    loss = Tensor(storage_of(tape, (), logs.dtype), (), logs.dtype)
    weight = Tensor(storage_of(tape, (), logs.dtype), (), logs.dtype)
    tape.done("nll_loss_forward")
    tape.save("nll_loss", logs, labels, weight)

    def backward(g: Tensor) -> tuple[Tensor]:
        kept = (logs, labels, weight)
        out = tape.new("nll_loss_backward", logs.shape, logs.dtype)
        del kept
        return (out,)

    tape.record((logs,), backward, loss)
    return loss


def attention(tape: Tape, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Fused attention, which keeps its inputs, its output and the log-sum-exp of each query.

    Its result is laid out as the queries are, most often token by token. A mask of booleans is
    brought to the type of the queries first, and kept.
    """
    batch, heads, length, _ = q.shape
    d_v = v.shape[-1]
    op = "scaled_dot_product_attention"
    needed = q.needs_grad or k.needs_grad or v.needs_grad
    if mask is not None and mask.dtype == "bool":
        mask = tape.new("masked_fill", mask.shape, q.dtype)
    given = (q, k, v) if mask is None else (q, k, v, mask)
    if needed:
        tape.save(op, *given)
    out, lse = tape.products(op, ((batch, heads, length, d_v), q.dtype), ((batch, heads, length), "fp32"))
    # Made like the queries (`empty_like`), so that it is in the order of theirs.
    out.strides = q.strides if dense(q) else like(tape, out.shape, q)
    if needed:
        tape.save(op, lse, out)
        kept = (*given, lse, view(out, out.shape, out.strides))

        def backward(g: Tensor) -> tuple[Tensor, ...]:
            outs = []
            for tensor in kept[:3]:
                b, h, n, d = tensor.shape
                made = Tensor(storage_of(tape, (b, n, h, d), tensor.dtype), (b, n, h, d), tensor.dtype)
                outs.append(transposed(tape, made, 1, 2))
            tape.done(f"{op}_backward")
            return tuple(outs)

        tape.record((q, k, v), backward, out)
    return out
