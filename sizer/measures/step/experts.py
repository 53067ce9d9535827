"""Routed experts, as transformers 5 runs them: all pairs of a token and an expert at once, or in turn.

Source: `integrations/moe.py`, and the routers and experts of `modeling_mixtral.py` and
`modeling_deepseek_v3.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from sizer.core.dims import Dim, divide
from sizer.core.tree import Op
from sizer.measures.step import modules, ops
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Tensor


def route(tape: Tape, logits: Tensor, top_k: Dim, traits: Sequence[str]) -> tuple[Tensor, Tensor]:
    """The weights and the indices of the experts that each token visits."""
    chosen_first = "chosen_first" in traits
    scores = logits if chosen_first else ops.softmax(tape, ops.to(tape, logits, "fp32"))
    shape = logits.shape[0], top_k
    indices = tape.new("topk", shape, "int64")
    weights = ops.generic(tape, "topk", (scores,), shape, scores.dtype, saved=(indices,))
    if chosen_first:
        weights = ops.softmax(tape, ops.to(tape, weights, "fp32"))
    if "normalized" in traits:
        weights = _normalized(tape, weights)
    return (ops.to(tape, weights, logits.dtype) if "cast" in traits else weights), indices


def _normalized(tape: Tape, weights: Tensor, *, shifted: bool = False) -> Tensor:
    """Weights over their sum. The division is in place, so what it needs of its input is copied first."""
    dtype, (n, _) = weights.dtype, weights.shape
    total = ops.generic(tape, "sum", (weights,), (n, 1), dtype)
    if shifted:
        total = ops.shift(tape, total)
    before = tape.new("clone", weights.shape, dtype)
    return ops.generic(tape, "div_", (weights, total), weights.shape, dtype, saved=(total, before))


def route_in_groups(tape: Tape, logits: Tensor, top_k: Dim, choice: Op) -> tuple[Tensor, Tensor]:
    """The same with sigmoids, among the best groups of experts alone (`modeling_deepseek_v3.py`).

    The bias that balances the load counts for the choice and not for the weights.
    """
    n, count = logits.shape
    groups, top_groups = choice.sizes["groups"], choice.sizes["top_groups"]
    assert groups is not None
    assert top_groups is not None
    scores = ops.unary(tape, "sigmoid", logits, keeps="output")
    # The bias is kept in fp32 whatever the scores are.
    biased = ops.generic(tape, "add", (scores,), scores.shape, "fp32")
    best = tape.new("topk", (n, groups, 2), "int64")
    pairs = ops.generic(tape, "topk", (biased,), (n, groups, 2), biased.dtype, saved=(best,))
    sums = ops.generic(tape, "sum", (pairs,), (n, groups), "fp32")
    del best, pairs
    chosen = tape.new("topk", (n, top_groups), "int64")
    tape.save("topk", chosen)
    tape.new("zeros_like", (n, groups), "fp32")
    mask = tape.new("clone", (n, count), "fp32")
    hidden = tape.new("bitwise_not", (n, count), "bool")
    biased = ops.generic(tape, "masked_fill", (biased,), (n, count), "fp32", saved=(hidden,))
    del hidden
    indices = tape.new("topk", (n, top_k), "int64")
    tape.save("topk", indices)
    dtype = scores.dtype
    weights = ops.generic(tape, "gather", (scores,), (n, top_k), dtype, saved=(indices, scores))
    if "normalized" in choice.traits:
        weights = _normalized(tape, weights, shifted=True)
    weights = ops.scale(tape, weights)
    _until_the_end = mask, sums, biased
    return weights, indices


class Routed(NamedTuple):
    """What the experts of one layer run with: their weights, and how a matrix product casts."""

    gate_up: Tensor
    down: Tensor
    act: str
    cast: Callable[[Tensor], Tensor]


def grouped(tape: Tape, x: Tensor, weights: Tensor, indices: Tensor, own: Routed) -> Tensor:
    """All pairs of a token and an expert in the order of the experts, in one product: [N, D]."""
    (n, width), pairs = x.shape, x.shape[0] * indices.shape[1]
    order = tape.new("sort", (pairs,), "int64")
    ordered = tape.new("sort", (pairs,), "int64")
    rows = tape.new("floor_divide", (pairs,), "int64")
    tokens = ops.index(tape, x, (pairs, width), rows)
    del rows
    chosen = ops.index(tape, weights, (pairs,), order)
    counted = tape.new("_to_copy", (pairs,), "fp32"), tape.new("histc", own.gate_up.shape[:1], "fp32")
    ends = tape.new("cumsum", own.gate_up.shape[:1], "int32")
    out = _grouped(tape, tokens, own.gate_up, ends, own.gate_up.shape[1])
    out = _gate(tape, own, out)
    out = _grouped(tape, out, own.down, ends, width)
    weighted = ops.mul(tape, out, ops.reshape(tape, chosen, (pairs, 1)))
    back = tape.new("inverse", (pairs,), "int64")
    tape.new("arange", (pairs,), "int64")
    weighted = ops.index(tape, weighted, (pairs, width), back)
    total = _sum_of_experts(tape, weighted, n)
    _until_the_end = ordered, counted, tokens
    return ops.to(tape, total, x.dtype)


def batched(tape: Tape, x: Tensor, weights: Tensor, indices: Tensor, own: Routed) -> Tensor:
    """Each pair of a token and an expert with a copy of that expert's matrices: [N, D]."""
    (n, width), pairs = x.shape, x.shape[0] * indices.shape[1]
    tokens = ops.generic(tape, "repeat_interleave", (x,), (pairs, width), x.dtype)
    chosen = ops.reshape(tape, weights, (pairs,))
    experts = ops.view(indices, (pairs,), None)
    matrices = _copies(tape, own.gate_up, experts, pairs)
    out = _batched(tape, tokens, matrices, own.cast)
    out = _gate(tape, own, out)
    matrices = _copies(tape, own.down, experts, pairs)
    out = _batched(tape, out, matrices, own.cast)
    weighted = ops.mul(tape, out, ops.reshape(tape, chosen, (pairs, 1)))
    total = _sum_of_experts(tape, weighted, n)
    return ops.to(tape, total, x.dtype)


def one_by_one(tape: Tape, x: Tensor, weights: Tensor, indices: Tensor, own: Routed) -> Tensor:
    """Each expert with its tokens in turn; every expert is taken to get as many: [N, D]."""
    (n, width), k, count = x.shape, indices.shape[1], own.gate_up.shape[0]
    pairs, half = n * k, divide(own.gate_up.shape[1], 2, names="2F / 2")
    final = tape.new("zeros_like", x.shape, x.dtype)
    mask = tape.new("one_hot", (n, k, count + 1), "int64")
    expert = 0
    while tape.choose(partial(_left, expert, count, pairs)):
        # Of pairs that do not divide, the first experts get one more.
        size = (
            divide(pairs, count, names="pairs / experts") if tape.symbolic else -(-(pairs - expert) // count)
        )
        expert += 1
        places = tape.new("nonzero", (size, 2), "int64")
        token, place = ops.view(places, (size,), None), ops.view(places, (size,), None)
        state = ops.index(tape, x, (size, width), token)
        gate, up = ops.split(tape, _linear(tape, state, own.gate_up, own.cast), (half, half))
        hidden = ops.mul(tape, modules.activation(tape, own.act, gate), up)
        hidden = _linear(tape, hidden, own.down, own.cast)
        hidden = ops.mul(
            tape,
            hidden,
            ops.index(tape, weights, (size, 1), token, place),
        )
        _add_rows(tape, final, token, ops.to(tape, hidden, final.dtype))
    del mask
    return final


IMPLEMENTATIONS = {"grouped_mm": grouped, "batched_mm": batched, "loop": one_by_one}


def _left(done: int, count: Dim, pairs: Dim) -> bool:
    return bool(done < count and done < pairs)


def _sum_of_experts(tape: Tape, weighted: Tensor, n: Dim) -> Tensor:
    """The outputs of a token's experts added; backward, the sum's gradient again for each of them."""
    pairs, width = weighted.shape
    y = tape.new("sum", (n, width), weighted.dtype)
    if weighted.needs_grad:

        def backward(g: Tensor) -> tuple[Tensor]:
            if tape.choose(lambda: bool(pairs == n)):
                return (ops.view(g, (pairs, width), g.strides),)
            return (tape.new("clone", (pairs, width), g.dtype),)

        tape.record((weighted,), backward, y)
    return y


def _gate(tape: Tape, own: Routed, both: Tensor) -> Tensor:
    half = divide(both.shape[-1], 2, names="2F / 2")
    gate, up = ops.split(tape, both, (half, half))
    return ops.mul(tape, modules.activation(tape, own.act, gate), up)


def _grouped(tape: Tape, x: Tensor, weight: Tensor, ends: Tensor, out: Dim) -> Tensor:
    # Autocast does not know this product: it runs in the type of the weights.
    x = ops.to(tape, x, weight.dtype)
    kept = [ends]
    if weight.needs_grad:
        kept.append(x)
    if x.needs_grad:
        kept.append(ops.view(weight, (weight.shape[0], x.shape[1], out), None))
    return ops.generic(tape, "_grouped_mm", (x, weight), (x.shape[0], out), x.dtype, saved=kept)


def _copies(tape: Tape, weight: Tensor, experts: Tensor, pairs: Dim) -> Tensor:
    shape = (pairs, *weight.shape[1:])
    return ops.index(tape, weight, shape, experts)


def _batched(tape: Tape, x: Tensor, own: Tensor, cast: Callable[[Tensor], Tensor]) -> Tensor:
    (pairs, inp), out = x.shape, own.shape[1]
    column = ops.view(x, (pairs, inp, 1), None)
    column.node, column.slot, column.needs_grad = x.node, x.slot, x.needs_grad
    own, column = cast(own), cast(column)
    y = ops.bmm(tape, own, column, op="bmm")
    return ops.reshape(tape, y, (pairs, out))


def _linear(tape: Tape, x: Tensor, weight: Tensor, cast: Callable[[Tensor], Tensor]) -> Tensor:
    one = cast(ops.select(tape, weight))
    return ops.mm(tape, cast(x), one, one.shape[0])


def _add_rows(tape: Tape, total: Tensor, places: Tensor, rows: Tensor) -> None:
    """Rows added in place, which keeps where they went, and the rows for their shape."""
    if rows.needs_grad:
        tape.save("index_add_", places, rows)
        shape, kept = rows.shape, (places, rows)

        def backward(g: Tensor, held: object = kept) -> tuple[Tensor, Tensor]:
            return g, tape.new("index_select", shape, g.dtype)

        before = total if total.needs_grad else ops.view(total, total.shape, None)
        tape.record((before, rows), backward, total)
    tape.done("index_add_")
