"""Layers that repeat: one of each kind is run, and stands for the others.

What a layer keeps and holds follows from its parts and from what goes in, so layers that are equal
in both are equal in all but where they begin.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from sizer.core.dims import Dim
from sizer.core.tree import Layers, Module, Op, Param
from sizer.errors import InvalidConfig
from sizer.measures.step import ops
from sizer.measures.step.again import again_later
from sizer.measures.step.moments import Mark
from sizer.measures.step.parts import joined
from sizer.measures.step.run import Run
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Saved, Storage, Tensor, nbytes


class Equal(NamedTuple):
    """A run of layers of one kind: their parts, their places, and how many there are."""

    kind: tuple[Any, ...]
    places: list[int]
    times: Dim


Plan = list[Equal]


def runs_of(block: Module, symbolic_block: Module | None = None, *, windows: bool = False) -> Plan:
    """The layers of a repeated module in runs of equal ones, with the size of each run.

    `windows`: whether layers that differ in their window alone are told apart.
    """
    _, indices = _count_of(block)
    parts = list(_placed(block, windows))
    kinds = {layer: tuple(key for key, layers in parts if layer in layers) for layer in indices}
    found: list[list[int]] = []
    for layer in indices:
        if found and kinds[layer] == kinds[found[-1][-1]]:
            found[-1].append(layer)
        else:
            found.append([layer])
    if symbolic_block is None:
        return [Equal(kinds[run[0]], run, len(run)) for run in found]
    whole, _ = _count_of(symbolic_block)
    if len(found) == 1:
        return [Equal(kinds[indices[0]], found[0], whole)]
    letters = [
        (tuple(one.at.indices or ()), other.at.count)
        for one, other in zip(_with_at(block), _with_at(symbolic_block), strict=True)
        if one.at is not None and other.at is not None
    ]
    return [
        Equal(
            kinds[run[0]],
            run,
            next((size for layers, size in letters if layers == tuple(run)), len(run)),
        )
        for run in found
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


def _placed(block: Module, windows: bool) -> Iterator[tuple[Any, frozenset[int]]]:
    """The parts that stand in some layers only; those that differ in their window alone may be alike."""
    for module in _with_at(block):
        assert module.at is not None
        key: Any = id(module)
        if all(not isinstance(child, Module | Param) for child in module.children):
            key = tuple(
                (
                    child.kind,
                    child.traits,
                    tuple(
                        (name, size)
                        for name, size in child.sizes.items()
                        if windows or name != "window" or "turned_by_kind" in child.traits
                    ),
                )
                for child in module.children
                if isinstance(child, Op)
            )
        yield key, frozenset(module.at.indices or ())


class Like:
    """A layer that is run, and what it tells of those that are like it."""

    def __init__(self, run: Run, path: str) -> None:
        self.path = path
        self.before = run.tape.total(), len(run.parameters), len(run.casts), len(run.tape.saved)
        self.forward = run.tape.enter(path)
        # Where the backward passes of the others begin.
        self.others: list[tuple[str, Mark]] = []
        # Bytes that it keeps until its backward pass, and the gradients that it leaves then.
        self.kept: Dim = 0
        self.gradients: Dim = 0
        # What autocast has cast and no op keeps stays until the forward pass is over, and no longer.
        self.casts: Dim = 0
        self.saved: list[Saved] = []

    def done(self, run: Run) -> None:
        """See what it has left, once nobody names what went in."""
        tape = run.tape
        before, parameters, casts, saved = self.before
        tape.leave()
        for tensor in islice(run.parameters.values(), parameters, None):
            if tensor.needs_grad and not tape.gradients_leave:
                self.gradients = self.gradients + nbytes(tensor)
        for tensor in islice(run.casts.values(), casts, None):
            if not tensor.storage.is_saved:
                self.casts = self.casts + tensor.storage.n_bytes
        self.kept = tape.total() - before - self.casts
        self.saved = tape.saved[saved:]

    def backward_begins(self, tape: Tape) -> None:
        """Its gradient comes in, after those of the others."""
        tape.enter(self.path).alike = self.others


def stack(run: Run, block: Module, path: str, x: Tensor, plan: Plan, names: list[Tensor | Storage]) -> Tensor:
    """Every layer of a repeated module; `names`: what names x, and other tensors, while they run."""
    outer = joined(path, block.name)
    if block.flow != "block":
        raise InvalidConfig(f"what {outer} keeps for the backward pass is not described yet")

    def at(layer: int | str) -> str:
        return outer.replace("{}", str(layer)) if "{}" in outer else f"{outer}.{layer}"

    likes: dict[Any, Like] = {}
    entered = _entered(run, x, plan, names)
    for kind, places, times in _with_last_alone(run, plan):
        left, number = list(places), times
        while left:
            key = kind, x.needs_grad, x.dtype
            like = likes.get(key)
            if like is not None:
                x = _others(run, like, at, left, number, x)
                break
            run.layer = left[0]
            name = left[0] if run.each_named or len(left) == 1 else f"{left[0]}–{left[-1]}"
            like = likes[key] = Like(run, at(name))
            x = _watched(run, block, like, x)
            like.done(run)
            if entered is not None and entered() is not None:
                # It is kept, so that it stands for what is named.
                names.clear()
            entered = None
            left, number = left[1:], number - 1
    return x


def _with_last_alone(run: Run, plan: Plan) -> Plan:
    """Where all layers share an input, the last is the first to have a gradient for it."""
    *before, (kind, places, times) = plan
    if not run.has_shared or len(places) == 1:
        return plan
    return [*before, Equal(kind, places[:-1], times - 1), Equal((*kind, "last"), places[-1:], 1)]


def _entered(run: Run, x: Tensor, plan: Plan, names: list[Tensor | Storage]) -> weakref.ref[Storage] | None:
    """Make the first layer one like those after it, whose input nobody else names.

    Another storage stands for what the first one's input is named: a layer more always holds as much.
    """
    same = sum(len(part.places) for part in plan if part.kind == plan[0].kind)
    if same == 1 or not (x.needs_grad or run.tape.checkpointed):
        return None
    if not any(name.storage is x.storage for name in names if isinstance(name, Tensor)):
        return None
    rest = [name for name in names if not (isinstance(name, Tensor) and name.storage is x.storage)]
    names[:] = [*rest, Storage(run.tape, nbytes(x))]
    return weakref.ref(x.storage)


def _watched(run: Run, block: Module, like: Like, x: Tensor) -> Tensor:
    """Run a layer, between two marks in the graph."""
    tape = run.tape
    if x.needs_grad and not tape.checkpointed:
        x = _passed(tape, x, tape.leave)
    x = one_layer(run, block, like.path, x)
    if x.needs_grad and not tape.checkpointed:
        x = _passed(tape, x, partial(like.backward_begins, tape))
    return x


def _passed(tape: Tape, x: Tensor, then: Callable[[], None]) -> Tensor:
    """The same value, which says when its gradient passes."""

    def backward(g: Tensor) -> tuple[Tensor]:
        then()
        return (g,)

    y = ops.view(x, x.shape, x.strides)
    tape.record((x,), backward, y)
    return y


def _others(
    run: Run, like: Like, at: Callable[[int], str], places: list[int], times: Dim, x: Tensor
) -> Tensor:
    """Layers like one that was run, as two lumps: what they keep, then their gradients.

    What is alive grows or shrinks from each to the next by as much, so that of all of them the first
    or the last holds the most.
    """
    tape = run.tape
    first, last = at(places[0]), at(places[-1])
    like.forward.alike.append((first, tape.mark()))
    for entry in like.saved:
        if not entry.once:
            entry.layers = entry.layers + times
    run.lumps.append(Storage(tape, times * like.casts))
    kept = [Storage(tape, times * like.kept)]
    like.forward.alike.append((last, tape.mark(like.kept + like.casts)))
    if not x.needs_grad or tape.checkpointed:
        run.lumps += kept
        return x

    shared = run.shared()
    wanted = [(tensor.shape, tensor.dtype) for tensor in shared]

    def backward(g: Tensor) -> tuple[Tensor, ...]:
        like.others.append((last, tape.mark()))
        kept.clear()
        tape.settle(Storage(tape, times * like.gradients))
        like.others.append((first, tape.mark(like.gradients - like.kept, like.gradients)))
        return (g, *(tape.new("add", *what) for what in wanted))

    y = ops.view(x, x.shape, x.strides)
    tape.record((x, *shared), backward, y)
    return y


def one_layer(run: Run, block: Module, path: str, x: Tensor) -> Tensor:
    """One layer; if it is checkpointed it keeps its input alone, and runs again in the backward pass."""

    def forward(x: Tensor) -> Tensor:
        y = run.chain(block.children, path, x)
        run.held.clear()
        return y

    return again_later(run, path, forward, x) if run.checkpointing else forward(x)


def blocks(module: Module) -> list[Module]:
    """The repeated modules of a model, in order."""
    found: list[Module] = []
    for child in module.children:
        if isinstance(child, Module):
            found += [child] if child.repeat is not None else blocks(child)
    return found
