"""Matrix products of 8-bit numbers, as torchao's `Float8Linear` runs them with dynamic scales.

Source: torchao 0.18, `float8/float8_linear.py`. What it keeps for the backward pass are its input and
its weight as they came, not the casts; each is cast again there.
"""

from __future__ import annotations

from sizer.core.dims import Dim
from sizer.measures.step.ops.elementwise import map_of
from sizer.measures.step.ops.views import view
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Tensor


def narrow_mm(tape: Tape, x: Tensor, weight: Tensor, out: Dim) -> Tensor:
    """x [N, in] times a weight [out, in]."""
    tape.save("float8_linear", x, view(weight, (x.shape[-1], out), None))
    narrow = _narrow(tape, x), _narrow(tape, weight)
    y = tape.product("_scaled_mm", (x.shape[0], out), x.dtype)
    del narrow

    def backward(g: Tensor) -> tuple[Tensor, Tensor]:
        gradient = _narrow(tape, g)
        other = _narrow(tape, weight)
        to_x = tape.new("_scaled_mm", x.shape, g.dtype)
        again = _narrow(tape, g), _narrow(tape, x)
        to_weight = tape.new("_scaled_mm", weight.shape, g.dtype)
        _until_the_end = gradient, other, again
        return to_x, to_weight

    tape.record((x, weight), backward, y)
    return y


def _narrow(tape: Tape, x: Tensor) -> tuple[Tensor, Tensor]:
    """A tensor in 8 bits and its scale: the largest magnitude, a product in fp32, a clamp, a cast."""
    magnitude = map_of(tape, "abs", x)
    scale = tape.new("max", (), "fp32")
    del magnitude
    wide = map_of(tape, "_to_copy", x, "fp32")
    scaled = map_of(tape, "mul", wide)
    del wide
    clamped = map_of(tape, "clamp", scaled)
    bits = map_of(tape, "_to_copy", clamped, "fp8")
    _until_the_end = scaled
    return bits, scale
