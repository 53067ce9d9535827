"""Latent attention, as transformers 5 runs it (`modeling_deepseek_v3.py`).

Keys and values of all heads are expanded from one latent, and the rotary key is copied beside those
without positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.tree import Module, Op
from sizer.measures.step import modules, ops
from sizer.measures.step.attention import mix
from sizer.measures.step.parts import sizes_of
from sizer.measures.step.rotary import Angles, both_halves
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Tensor

if TYPE_CHECKING:
    from sizer.measures.step.run import Run


def attend(run: Run, module: Module, path: str, x: Tensor) -> Tensor:
    """Queries from their own matrices, keys and values from one latent, and attention."""
    tape = run.tape
    found = [child for child in module.children if isinstance(child, Module)]
    *queries, down, norm, up, out = found
    core = next(child for child in module.children if isinstance(child, Op))
    heads, _, d_qk, d_v = sizes_of(core)
    rope = core.sizes["d_rotary"]
    assert rope is not None
    nope, batch, length = d_qk - rope, run.batch, run.length
    states = run.chain(tuple(queries), path, x)
    states = modules.heads_first(tape, states, heads, d_qk)
    plain, turned = ops.split(tape, states, (nope, rope))
    compressed = run.call(down, path, x)
    rank = compressed.shape[-1] - rope
    latent, k_turned = ops.split(tape, compressed, (rank, rope))
    latent = run.call(norm, path, latent)
    latent = ops.reshape(tape, latent, (batch, 1, length, rank))
    k_turned = ops.reshape(tape, k_turned, (batch, 1, length, rope))
    tape.module = path
    rotate = _rotate_pairs if "pairs" in core.traits else both_halves
    turned, k_turned = rotate(tape, turned, k_turned, run.rotary[False])
    # Autocast brings what is joined to the wider type.
    q = ops.cat(tape, (ops.to(tape, plain, turned.dtype), turned))
    k, v = _expanded(run, up, path, latent, k_turned, (heads, nope, d_v))
    tape.module = path
    mixed = mix(run, q, k, v, core, path)
    mixed = ops.reshape(tape, mixed, (*x.shape[:-1], heads * d_v))
    return run.call(out, path, mixed)


def _expanded(
    run: Run, up: Module, path: str, latent: Tensor, turned: Tensor, widths: tuple[Dim, Dim, Dim]
) -> tuple[Tensor, Tensor]:
    """Keys and values of every head; the rotary key stands beside each head's own."""
    tape, (heads, nope, d_v) = run.tape, widths
    batch, length, rope = run.batch, run.length, turned.shape[-1]
    both = run.call(up, path, latent)
    run.tape.module = path
    both = ops.reshape(tape, both, (batch, length, both.shape[-1]))
    both = modules.heads_first(tape, both, heads, nope + d_v)
    own, values = ops.split(tape, both, (nope, d_v))
    turned = ops.expand(tape, turned, (batch, heads, length, rope))
    keys = ops.filled(tape, (batch, heads, length, nope + rope), both.dtype, (own, turned))
    return keys, values


def _rotate_pairs(tape: Tape, q: Tensor, k: Tensor, angles: Angles) -> tuple[Tensor, Tensor]:
    """Rotary positions on neighbours: the even and the odd elements of a head."""
    cos, sin, half = angles
    cos, sin = ops.part(tape, cos, half), ops.part(tape, sin, half)
    q_even, q_odd = ops.part(tape, q, half, step=2), ops.part(tape, q, half, step=2)
    k_even, k_odd = ops.part(tape, k, half, step=2), ops.part(tape, k, half, step=2)
    q = _turned(tape, q_even, q_odd, cos, sin)
    k = _turned(tape, k_even, k_odd, cos, sin)
    return q, k


def _turned(tape: Tape, even: Tensor, odd: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first = ops.sub(tape, ops.mul(tape, even, cos), ops.mul(tape, odd, sin))
    second = ops.add(tape, ops.mul(tape, odd, cos), ops.mul(tape, even, sin))
    return ops.cat(tape, (first, second))
