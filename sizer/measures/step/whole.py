"""A whole model, layer by layer: embeddings, runs of equal layers, the head and the loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeGuard

from sizer.core.dims import Dim, divide
from sizer.core.tree import Buffer, Leaf, Module, Op
from sizer.errors import InvalidConfig
from sizer.measures.step import modules, ops
from sizer.measures.step.again import loss_in_chunks
from sizer.measures.step.engine import backward as run_backward
from sizer.measures.step.layers import Plan, stack
from sizer.measures.step.parts import has_window, joined, rotary_width
from sizer.measures.step.rotary import Angles
from sizer.measures.step.run import Run
from sizer.measures.step.tensors import Storage, Tensor


def types_of(run: Run, *, counted: bool) -> Tensor:
    """Token types that nobody gave: zeros, of one sequence and seen as a batch of them, or of each."""
    rows = run.batch if counted else 1
    return ops.expand(run.tape, run.tape.new("gather", (rows, run.length), "int64"), (run.batch, run.length))


def places_of(run: Run, *, counted: bool) -> Tensor:
    """The places of tokens: a buffer, new numbers, or what is counted in each sequence."""
    if counted:
        return run.tape.new("add", (run.batch, run.length), "int64")
    if "position_ids" in run.buffers:
        return Tensor(Storage(run.tape, 0, "position_ids"), (1, run.length), "int64")
    return run.tape.new("arange", (1, run.length), "int64")


def embed(
    run: Run, tables: list[tuple[str, Module]], ids: Tensor, *, counted: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """The sum of the embeddings of tokens, of their types, and of their positions."""
    tape = run.tape
    kept: list[Tensor] = []
    total: Tensor | None = None
    ordered = sorted(tables, key=lambda entry: entry[1].component == "position")
    for path, module in ordered:
        tape.module = path
        table = run.parameter(module.children[0], path)  # type: ignore[arg-type]
        if module.component == "position":
            places = places_of(run, counted=counted)
            kept.append(places)
            found = ops.lookup(tape, table, places)
        else:
            types = module.name.startswith("token_type")
            found = ops.lookup(tape, table, types_of(run, counted=counted) if types else ids)
            found = _scaled(run, module, found)
        kept.append(found)
        total = found if total is None else ops.add(tape, total, found)
    if total is None:
        raise InvalidConfig("how the embeddings of this model come together is not described yet")
    return total, kept


def _scaled(run: Run, table: Module, x: Tensor) -> Tensor:
    """What a table gives times a number, or times one that is kept as a buffer."""
    for leaf in table.children[1:]:
        if isinstance(leaf, Buffer):
            x = ops.mul(run.tape, x, Tensor(Storage(run.tape, 0, leaf.name), (), x.dtype))
        elif isinstance(leaf, Op):
            x = ops.scale(run.tape, x)
    return x


def train(run: Run, tree: Module, plans: list[Plan], task: str, *, backward: bool = True) -> None:
    """A whole training step: forward, loss, backward."""
    tape = run.tape
    ids = tape.new("input_ids", (run.batch, run.length), "int64")
    out = forward(run, tree, plans, task, ids)
    run.casts = {}
    run.lumps.clear()
    if backward:
        run_backward(tape, out[0])


def prefill(run: Run, tree: Module, plans: list[Plan]) -> None:
    """A forward pass without a graph, with the logits of the last token alone."""
    tape = run.tape
    tape.checkpointed = True
    ids = tape.new("input_ids", (run.batch, run.length), "int64")
    body = tree.children[0]
    assert isinstance(body, Module)
    hidden = _body(run, body, plans, ids)
    last = ops.view(hidden, (run.batch, 1, hidden.shape[-1]), None)
    run.chain(tree.children[1:], "", last)


def forward(run: Run, tree: Module, plans: list[Plan], task: str, ids: Tensor) -> tuple[Tensor, ...]:
    """Loss, logits and what else comes out, all of which are alive while the backward pass runs."""
    tape = run.tape
    if task == "seq2seq":
        from sizer.measures.step import seq2seq

        return seq2seq.forward(run, tree, plans, ids)
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


def _body(run: Run, body: Module, plans: list[Plan], ids: Tensor) -> Tensor:
    tape, path = run.tape, body.name
    first_child = body.children[0]
    before: tuple[Module | Leaf, ...] = ()
    counted = False
    if isinstance(first_child, Module) and first_child.flow.startswith("embeddings"):
        counted = first_child.flow == "embeddings_counted"
        inside = joined(path, first_child.name)
        run.buffers = {leaf.name for leaf in first_child.children if isinstance(leaf, Buffer)}
        tables = [(joined(inside, child.name), child) for child in first_child.children if _is_table(child)]
        before = tuple(child for child in first_child.children if not _is_table(child))
        rest: list[Module | Leaf] = list(body.children[1:])
    else:
        inside = path
        tables, rest = _leading_tables(body.children, path)
    x, kept = embed(run, tables, ids, counted=counted)
    if before:
        kept.clear()
        x = run.chain(before, inside, x)
    # BERT names what its embeddings give; elsewhere that is the only table, or a sum that nobody names.
    names: list[Tensor | Storage] = [*kept, *((x,) if before else ())]
    del kept
    traits = {trait for op in _ops(body) for trait in op.traits}
    if "rotary" in traits:
        run.places = tape.new("arange", (1, run.length), "int64")
        run.places.storage.shared = True
    cores = [op for op in _ops(body) if "causal" in op.traits]
    run.masks = masks(run, x.dtype, _windows(cores))
    if "rotary" in traits:
        run.rotary = angles(run, x.dtype, cores)
    plans = list(plans)
    for child in rest:
        if isinstance(child, Module) and child.repeat is not None:
            # Handed over, so that nobody here names what goes in while the layers run.
            entering = [x]
            del x
            x = stack(run, child, path, entering.pop(), plans.pop(0), names)
        elif isinstance(child, Module) and (child.kind or child.flow):
            x = run.call(child, path, x)
    names.clear()
    run.masks, run.rotary, run.places = {}, {}, None
    return x


def angles(run: Run, dtype: str, cores: list[Op]) -> dict[bool, Angles]:
    """Cosines and sines, the same for all layers or those of each kind."""
    found: dict[bool, Angles] = {}
    for core in cores:
        kind = has_window(core)
        if kind in found or (found and "turned_by_kind" not in core.traits):
            found.setdefault(kind, next(iter(found.values())))
            continue
        width = rotary_width(core)
        dtype = "fp32" if "fp32_angles" in core.traits else dtype
        cos, sin = (run.tape.new(name, (1, 1, run.length, width), dtype) for name in ("cos", "sin"))
        cos.storage.shared = sin.storage.shared = True
        found[kind] = Angles(cos, sin, divide(width, 2, names="d_rotary / 2"))
    return found


def _windows(cores: list[Op]) -> dict[Dim | None, None]:
    """The windows of the masks that are made: those of the layers, and what no layer needs."""
    found = dict.fromkeys(core.sizes["window"] for core in cores)
    if any("full_mask" in core.traits for core in cores):
        found[None] = None
    if all(window is None for window in found):
        found |= dict.fromkeys(core.sizes["mask_window"] for core in cores if "mask_window" in core.sizes)
    return found


def masks(run: Run, dtype: str, windows: Iterable[Dim | None]) -> dict[bool, Tensor]:
    """Which tokens a token sees, for layers with a window and without (`masking_utils.py`).

    A kernel needs none for causal layers whose window no sequence fills.
    """
    shape = run.batch, 1, run.length, run.length
    found: dict[bool, Tensor] = {}
    for window in windows:
        if run.attention == "eager":
            found[window is not None] = run.tape.new("where", shape, dtype)
            found[window is not None].storage.shared = True
        elif run.attention == "sdpa" and window is not None and _fills(run, window):
            # One for all sequences, which the kernel's call sees as a batch of them.
            mask = run.tape.new("logical_and", (1, *shape[1:]), "bool")
            mask.storage.shared = True
            found[True] = ops.expand(run.tape, mask, shape)
    return found


def _fills(run: Run, window: Dim) -> bool:
    return run.tape.choose(lambda: bool(run.length >= window))


def _ops(module: Module) -> Iterator[Op]:
    for child in module.children:
        if isinstance(child, Module):
            yield from _ops(child)
        elif isinstance(child, Op):
            yield child


def _is_table(child: Module | Leaf) -> TypeGuard[Module]:
    return isinstance(child, Module) and child.kind == "embedding"


def _leading_tables(
    children: tuple[Module | Leaf, ...], path: str
) -> tuple[list[tuple[str, Module]], list[Module | Leaf]]:
    tables: list[tuple[str, Module]] = []
    rest: list[Module | Leaf] = []
    for child in children:
        if _is_table(child) and not rest:
            tables.append((joined(path, child.name), child))
        else:
            rest.append(child)
    return tables, rest
