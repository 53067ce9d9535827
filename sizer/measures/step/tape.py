"""Tensors without values, and the backward pass over them.

A storage lives as long as something refers to it: a variable, a saved tensor, a gradient on its
way. Python's own reference counts say when that ends, as they do for the real program, so the code
that runs on these tensors is written as the modules of transformers are.

The order of the backward pass, what it accumulates and when it lets go follow PyTorch's engine:
`torch/csrc/autograd/engine.cpp`. Gradients of tensors that are used twice are added out of place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, TypeAlias

from sizer.core.dims import Dim
from sizer.core.record import Record

Shape: TypeAlias = tuple[Dim, ...]
# From the gradients of an op's outputs to those of its inputs; none where an input needs none.
Backward: TypeAlias = "Callable[..., tuple[Tensor | None, ...]]"

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "int64": 8, "int32": 4, "bool": 1}


class Storage:
    """Memory of one tensor and its views; its bytes are given back when nobody refers to it."""

    __slots__ = ("is_saved", "n_bytes", "name", "shared", "tape")

    def __init__(self, tape: Tape, n_bytes: Dim, name: str = "") -> None:
        self.tape = tape
        self.n_bytes = n_bytes
        # The parameter or buffer that this is, for a tensor that stands outside the step.
        self.name = name
        self.is_saved = False
        # Whether all layers use it, so that what one keeps of it the others need not.
        self.shared = False
        if not name:
            tape.allocate(self)

    def __del__(self) -> None:
        if not self.name:
            self.tape.free(self)


class Tensor:
    """A view of a storage. `strides` is `None` where it is laid out in order.

    `node` and `slot`: the op it came from, and which of its outputs it is.
    """

    __slots__ = ("dtype", "needs_grad", "node", "shape", "slot", "storage", "strides")

    def __init__(
        self,
        storage: Storage,
        shape: Shape,
        dtype: str,
        strides: Shape | None = None,
        needs_grad: bool = False,
    ) -> None:
        self.storage = storage
        self.shape = shape
        self.dtype = dtype
        self.strides = strides
        self.needs_grad = needs_grad
        self.node: Node | None = None
        self.slot = 0


class Node:
    """An op in the graph: what its backward pass computes, and where that goes."""

    __slots__ = ("again", "again_run", "backward", "edges", "keeper", "n_inputs", "order", "place")

    def __init__(
        self, order: int, backward: Backward | None, edges: tuple[Edge | None, ...], place: str
    ) -> None:
        self.order = order
        self.backward = backward
        self.edges = edges
        self.place = place
        self.n_inputs = 1
        # Of a checkpointed block: runs it again and answers its last op.
        self.again: Callable[[], Node] | None = None
        self.keeper: Any = None
        self.again_run = False


# Where a gradient goes: a node, which of its outputs it belongs to, and the shape and type wanted.
Edge: TypeAlias = "tuple[Node, int, Shape, str]"


class Saved(Record):
    """A tensor that an op keeps for its backward pass; `new` where nobody else kept its storage yet."""

    __slots__ = ("dtype", "layers", "module", "n_bytes", "name", "new", "op", "shape")

    def __init__(
        self,
        module: str,
        op: str,
        shape: Shape,
        dtype: str,
        n_bytes: Dim,
        new: Dim,
        name: str,
        layers: Dim,
    ) -> None:
        self.module = module
        self.op = op
        self.shape = shape
        self.dtype = dtype
        self.n_bytes = n_bytes
        # Bytes of the storage if it is kept here first, else 0.
        self.new = new
        # The parameter or buffer that it is, for one that is kept anyway.
        self.name = name
        # How many equal layers keep such a tensor.
        self.layers = layers


class Moment(Record):
    """A point of the step: the phase, the op that has just run, and the bytes alive then."""

    __slots__ = ("index", "module", "n_bytes", "op", "phase")

    def __init__(self, phase: str, op: str, module: str, n_bytes: Dim, index: int) -> None:
        self.phase = phase
        self.op = op
        self.module = module
        self.n_bytes = n_bytes
        self.index = index


class Tape:
    """A run of one step, and the record of its memory.

    A run over letters cannot compare: it follows `choices`, those of a run over numbers, and adds up
    what is alive at the points `watch` names.
    """

    def __init__(self, choices: Sequence[bool] | None = None, watch: Sequence[int] = ()) -> None:
        self.symbolic = choices is not None
        self.choices: list[bool] = list(choices or ())
        self.watch = frozenset(watch)
        self.watched: dict[int, Dim] = {}
        self.alive: dict[int, Dim] = {}
        self.live: int = 0
        self.index = 0
        self.chosen = 0
        self.order = 0
        self.phase = "forward"
        self.module = ""
        self.layers: Dim = 1
        self.saved: list[Saved] = []
        self.peaks: dict[str, Moment] = {}
        self.gradients: dict[str, Tensor | Storage] = {}
        # Whether a gradient goes to the host as soon as it is there.
        self.gradients_leave = False
        # Bytes of the parameters' gradients so far, and the most that is alive beside them, by module.
        self.settled: int = 0
        self.beside: dict[str, int] = {}
        self.leaves: dict[str, Node] = {}
        # No graph is made while a checkpointed block runs for the first time; how many tensors it
        # would have saved says where its second run may stop.
        self.checkpointed = False
        self.n_saved = 0
        self.stop_at = -1
        self.muted = False
        # What the first op of a block that saves anything keeps as well.
        self.keeper: Any = None
        self.armed = False

    # -- memory -------------------------------------------------------------------------------

    def allocate(self, storage: Storage) -> None:
        """Count a new storage."""
        if self.muted:
            storage.n_bytes = 0
        if self.symbolic:
            self.alive[id(storage)] = storage.n_bytes
        else:
            self.live += storage.n_bytes

    def free(self, storage: Storage) -> None:
        """Give its bytes back."""
        if self.symbolic:
            del self.alive[id(storage)]
        else:
            self.live -= storage.n_bytes

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
        tensor = Tensor(Storage(self, numel(shape) * BYTES[dtype]), shape, dtype, strides)
        self.done(op)
        return tensor

    def done(self, op: str) -> None:
        """An op has run: see whether more is alive than ever before."""
        if self.muted:
            return
        index = self.index = self.index + 1
        if self.symbolic:
            if index in self.watch:
                self.watched[index] = self.total()
            return
        peak = self.peaks.get(self.phase)
        if peak is None or self.live > peak.n_bytes:
            self.peaks[self.phase] = Moment(self.phase, op, self.module, self.live, index)
        if self.live - self.settled > self.beside.get(self.module, 0):
            self.beside[self.module] = self.live - self.settled

    def settle(self, gradient: Tensor | Storage, name: str = "") -> None:
        """Keep the gradient of a parameter until the step of the optimizer.

        A parameter that several parts of the model run again has one from each, added up.
        """
        if self.gradients_leave:
            return
        before = self.gradients.get(name)
        if isinstance(before, Tensor) and isinstance(gradient, Tensor):
            self.gradients[name] = self._sum(before, gradient)
            return
        self.gradients[name or str(len(self.gradients))] = gradient
        if not self.symbolic:
            self.settled += (gradient.storage if isinstance(gradient, Tensor) else gradient).n_bytes

    # -- the graph ----------------------------------------------------------------------------

    def save(self, op: str, *tensors: Tensor) -> None:
        """Note what an op keeps for its backward pass, before it runs."""
        self.armed = self.keeper is not None
        for tensor in tensors:
            self.n_saved += 1
            if self.n_saved == self.stop_at:
                self.muted = True
            if self.checkpointed or self.stop_at >= 0:
                continue
            storage = tensor.storage
            first = not storage.is_saved and not storage.name
            storage.is_saved = True
            n_bytes = numel(tensor.shape) * BYTES[tensor.dtype]
            what = (self.module, op, tensor.shape, tensor.dtype, n_bytes)
            layers = self.layers
            if first and storage.shared:
                self.saved.append(Saved(*what, storage.n_bytes, storage.name, 1))
                first, layers = False, layers - 1
            if not isinstance(layers, int) or layers:
                self.saved.append(Saved(*what, storage.n_bytes if first else 0, storage.name, layers))

    def record(self, inputs: Sequence[Tensor], backward: Backward, *outputs: Tensor) -> None:
        """Put an op into the graph."""
        if self.checkpointed:
            for output in outputs:
                output.needs_grad = True
            return
        self.order += 1
        node = Node(self.order, backward, tuple(map(self._edge, inputs)), self.module)
        node.n_inputs = len(outputs)
        node.again_run = self.stop_at >= 0
        for slot, output in enumerate(outputs):
            output.node, output.slot, output.needs_grad = node, slot, True
        if self.armed and self.keeper is not None:
            node.keeper, self.keeper = self.keeper, None

    def _edge(self, tensor: Tensor) -> Edge | None:
        if not tensor.needs_grad:
            return None
        node = tensor.node
        if node is None:
            # A leaf: one node for each parameter keeps its gradient.
            name = tensor.storage.name
            node = self.leaves.get(name)
            if node is None:
                node = self.leaves[name] = Node(FIRST, None, (), name)
        return node, tensor.slot, tensor.shape, tensor.dtype

    def backward(self, loss: Tensor) -> None:
        """Run the graph from its end to its beginning."""
        self.phase = "backward"
        assert loss.node is not None
        needed: dict[Node, int] = {loss.node: 0}
        _count(loss.node, needed)
        one = self.new("ones_like", (), loss.dtype)
        waiting: dict[Node, list[Tensor | None]] = {loss.node: [one]}
        queue: list[tuple[int, int, Node]] = [(-loss.node.order, 0, loss.node)]
        ticket = 0
        while queue:
            node = heappop(queue)[2]
            gradients = waiting.pop(node)
            if node.backward is None:
                self.settle(gradients[0], node.place)  # type: ignore[arg-type]
                continue
            self.module = node.place
            if node.again is not None:
                root = node.again()
                node.again = node.backward = None
                for edge in node.edges:
                    if edge is not None:
                        needed[edge[0]] -= 1
                needed[root] = 0
                _count(root, needed)
                waiting[root] = gradients
                heappush(queue, (-root.order, ticket := ticket + 1, root))
                continue
            found: list[Tensor | None] = list(node.backward(*gradients))
            if node.again_run:
                # What a second run saved is handed over when it is asked for, and not kept on.
                node.backward = None
            for i, (edge, gradient) in enumerate(zip(node.edges, found, strict=True)):
                if edge is not None and gradient is not None:
                    found[i] = self._fitted(gradient, edge[2], edge[3])
                    del gradient
            # The saved tensors and the gradients that came in are let go before those that go out move on.
            node.backward = node.keeper = None
            del gradients
            gradient = None
            for i, edge in enumerate(node.edges):
                if edge is None:
                    continue
                target, slot = edge[0], edge[1]
                if target not in waiting:
                    waiting[target] = [None] * target.n_inputs
                there = waiting[target]
                if found[i] is not None:
                    if there[slot] is None:
                        there[slot] = found[i]
                    else:
                        there[slot] = self._sum(there[slot], found[i])  # type: ignore[arg-type]
                found[i] = None
                needed[target] -= 1
                if needed[target] == 0:
                    heappush(queue, (-target.order, ticket := ticket + 1, target))

    def _sum(self, a: Tensor, b: Tensor) -> Tensor:
        # Over numbers only the layout of the sum can matter to what follows: that of the first.
        return self.new("add", a.shape, a.dtype, a.strides if dense(a) else None)

    def _fitted(self, gradient: Tensor, shape: Shape, dtype: str) -> Tensor:
        """A gradient summed over the axes that were broadcast, and of the type of its tensor."""
        if gradient.shape != shape:
            gradient = self.new("sum", shape, gradient.dtype)
        if gradient.dtype != dtype:
            gradient = self.new("_to_copy", shape, dtype, gradient.strides)
        return gradient


# Parameters come before every op, since a gradient that is ready is put away at once.
FIRST = 1 << 62


def _count(root: Node, needed: dict[Node, int]) -> None:
    """How many gradients each node below `root` waits for."""
    stack = [root]
    while stack:
        for edge in stack.pop().edges:
            if edge is not None:
                if edge[0] in needed:
                    needed[edge[0]] += 1
                else:
                    needed[edge[0]] = 1
                    stack.append(edge[0])


def dense(tensor: Tensor) -> bool:
    """Whether a tensor's elements fill their storage, in whatever order."""
    if tensor.strides is None:
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.strides, tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected = expected * size
    return True


def numel(shape: Shape) -> Dim:
    """Elements of a shape."""
    elements: Dim = 1
    for size in shape:
        elements = elements * size
    return elements


def nbytes(tensor: Tensor) -> Dim:
    """Bytes of a tensor's elements."""
    return numel(tensor.shape) * BYTES[tensor.dtype]


def steps(shape: Shape) -> Shape:
    """The strides of a tensor laid out in order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))
