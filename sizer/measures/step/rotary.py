"""Rotary positions (RoFormer), as the families of transformers 5 turn queries and keys by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sizer.core.dims import Dim
from sizer.core.tree import Op
from sizer.measures.step import ops
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Tensor

if TYPE_CHECKING:
    from sizer.measures.step.run import Run


class Angles(NamedTuple):
    """Cosines and sines of every token, and half the width that they turn."""

    cos: Tensor
    sin: Tensor
    half: Dim


def turned(run: Run, core: Op, q: Tensor, k: Tensor, angles: Angles) -> tuple[Tensor, ...]:
    """Queries and keys turned by their positions, and what else the code names while attention runs."""
    tape, traits = run.tape, core.traits
    if "parted" in traits:
        return _first_part(tape, q, k, angles, traits)
    dtype = q.dtype
    if "turned_in_fp32" in traits:
        # The tensors as they came are still named by the caller.
        q, k = ops.to(tape, q, "fp32"), ops.to(tape, k, "fp32")
    turn = pair if "pairs" in traits else halves
    q_turned = turn(tape, q, angles)
    k_turned = turn(tape, k, angles)
    if "turned_in_fp32" in traits or "fp32_angles" in traits:
        return ops.to(tape, q_turned, dtype), ops.to(tape, k_turned, dtype)
    return q_turned, k_turned


def _first_part(
    tape: Tape, q: Tensor, k: Tensor, angles: Angles, traits: tuple[str, ...]
) -> tuple[Tensor, ...]:
    """The first part of each head turned, the rest put beside it."""
    if "angles_again" in traits:
        angles = _repeated(tape, angles)
    turn = pair if "pairs" in traits else halves
    width = 2 * angles.half
    q_part, q_rest = ops.parts(tape, q, width)
    k_part, k_rest = ops.parts(tape, k, width)
    if "turned_in_turn" in traits:
        q = _beside(tape, turn(tape, q_part, angles), q_rest)
        return q, _beside(tape, turn(tape, k_part, angles), k_rest)
    q_turned = turn(tape, q_part, angles)
    k_turned = turn(tape, k_part, angles)
    if "parts_named" in traits:
        q, k = _beside(tape, q_turned, q_rest), _beside(tape, k_turned, k_rest)
        return q, k, q_turned, k_turned, q_rest, k_rest
    q_turned = _beside(tape, q_turned, q_rest)
    return q_turned, _beside(tape, k_turned, k_rest)


def _beside(tape: Tape, part: Tensor, rest: Tensor) -> Tensor:
    # Autocast brings what is joined to the wider type.
    return ops.cat(tape, (part, ops.to(tape, rest, part.dtype)))


def _repeated(tape: Tape, angles: Angles) -> Angles:
    cos, sin, half = angles
    cos = tape.new("repeat_interleave", cos.shape, cos.dtype)
    sin = tape.new("repeat_interleave", sin.shape, sin.dtype)
    return Angles(cos, sin, half)


def halves(tape: Tape, x: Tensor, angles: Angles) -> Tensor:
    """The halves of what is turned, each times its cosines and the other's sines."""
    return ops.add(
        tape, ops.mul(tape, x, angles.cos), ops.mul(tape, _other(tape, x, angles.half, 1), angles.sin)
    )


def pair(tape: Tape, x: Tensor, angles: Angles) -> Tensor:
    """The same with neighbours in place of halves."""
    return ops.add(
        tape, ops.mul(tape, x, angles.cos), ops.mul(tape, _other(tape, x, angles.half, 2), angles.sin)
    )


def _other(tape: Tape, x: Tensor, half: Dim, step: int) -> Tensor:
    first = ops.part(tape, x, half, step=step)
    second = ops.part(tape, x, half, step=step)
    return ops.cat(tape, (ops.neg(tape, second), first))


def both_halves(tape: Tape, q: Tensor, k: Tensor, angles: Angles) -> tuple[Tensor, Tensor]:
    """Queries and keys turned by halves (`apply_rotary_pos_emb`)."""
    q_turned = halves(tape, q, angles)
    return q_turned, halves(tape, k, angles)
