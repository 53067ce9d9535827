"""A whole model, layer by layer: embeddings, runs of equal layers, the head and the loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizer.core.dims import Dim, divide
from sizer.core.tree import Buffer, Layers, Leaf, Module, Op, Param
from sizer.errors import InvalidConfig
from sizer.measures.step import modules, ops
from sizer.measures.step.again import again_later, loss_in_chunks
from sizer.measures.step.parts import joined, rotary_width
from sizer.measures.step.run import Run
from sizer.measures.step.tape import BYTES, Storage, Tensor, numel


def runs_of(block: Module, symbolic_block: Module | None = None) -> list[tuple[list[int], Dim]]:
    """The layers of a repeated module in runs of equal ones, with the size of each run."""
    _, indices = _count_of(block)
    parts = list(_placed(block))
    kinds = [tuple(key for key, layers in parts if layer in layers) for layer in indices]
    found: list[list[int]] = []
    for place, layer in enumerate(indices):
        if place and kinds[place] == kinds[place - 1]:
            found[-1].append(layer)
        else:
            found.append([layer])
    if symbolic_block is None:
        return [(run, len(run)) for run in found]
    whole, _ = _count_of(symbolic_block)
    if len(found) == 1:
        return [(found[0], whole)]
    letters = [
        (tuple(one.at.indices or ()), other.at.count)
        for one, other in zip(_with_at(block), _with_at(symbolic_block), strict=True)
        if one.at is not None and other.at is not None
    ]
    return [
        (run, next((size for layers, size in letters if layers == tuple(run)), len(run))) for run in found
    ]


def _count_of(block: Module) -> tuple[Dim, list[int]]:
    repeat = block.repeat
    if isinstance(repeat, Layers):
        return repeat.count, list(repeat.indices or ())
    return repeat, list(range(repeat)) if isinstance(repeat, int) else []


def _with_at(module: Module) -> Iterator[Module]:
    for child in module.children:
        if isinstance(child, Module):
            if child.at is not None:
                yield child
            yield from _with_at(child)


def _placed(block: Module) -> Iterator[tuple[Any, frozenset[int]]]:
    """The parts that stand in some layers only; those that differ in their window alone are alike."""
    for module in _with_at(block):
        assert module.at is not None
        key: Any = id(module)
        if all(not isinstance(child, Module | Param) for child in module.children):
            key = tuple(
                (child.kind, tuple((k, v) for k, v in child.sizes.items() if k != "window"))
                for child in module.children
                if isinstance(child, Op)
            )
        yield key, frozenset(module.at.indices or ())


def stack(run: Run, block: Module, path: str, x: Tensor, plan: list[tuple[list[int], Dim]]) -> Tensor:
    """Every layer of a repeated module: the first, the second and the last of each run are run."""
    tape = run.tape
    outer = joined(path, block.name)
    if block.flow != "block":
        raise InvalidConfig(f"what {outer} keeps for the backward pass is not described yet")
    for indices, times in plan:
        n = len(indices)
        shown = indices if n <= run.shown else [*indices[: run.shown - 1], indices[-1]]
        for place, layer in enumerate(shown):
            run.layer = layer
            name = str(layer) if run.shown > 1 or n == 1 else f"{indices[0]}–{layer}"
            at = outer.replace("{}", name) if "{}" in outer else f"{outer}.{name}"
            if run.shown == 1 or (n > run.shown and place == run.shown - 2):
                tape.layers = times - (run.shown - 1)
                before, known, cast = tape.total(), set(run.parameters), set(run.casts)
                x = one_layer(run, block, at, x)
                x = _others(run, x, times - run.shown, tape.total() - before, known, cast)
                tape.layers = 1
            else:
                x = one_layer(run, block, at, x)
    return x


def _others(run: Run, x: Tensor, times: Dim, grown: Dim, known: set[str], cast: set[str]) -> Tensor:
    """The layers like the one that has just run, as two lumps: what they keep, then their gradients."""
    tape = run.tape
    gradients: Dim = 0
    for name, tensor in run.parameters.items():
        if name not in known and tensor.needs_grad:
            gradients = gradients + numel(tensor.shape) * BYTES[tensor.dtype]
    # What autocast has cast and no op keeps (biases; all of it in a checkpointed block) stays until
    # the forward pass is over, and no longer.
    casts: Dim = 0
    for name, tensor in run.casts.items():
        if name not in cast and not tensor.storage.is_saved:
            casts = casts + tensor.storage.n_bytes
    grown = grown - casts
    run.lumps.append(Storage(tape, times * casts))
    kept = [Storage(tape, times * grown)]

    def backward(g: Tensor) -> tuple[Tensor]:
        kept.clear()
        tape.settle(Storage(tape, times * gradients))
        return (g,)

    y = ops.view(x, x.shape, x.strides)
    tape.record((x,), backward, y)
    return y


def one_layer(run: Run, block: Module, path: str, x: Tensor) -> Tensor:
    """One layer; if it is checkpointed it keeps its input alone, and runs again in the backward pass."""

    def forward(x: Tensor) -> Tensor:
        y = run.chain(block.children, path, x)
        run.held.clear()
        return y

    return again_later(run, path, forward, x) if run.checkpointing else forward(x)


def types_of(run: Run) -> Tensor:
    """Token types that nobody gave: one sequence of zeros, seen as a batch of them."""
    return ops.expand(run.tape, run.tape.new("gather", (1, run.length), "int64"), (run.batch, run.length))


def embed(run: Run, tables: list[tuple[str, Module]], ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The sum of the embeddings of tokens, of their types, and of their positions."""
    tape = run.tape
    kept: list[Tensor] = []
    total: Tensor | None = None
    ordered = sorted(tables, key=lambda entry: entry[1].component == "position")
    for path, module in ordered:
        tape.module = path
        table = run.parameter(module.children[0], path)  # type: ignore[arg-type]
        if module.component == "position":
            if "position_ids" in run.buffers:
                places = Tensor(Storage(tape, 0, "position_ids"), (1, run.length), "int64")
            else:
                places = tape.new("arange", (1, run.length), "int64")
            kept.append(places)
            found = ops.lookup(tape, table, places)
        else:
            types = module.name.startswith("token_type")
            found = ops.lookup(tape, table, types_of(run) if types else ids)
        kept.append(found)
        total = found if total is None else ops.add(tape, total, found)
    if total is None:
        raise InvalidConfig("how the embeddings of this model come together is not described yet")
    return total, kept


def train(
    run: Run, tree: Module, plans: list[list[tuple[list[int], Dim]]], task: str, *, backward: bool = True
) -> None:
    """A whole training step: forward, loss, backward."""
    tape = run.tape
    ids = tape.new("input_ids", (run.batch, run.length), "int64")
    out = forward(run, tree, plans, task, ids)
    run.casts = {}
    run.lumps.clear()
    if backward:
        tape.backward(out[0])


def prefill(run: Run, tree: Module, plans: list[list[tuple[list[int], Dim]]]) -> None:
    """A forward pass without a graph, with the logits of the last token alone."""
    tape = run.tape
    tape.checkpointed = True
    ids = tape.new("input_ids", (run.batch, run.length), "int64")
    body = tree.children[0]
    assert isinstance(body, Module)
    hidden = _body(run, body, plans, ids)
    last = ops.view(hidden, (run.batch, 1, hidden.shape[-1]), None)
    run.chain(tree.children[1:], "", last)


def forward(
    run: Run, tree: Module, plans: list[list[tuple[list[int], Dim]]], task: str, ids: Tensor
) -> tuple[Tensor, Tensor]:
    """Loss and logits, both of which are alive while the backward pass runs."""
    tape = run.tape
    body, head = tree.children[0], tree.children[1:]
    assert isinstance(body, Module)
    hidden = _body(run, body, plans, ids)
    if run.loss_chunks > 1:
        if task != "causal":
            raise InvalidConfig(f"loss_chunks = {run.loss_chunks}: a {task} loss is not computed in chunks")
        return loss_in_chunks(run, head, hidden, ids), hidden
    logits = run.chain(head, "", hidden)
    tape.module = "loss"
    if task == "causal":
        return modules.causal_loss(tape, logits, ids), logits
    scores = ops.to(tape, logits, "fp32") if run.autocast else logits
    return modules.masked_loss(tape, scores, ids), logits


def _body(run: Run, body: Module, plans: list[list[tuple[list[int], Dim]]], ids: Tensor) -> Tensor:
    tape, path = run.tape, body.name
    first_child = body.children[0]
    before: tuple[Module | Leaf, ...] = ()
    if isinstance(first_child, Module) and first_child.flow == "embeddings":
        inside = joined(path, first_child.name)
        run.buffers = {leaf.name for leaf in first_child.children if isinstance(leaf, Buffer)}
        tables, own = _leading_tables(first_child.children, inside)
        before = tuple(own)
        rest: list[Module | Leaf] = list(body.children[1:])
    else:
        inside = path
        tables, rest = _leading_tables(body.children, path)
    x, kept = embed(run, tables, ids)
    if before:
        kept.clear()
        x = run.chain(before, inside, x)
    first = x
    traits = {trait for op in _ops(body) for trait in op.traits}
    if "rotary" in traits:
        run.places = tape.new("arange", (1, run.length), "int64")
    if run.attention == "eager" and "causal" in traits:
        run.mask = tape.new("where", (run.batch, 1, run.length, run.length), x.dtype)
    if "rotary" in traits:
        width = next(rotary_width(op) for op in _ops(body) if "rotary" in op.traits)
        shape = (1, 1, run.length, width)
        cos, sin = (tape.new(name, shape, x.dtype) for name in ("cos", "sin"))
        cos.storage.shared = sin.storage.shared = True
        run.rotary = cos, sin, divide(width, 2, names="d_rotary / 2")
        del cos, sin
    plans = list(plans)
    for child in rest:
        if isinstance(child, Module) and child.repeat is not None:
            x = stack(run, child, path, x, plans.pop(0))
        elif isinstance(child, Module) and (child.kind or child.flow):
            x = run.call(child, path, x)
    del first, kept
    run.mask = run.rotary = run.places = None
    return x


def _ops(module: Module) -> Iterator[Op]:
    for child in module.children:
        if isinstance(child, Module):
            yield from _ops(child)
        elif isinstance(child, Op):
            yield child


def _leading_tables(
    children: tuple[Module | Leaf, ...], path: str
) -> tuple[list[tuple[str, Module]], list[Module | Leaf]]:
    tables: list[tuple[str, Module]] = []
    rest: list[Module | Leaf] = []
    for child in children:
        if isinstance(child, Module) and child.kind == "embedding" and not rest:
            tables.append((joined(path, child.name), child))
        else:
            rest.append(child)
    return tables, rest


def blocks(module: Module) -> list[Module]:
    """The repeated modules of a model, in order."""
    found: list[Module] = []
    for child in module.children:
        if isinstance(child, Module):
            found += [child] if child.repeat is not None else blocks(child)
    return found
