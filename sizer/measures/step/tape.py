"""The record of a step: what is alive, what is kept for the backward pass, and the graph of ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from sizer.core.dims import Dim
from sizer.measures.step.moments import Mark, Moment, Window, peaks
from sizer.measures.step.tensors import (
    BYTES,
    Backward,
    Edge,
    Node,
    Saved,
    Shape,
    Storage,
    Tensor,
    dense,
    numel,
)


class Tape:
    """A run of one step, and the record of its memory.

    A run over letters cannot compare: it follows `choices`, those of a run over numbers, and adds up
    what is alive at the moment that `watch` names.
    """

    def __init__(self, choices: Sequence[bool] | None = None, watch: Moment | None = None) -> None:
        self.symbolic = choices is not None
        self.choices: list[bool] = list(choices or ())
        self.watch = watch
        # What is alive at that moment, and what its layer was the last to use of what all share.
        self.watched: dict[int, tuple[Dim, Dim]] = {}
        self.outlived_here: Dim = 0
        self.alive: dict[int, Dim] = {}
        self.live: int = 0
        self.index = 0
        self.chosen = 0
        self.order = 0
        self.module = ""
        self.saved: list[Saved] = []
        self.phase = "forward"
        self.outside = self.window = Window(self.phase)
        self.windows = [self.window]
        self.n_marks = 0
        self.marked: dict[int, Dim] = {}
        self.gradients: dict[str, Tensor | Storage] = {}
        # Whether a gradient goes to the host as soon as it is there.
        self.gradients_leave = False
        # Bytes of the parameters' gradients so far.
        self.settled: int = 0
        self.leaves: dict[str, Node] = {}
        # No graph is made while a checkpointed block runs for the first time; how many tensors it
        # would have saved says where its second run may stop.
        self.checkpointed = False
        self.n_saved = 0
        # The types of what was added, where not that of the sum and sums are the last ops of such a block.
        self.summands: tuple[str, ...] = ()
        self.last_sum = 0
        self.stop_at = -1
        self.muted = False
        # Outputs of matrix products that a checkpointed block keeps, the last one first.
        self.policy: list[Storage] | None = None
        # What the first op of a block that saves anything keeps as well.
        self.keeper: Any = None
        self.armed = False

    # -- memory -------------------------------------------------------------------------------

    def total(self) -> Dim:
        """The bytes alive now."""
        if not self.symbolic:
            return self.live
        return sum(self.alive.values(), start=0)

    def choose(self, answer: Callable[[], bool]) -> bool:
        """A choice that depends on sizes; a run over letters repeats that of the numbers."""
        if self.symbolic:
            self.chosen += 1
            return self.choices[self.chosen - 1]
        self.choices.append(answer())
        return self.choices[-1]

    def new(self, op: str, shape: Shape, dtype: str, strides: Shape | None = None) -> Tensor:
        """A tensor of its own storage that an op has just computed."""
        tensor = Tensor(Storage(self, BYTES[dtype] * prod(shape)), shape, dtype, strides)
        if self.symbolic or self.muted:
            self.done(op)
            return tensor
        # As in `done`, written out: most ops pass here.
        self.index += 1
        window, live = self.window, self.live
        if live > window.n_bytes:
            window.n_bytes, window.index, window.op, window.module = live, self.index, op, self.module
        if live - self.settled > window.beside:
            window.beside = live - self.settled
        return tensor

    def product(self, op: str, shape: Shape, dtype: str) -> Tensor:
        """What a matrix product has computed, which a policy may keep for the backward pass."""
        if self.policy is None or self.muted:
            return self.new(op, shape, dtype)
        return self.products(op, (shape, dtype))[0]

    def products(self, op: str, *wanted: tuple[Shape, str]) -> list[Tensor]:
        """The outputs of one such op."""
        if self.policy is not None and self.stop_at >= 0 and not self.muted:
            # Run again: what was kept is there, and nothing is computed.
            return [Tensor(self.policy.pop(), shape, dtype) for shape, dtype in wanted]
        made = [Tensor(Storage(self, BYTES[dtype] * prod(shape)), shape, dtype) for shape, dtype in wanted]
        self.done(op)
        if self.policy is not None and not self.muted:
            for tensor in made:
                self.policy.insert(0, tensor.storage)
                self._note(op, tensor)
        return made

    def done(self, op: str) -> None:
        """An op has run: see whether more is alive than ever before in this part of the step."""
        if self.muted:
            return
        index = self.index = self.index + 1
        if self.symbolic:
            if self.watch is not None and index == self.watch.index:
                self.watched[index] = self.total(), self.outlived_here
            return
        window, live = self.window, self.live
        if live > window.n_bytes:
            window.n_bytes, window.index, window.op, window.module = live, index, op, self.module
        if live - self.settled > window.beside:
            window.beside = live - self.settled

    def settle(self, gradient: Tensor | Storage, name: str = "") -> None:
        """Keep the gradient of a parameter until the step of the optimizer.

        A parameter that several parts of the model run again has one from each, added up.
        """
        if self.gradients_leave:
            return
        before = self.gradients.get(name)
        if isinstance(before, Tensor) and isinstance(gradient, Tensor):
            self.gradients[name] = self.summed(before, gradient)
            return
        self.gradients[name or str(len(self.gradients))] = gradient
        if not self.symbolic:
            self.settled += (gradient.storage if isinstance(gradient, Tensor) else gradient).n_bytes

    # -- parts of the step ----------------------------------------------------------------------

    def begin(self, phase: str) -> None:
        """A new phase begins."""
        self.phase = phase
        self.outside = self.window = Window(phase)
        self.windows.append(self.window)

    def enter(self, path: str) -> Window:
        """A layer begins, on its way forward or backward."""
        self.window, self.outlived_here = Window(self.phase, path, self.mark()), 0
        self.windows.append(self.window)
        return self.window

    def outlived(self, n_bytes: Dim) -> None:
        """What all layers share is let go; in those whose backward pass comes before, it is still there."""
        if self.symbolic:
            self.outlived_here = self.outlived_here + n_bytes
        elif self.window.mark is not None and self.window.alike:
            self.window = self.window.rest(n_bytes)
            self.windows.append(self.window)

    def leave(self) -> None:
        """A layer is done."""
        self.window = self.outside

    def mark(self, less: Dim = 0, settled: Dim = 0) -> Mark:
        """What is alive now, or would be with `less` of it, `settled` of those gradients of parameters."""
        place = self.n_marks = self.n_marks + 1
        if self.symbolic:
            if self.watch is not None and place in (self.watch.moved or ()):
                self.marked[place] = self.total() - less
            return Mark(place, 0, 0)
        live = self.live - less
        return Mark(place, live, live - self.settled + settled)

    @property
    def peaks(self) -> dict[str, Moment]:
        """The moments of each phase at which the most is alive."""
        return peaks(self.windows)

    def beside(self, *, inside: bool) -> int:
        """The most that is alive without the gradients of parameters, inside of layers or outside."""
        return max((w.most_beside() for w in self.windows if (w.mark is not None) == inside), default=0)

    def seen(self) -> Dim:
        """What is alive at the moment that is watched."""
        assert self.watch is not None
        found, outlived = self.watched[self.watch.index]
        if self.watch.moved is None:
            return found
        there, here = self.watch.moved
        return found + outlived + self.marked[here] - self.marked[there]

    # -- the graph ----------------------------------------------------------------------------

    def save(self, op: str, *tensors: Tensor) -> None:
        """Note what an op keeps for its backward pass, before it runs."""
        self.armed = self.keeper is not None
        for tensor in tensors:
            self.n_saved += 1
            if self.n_saved == self.stop_at:
                self.muted = True
            if not (self.checkpointed or self.stop_at >= 0):
                self._note(op, tensor)

    def _note(self, op: str, tensor: Tensor) -> None:
        """Put a tensor that is kept into the ledger."""
        storage = tensor.storage
        first = not storage.is_saved and not storage.name
        storage.is_saved = True
        n_bytes = numel(tensor.shape) * BYTES[tensor.dtype]
        what = (self.module, op, tensor.shape, tensor.dtype, n_bytes)
        if first and storage.shared:
            # The others of the layers that this one stands for keep a view alone.
            self.saved.append(Saved(*what, storage.n_bytes, storage.name, 1, once=True))
            self.saved.append(Saved(*what, 0, storage.name, 0))
        else:
            self.saved.append(Saved(*what, storage.n_bytes if first else 0, storage.name, 1))

    def record(self, inputs: Sequence[Tensor], backward: Backward, *outputs: Tensor) -> None:
        """Put an op into the graph."""
        if self.checkpointed:
            self.summands = ()
            for output in outputs:
                output.needs_grad = True
            return
        self.order += 1
        edges: list[Edge | None] = [
            (tensor.node or self._leaf(tensor), tensor.slot, tensor.shape, tensor.dtype)
            if tensor.needs_grad
            else None
            for tensor in inputs
        ]
        node = Node(self.order, backward, edges, self.module, len(outputs), self.stop_at >= 0)
        for slot, output in enumerate(outputs):
            output.node, output.slot, output.needs_grad = node, slot, True
        if self.armed and self.keeper is not None:
            node.keeper, self.keeper = self.keeper, None

    def _leaf(self, tensor: Tensor) -> Node:
        """The node that keeps the gradient of a parameter: one for all of its uses."""
        name = tensor.storage.name
        node = self.leaves.get(name)
        if node is None:
            node = self.leaves[name] = Node(0, None, (), name)
        return node

    def summed(self, a: Tensor, b: Tensor) -> Tensor:
        """Two gradients added."""
        # Over numbers only the layout of the sum can matter to what follows: that of the first.
        return self.new("add", a.shape, a.dtype, a.strides if dense(a) else None)
