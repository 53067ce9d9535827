"""Routed experts, as transformers 5 runs them: all pairs of a token and an expert at once.

Source: `integrations/moe.py`, and the router of `modeling_mixtral.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from sizer.core.dims import Dim, divide
from sizer.measures.step import modules, ops
from sizer.measures.step.tape import Tape, Tensor

IMPLEMENTATIONS = ("grouped_mm", "batched_mm")


def route(tape: Tape, logits: Tensor, top_k: Dim) -> tuple[Tensor, Tensor]:
    """The weights and the indices of the experts that each token visits; the weights sum to one."""
    n = logits.shape[0]
    probs = ops.softmax(tape, ops.to(tape, logits, "fp32"))
    indices = tape.new("topk", (n, top_k), "int64")
    values = ops.generic(tape, "topk", (probs,), (n, top_k), "fp32", saved=(indices,))
    total = ops.generic(tape, "sum", (values,), (n, 1), "fp32")
    # The division is done in place, so what it needs of its input is copied first.
    before = tape.new("clone", (n, top_k), "fp32")
    weights = ops.generic(tape, "div_", (values, total), (n, top_k), "fp32", saved=(total, before))
    return weights, indices


def run(
    tape: Tape,
    x: Tensor,
    weights: Tensor,
    indices: Tensor,
    gate_up: Tensor,
    down: Tensor,
    *,
    act: str,
    how: str,
    cast: Callable[[Tensor], Tensor],
) -> Tensor:
    """Every pair of a token and an expert through that expert, weighted and summed: [N, D]."""
    n, width = x.shape
    pairs = n * indices.shape[1]
    dtype = x.dtype
    multiply = _grouped if how == "grouped_mm" else _batched
    prepare = _sorted if how == "grouped_mm" else _repeated
    tokens, chosen, places = prepare(tape, x, weights, indices, gate_up.shape[0])
    half = divide(gate_up.shape[1], 2, names="2F / 2")
    both = multiply(tape, tokens, gate_up, places, gate_up.shape[1], cast)
    gate, up = ops.split(tape, both, (half, half))
    hidden = ops.mul(tape, modules.activation(tape, act, gate), up)
    del both, gate, up
    out = multiply(tape, hidden, down, places, width, cast)
    out = ops.mul(tape, out, ops.reshape(tape, chosen, (pairs, 1)))
    if how == "grouped_mm":
        back = tape.new("inverse", (pairs,), "int64")
        out = ops.generic(tape, "index", (out,), (pairs, width), out.dtype, saved=(back,))
    out = ops.generic(tape, "sum", (out,), (n, width), out.dtype)
    return ops.to(tape, out, dtype)


def _sorted(
    tape: Tape, x: Tensor, weights: Tensor, indices: Tensor, n_experts: Dim
) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens in the order of their experts, their weights, and where each expert's tokens end."""
    n, width = x.shape
    pairs = n * indices.shape[1]
    order = tape.new("sort", (pairs,), "int64")
    rows = tape.new("floor_divide", (pairs,), "int64")
    tokens = ops.generic(tape, "index", (x,), (pairs, width), x.dtype, saved=(rows,))
    chosen = ops.generic(tape, "index", (weights,), (pairs,), "fp32", saved=(order,))
    return tokens, chosen, tape.new("cumsum", (n_experts,), "int32")


def _repeated(
    tape: Tape, x: Tensor, weights: Tensor, indices: Tensor, n_experts: Dim
) -> tuple[Tensor, Tensor, Tensor]:
    """Each token as often as it visits an expert, the weights, and the expert of each pair."""
    n, width = x.shape
    pairs = n * indices.shape[1]
    tokens = ops.generic(tape, "repeat_interleave", (x,), (pairs, width), x.dtype)
    chosen = ops.reshape(tape, weights, (pairs,))
    return tokens, chosen, ops.view(indices, (pairs,), None)


def _grouped(
    tape: Tape, x: Tensor, weight: Tensor, ends: Tensor, out: Dim, cast: Callable[[Tensor], Tensor]
) -> Tensor:
    weight, x = cast(weight), cast(x)
    kept = [ends]
    if weight.needs_grad:
        kept.append(x)
    if x.needs_grad:
        kept.append(ops.view(weight, (weight.shape[0], x.shape[1], out), None))
    return ops.generic(tape, "_grouped_mm", (x, weight), (x.shape[0], out), x.dtype, saved=kept)


def _batched(
    tape: Tape, x: Tensor, weight: Tensor, experts: Tensor, out: Dim, cast: Callable[[Tensor], Tensor]
) -> Tensor:
    """The matrix of each pair's expert, copied, times its token."""
    pairs, inp = x.shape
    own = ops.generic(tape, "index", (weight,), (pairs, out, inp), weight.dtype, saved=(experts,))
    column = ops.view(x, (pairs, inp, 1), None)
    column.node, column.slot, column.needs_grad = x.node, x.slot, x.needs_grad
    own, column = cast(own), cast(column)
    y = ops.generic(tape, "bmm", (column, own), (pairs, out, 1), x.dtype, saved=(column, own))
    return ops.reshape(tape, y, (pairs, out))
