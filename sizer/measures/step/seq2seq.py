"""An encoder and a decoder of T5's kind: two stacks, of which the second reads what the first gives."""

from __future__ import annotations

from sizer.core.tree import Module
from sizer.errors import InvalidConfig
from sizer.measures.step import modules, ops
from sizer.measures.step.layers import Plan, stack
from sizer.measures.step.parts import joined
from sizer.measures.step.run import Run
from sizer.measures.step.tensors import Storage, Tensor


def forward(run: Run, tree: Module, plans: list[Plan], ids: Tensor) -> tuple[Tensor, ...]:
    """Loss, logits and the encoder's output, all of which are alive while the backward pass runs."""
    tape = run.tape
    if run.checkpointing or run.core_again:
        raise InvalidConfig(
            "what layers that share a bias keep when they run again is not described yet; "
            "leave --checkpointing out"
        )
    _, encoder, decoder, *scaled, head = tree.children
    assert isinstance(encoder, Module)
    assert isinstance(decoder, Module)
    assert isinstance(head, Module)
    run.has_shared = True
    source = _stack(run, encoder, ids, plans[0])
    shifted = tape.new("new_zeros", (run.batch, run.length), "int64")
    run.source = source
    # What the decoder gives is named until the loss is there, scaled or not.
    decoded = hidden = _stack(run, decoder, shifted, plans[1])
    run.source, run.has_shared = None, False
    if scaled:
        tape.module = decoder.name
        hidden = ops.scale(tape, hidden)
    logits = run.call(head, "", hidden)
    tape.module = "loss"
    scores = ops.to(tape, logits, "fp32") if run.autocast else logits
    loss = modules.masked_loss(tape, scores, ids)
    del decoded
    return loss, logits, source


def _stack(run: Run, module: Module, ids: Tensor, plan: Plan) -> Tensor:
    tape, path = run.tape, module.name
    table, block, norm = (child for child in module.children if isinstance(child, Module))
    tape.module = joined(path, table.name)
    x = ops.lookup(tape, run.parameter(table.children[0], tape.module), ids)  # type: ignore[arg-type]
    if run.source is not None and run.attention == "eager":
        mask = tape.new("where", (run.batch, 1, run.length, run.length), x.dtype)
        mask.storage.shared = True
        run.masks = {False: mask}
        del mask
    names: list[Tensor | Storage] = [x]
    entering = [x]
    del x
    x = stack(run, block, path, entering.pop(), plan, names)
    x = run.call(norm, path, x)
    names.clear()
    run.masks, run.biases = {}, {}
    return x
