"""What is run a second time in the backward pass: layers, the core of attention, chunks of the loss.

`torch.utils.checkpoint` without reentrance: the first time keeps the inputs alone; the second begins
when the first of the tensors that were not kept is asked for, and stops after the last of them.
With the policy that keeps products (`create_selective_checkpoint_contexts`) it takes the outputs of
matrix products and of the kernel of attention from the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.tree import Leaf, Module
from sizer.measures.step import ops
from sizer.measures.step.tensors import Node, Storage, Tensor, nbytes

if TYPE_CHECKING:
    from sizer.measures.step.run import Run


def again_later(run: Run, path: str, forward: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Run a part of the model that keeps its inputs alone, and runs again in the backward pass."""
    tape = run.tape
    if tape.checkpointed:
        # Inside a part that runs again as a whole, and for inference, nothing is kept anyway.
        return forward(*inputs)
    tape.module = path
    tape.save("checkpoint", *inputs)
    tape.checkpointed, before, layer = True, tape.n_saved, run.layer
    run.seen.clear()
    products: list[Storage] | None = [] if run.keeps_products else None
    tape.policy = products
    y = forward(*inputs)
    tape.policy = None
    tape.checkpointed, n_saved = False, tape.n_saved - before
    # A sum at the end keeps nothing, so its gradients are cast before anything is run again.
    casts = [(y.shape, dtype) for dtype in tape.summands]
    kept = [
        (
            tuple(map(_on_host, inputs)) if run.offload_activations else inputs,
            {kind: mask for kind, mask in run.masks.items() if kind in run.seen},
            {kind: angles for kind, angles in run.rotary.items() if kind in run.seen},
            run.places,
            products,
        )
    ]

    def again() -> Node:
        _gradients = [tape.new("_to_copy", *cast) for cast in casts]
        tape.keeper = kept.pop()
        inputs, run.masks, run.rotary, _, tape.policy = tape.keeper
        if run.offload_activations:
            inputs = tuple(_brought_back(tensor) for tensor in inputs)
            tape.keeper = inputs, run.masks, run.rotary, None, tape.policy
        run.layer, run.casts = layer, {}
        tape.stop_at = tape.n_saved + n_saved
        y = forward(*inputs)
        tape.policy = None
        run.casts, run.masks, run.rotary = {}, {}, {}
        run.held.clear()
        tape.stop_at, tape.muted = -1, False
        assert y.node is not None
        return y.node

    del products
    out, n_inputs = ops.view(y, y.shape, y.strides), len(inputs)
    tape.record(inputs, lambda g: (g,) * n_inputs, out)
    assert out.node is not None
    out.node.again = again
    return out


def _on_host(tensor: Tensor) -> Tensor:
    """A tensor as the host keeps it: no bytes on the device."""
    away = Tensor(Storage(tensor.storage.tape, 0), tensor.shape, tensor.dtype, None, tensor.needs_grad)
    away.node, away.slot = tensor.node, tensor.slot
    return away


def _brought_back(tensor: Tensor) -> Tensor:
    """The same on the device again."""
    back = Tensor(
        Storage(tensor.storage.tape, nbytes(tensor)), tensor.shape, tensor.dtype, None, tensor.needs_grad
    )
    back.node, back.slot = tensor.node, tensor.slot
    return back


def loss_in_chunks(run: Run, head: tuple[Module | Leaf, ...], hidden: Tensor, labels: Tensor) -> Tensor:
    """The causal loss, the logits of a chunk of the tokens at a time; each chunk runs again backward."""
    tape, chunks = run.tape, run.loss_chunks
    batch, length, width = hidden.shape
    count = batch * length
    tape.module = "loss"
    padded = tape.new("constant_pad_nd", (batch, length + 1), "int64")
    moved = ops.contiguous(tape, ops.without_first(tape, padded))
    moved = ops.view(moved, (count,), None)
    flat = ops.reshape(tape, hidden, (count, width))
    sizes = _sizes(run, count, chunks)
    total: Tensor | None = None
    for piece, places in zip(ops.rows(tape, flat, sizes), sizes, strict=True):
        targets = ops.view(moved, (places,), None)

        def part(piece: Tensor, targets: Tensor) -> Tensor:
            logits = ops.to(tape, run.chain(head, "", piece), "fp32")
            tape.module = "loss"
            return ops.cross_entropy(tape, logits, targets)

        one = again_later(run, "loss", part, piece, targets)
        total = one if total is None else ops.add(tape, total, one)
    assert total is not None
    return total


def _sizes(run: Run, count: Dim, chunks: int) -> list[Dim]:
    """The rows of each chunk, as `torch.chunk` cuts them."""
    if not isinstance(count, int):
        return [count / chunks] * chunks
    size = -(-count // chunks)
    return [min(size, count - first) for first in range(0, count, size)]
