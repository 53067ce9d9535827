"""Attention with a learned bias by distance, and the layers around it, as T5's (`modeling_t5.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.tree import Module, Op, Param
from sizer.measures.step import modules, ops, plain
from sizer.measures.step.parts import joined, sizes_of
from sizer.measures.step.tensors import Tensor

if TYPE_CHECKING:
    from sizer.measures.step.run import Run


def attend(run: Run, module: Module, path: str, x: Tensor) -> Tensor:
    """Queries of x, keys and values of x or of what the encoder gave, and scores with a bias."""
    tape = run.tape
    q_m, k_m, v_m, *table, out_m = (c for c in run.here(module.children) if isinstance(c, Module))
    core = next(child for child in module.children if isinstance(child, Op))
    crosses = core.kind == "cross_attention"
    source = run.source if crosses else x
    assert source is not None
    heads, _, width, _ = sizes_of(core)
    q = modules.heads_first(tape, run.call(q_m, path, x), heads, width)
    k = modules.heads_first(tape, run.call(k_m, path, source), heads, width)
    v = modules.heads_first(tape, run.call(v_m, path, source), heads, width)
    tape.module = path
    if crosses not in run.biases:
        run.biases[crosses] = _bias(run, table, path, heads, q)
    bias = run.biases[crosses]
    if run.attention == "eager":
        out, weights = _eager(run, q, k, v, bias, "causal" in core.traits)
        run.held.append(weights)
    else:
        out = _fused(run, q, k, v, bias, "causal" in core.traits)
    out = ops.reshape(tape, out, (*x.shape[:-1], heads * width))
    return run.call(out_m, path, out)


def _bias(run: Run, table: list[Module], path: str, heads: Dim, q: Tensor) -> Tensor:
    """A number for each head and pair of tokens: of the first layer's table, or zeros for the encoder's."""
    tape, length = run.tape, run.length
    if not table:
        return tape.new("zeros", (1, heads, length, length), q.dtype)
    tape.module = joined(path, table[0].name)
    leaf = table[0].children[0]
    assert isinstance(leaf, Param)
    buckets = tape.new("add", (length, length), "int64")
    values = ops.lookup(tape, run.parameter(leaf, tape.module), buckets)
    tape.module = path
    values = ops.transpose(tape, ops.transpose(tape, values, 1, 2), 0, 1)
    return ops.reshape(tape, values, (1, heads, length, length))


def _eager(run: Run, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    tape = run.tape
    weights = ops.scale(tape, modules.product(tape, q, ops.transpose(tape, k, 2, 3), run.cast))
    weights = ops.add(tape, weights, bias)
    if causal:
        weights = ops.add(tape, weights, run.masks[False])
    weights = ops.softmax(tape, weights)
    out = ops.transpose(tape, modules.product(tape, weights, v, run.cast), 1, 2)
    return ops.contiguous(tape, out), weights


def _fused(run: Run, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, causal: bool) -> Tensor:
    """torch's kernel takes no mask that needs a gradient: then its plain ops run."""
    tape = run.tape
    mask = bias
    if causal and tape.choose(lambda: bool(run.length > 1)):
        seen = tape.new("ge", (1, 1, run.length, run.length), "bool")
        mask = ops.generic(tape, "where", (bias,), bias.shape, bias.dtype, saved=(seen,))
        mask.strides = bias.strides
    mask = ops.contiguous(tape, mask)
    mask, v, k, q = run.cast(mask), run.cast(v), run.cast(k), run.cast(q)
    out = plain.attention(tape, q, k, v, mask) if mask.needs_grad else ops.attention(tape, q, k, v, mask)
    return ops.contiguous(tape, ops.transpose(tape, out, 1, 2))


def feed_forward(run: Run, module: Module, path: str, x: Tensor) -> Tensor:
    """An MLP whose last matrix is given numbers of its own type."""
    *first, last = (child for child in module.children if isinstance(child, Module))
    act = next(child for child in module.children if isinstance(child, Op)).kind.removeprefix("gated_")
    hidden = run.call(first[0], path, x)
    hidden = modules.activation(run.tape, act, hidden)
    if len(first) == 2:
        value = run.call(first[1], path, x)
        run.tape.module = path
        hidden = ops.mul(run.tape, hidden, value)
    hidden = ops.to(run.tape, hidden, run.weight_dtype)
    return run.call(last, path, hidden)
