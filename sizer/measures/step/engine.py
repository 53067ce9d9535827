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
    # What is ready, the last op of the forward pass first; no two ops have the same number.
    ready = {loss.node.order: loss.node}
    queue = [-loss.node.order]
    while queue:
        node = ready.pop(-heappop(queue))
        gradients = waiting.pop(node)
        tape.module = node.place
        if node.again is not None:
            root = _run_again(node, needed)
            waiting[root] = gradients
            ready[root.order] = root
            heappush(queue, -root.order)
            continue
        assert node.backward is not None
        found = [*node.backward(*gradients)]
        if node.again_run:
            # What a second run saved is handed over when it is asked for, and not kept on.
            node.backward = None
        edges = node.edges
        for i, edge in enumerate(edges):
            gradient = found[i]
            if edge is None or gradient is None:
                continue
            if gradient.shape != edge[2] or gradient.dtype != edge[3]:
                found[i] = gradient = _fitted(tape, gradient, edge[2], edge[3])
        # The saved tensors and the gradients that came in are let go before those that go out move on.
        node.backward = node.keeper = gradient = None
        del gradients
        leaves = []
        for i, edge in enumerate(edges):
            if edge is None:
                continue
            target, slot = edge[0], edge[1]
            there = waiting.get(target)
            if there is None:
                there = waiting[target] = [None] * target.n_inputs
            if found[i] is not None:
                before = there[slot]
                there[slot] = found[i] if before is None else tape.summed(before, found[i])  # type: ignore[arg-type]
                before = None
            found[i] = None
            needed[target] -= 1
            if needed[target] == 0:
                if target.backward is None:
                    leaves.append(target)
                else:
                    ready[target.order] = target
                    heappush(queue, -target.order)
        there = None
        # A gradient of a parameter that is ready is put away at once.
        for leaf in leaves:
            tape.settle(waiting.pop(leaf)[0], leaf.place)  # type: ignore[arg-type]


def _run_again(node: Node, needed: dict[Node, int]) -> Node:
    """Run a checkpointed part again; its last op, which takes the place of its node."""
    assert node.again is not None
    root = node.again()
    node.again = node.backward = None
    for edge in node.edges:
        if edge is not None:
            needed[edge[0]] -= 1
    needed[root] = 0
    _count(root, needed)
    return root


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
