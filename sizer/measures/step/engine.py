"""The backward pass over a graph of ops.

Its order, what it accumulates and when it lets go follow PyTorch's engine:
`torch/csrc/autograd/engine.cpp`. Gradients of tensors that are used twice are added out of place.
"""

from __future__ import annotations

from heapq import heappop, heappush

from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Node, Shape, Tensor


def backward(tape: Tape, loss: Tensor) -> None:
    """Run the graph from its end to its beginning."""
    tape.begin("backward")
    assert loss.node is not None
    needed: dict[Node, int] = {loss.node: 0}
    _count(loss.node, needed)
    one = tape.new("ones_like", (), loss.dtype)
    waiting: dict[Node, list[Tensor | None]] = {loss.node: [one]}
    queue: list[tuple[int, int, Node]] = [(-loss.node.order, 0, loss.node)]
    ticket = 0
    while queue:
        node = heappop(queue)[2]
        gradients = waiting.pop(node)
        if node.backward is None:
            tape.settle(gradients[0], node.place)  # type: ignore[arg-type]
            continue
        tape.module = node.place
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
                found[i] = _fitted(tape, gradient, edge[2], edge[3])
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
            if found[i] is not None:
                before = waiting[target][slot]
                waiting[target][slot] = found[i] if before is None else tape.summed(before, found[i])  # type: ignore[arg-type]
                before = None
            found[i] = None
            needed[target] -= 1
            if needed[target] == 0:
                heappush(queue, (-target.order, ticket := ticket + 1, target))


def _fitted(tape: Tape, gradient: Tensor, shape: Shape, dtype: str) -> Tensor:
    """A gradient summed over the axes that were broadcast, and of the type of its tensor."""
    if gradient.shape != shape:
        gradient = tape.new("sum", shape, gradient.dtype)
    if gradient.dtype != dtype:
        gradient = tape.new("_to_copy", shape, dtype, gradient.strides)
    return gradient


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


