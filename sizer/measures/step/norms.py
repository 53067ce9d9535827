"""Norms as transformers writes them, each an op at a time but torch's own LayerNorm."""

from __future__ import annotations

from collections.abc import Callable

from sizer.measures.step import ops
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Tensor

# A norm of a value: its weight and its bias, where it has them.
Norm = Callable[[Tape, Tensor, "Tensor | None", "Tensor | None"], Tensor]


def _rms_norm(tape: Tape, x: Tensor, weight: Tensor | None, _: Tensor | None) -> Tensor:
    """LLaMA's RMSNorm in fp32, so that it keeps x, its inverse rms and the result."""
    assert weight is not None
    dtype = x.dtype
    x = ops.to(tape, x, "fp32")
    variance = ops.mean(tape, ops.power(tape, x))
    x = ops.mul(tape, x, ops.rsqrt(tape, ops.shift(tape, variance)))
    return ops.mul(tape, weight, ops.to(tape, x, dtype))


def _fp32_rms_norm(tape: Tape, x: Tensor, weight: Tensor | None, _: Tensor | None) -> Tensor:
    """OLMo 2's: the product with the weight is in fp32 too (`modeling_olmo2.py`)."""
    assert weight is not None
    dtype = x.dtype
    x = ops.to(tape, x, "fp32")
    variance = ops.mean(tape, ops.power(tape, x))
    x = ops.mul(tape, x, ops.rsqrt(tape, ops.shift(tape, variance)))
    return ops.to(tape, ops.mul(tape, weight, x), dtype)


def _offset_rms_norm(tape: Tape, x: Tensor, weight: Tensor | None, _: Tensor | None) -> Tensor:
    """Gemma's: in fp32, times one more than the weight (`modeling_gemma.py`)."""
    assert weight is not None

    def normed(x: Tensor) -> Tensor:
        factor = ops.rsqrt(tape, ops.shift(tape, ops.mean(tape, ops.power(tape, x))))
        return ops.mul(tape, x, factor)

    y = normed(ops.to(tape, x, "fp32"))
    y = ops.mul(tape, y, ops.shift(tape, ops.to(tape, weight, "fp32")))
    return ops.to(tape, y, x.dtype)


def _mixed_rms_norm(tape: Tape, x: Tensor, weight: Tensor | None, _: Tensor | None) -> Tensor:
    """T5's RMSNorm: the inverse rms is in fp32, and x is not brought to it (`modeling_t5.py`)."""
    assert weight is not None
    variance = ops.mean(tape, ops.power(tape, ops.to(tape, x, "fp32")))
    x = ops.mul(tape, x, ops.rsqrt(tape, ops.shift(tape, variance)))
    if weight.dtype != "fp32":
        x = ops.to(tape, x, weight.dtype)
    return ops.mul(tape, weight, x)


def _written_layer_norm(tape: Tape, x: Tensor, weight: Tensor | None, _: Tensor | None) -> Tensor:
    """Cohere's LayerNorm, in fp32 (`modeling_cohere.py`)."""
    assert weight is not None
    dtype = x.dtype
    x = ops.to(tape, x, "fp32")
    mean = ops.mean(tape, x)
    variance = ops.mean(tape, ops.power(tape, ops.sub(tape, x, mean)))
    x = ops.mul(tape, ops.sub(tape, x, mean), ops.rsqrt(tape, ops.shift(tape, variance)))
    x = ops.mul(tape, ops.to(tape, weight, "fp32"), x)
    return ops.to(tape, x, dtype)


NORMS: dict[str, Norm] = {
    "layer_norm": ops.layer_norm,
    "rms_norm": _rms_norm,
    "fp32_rms_norm": _fp32_rms_norm,
    "offset_rms_norm": _offset_rms_norm,
    "mixed_rms_norm": _mixed_rms_norm,
    "written_layer_norm": _written_layer_norm,
}
