"""The types of numbers that weights, caches and activations are kept in."""

from __future__ import annotations

from sizer.errors import UnknownName

# name -> bits of one element
BITS = {
    "fp64": 64,
    "fp32": 32,
    "fp16": 16,
    "bf16": 16,
    "fp8": 8,
    "int8": 8,
    "fp4": 4,
    "int4": 4,
}
_ALIASES = {
    "float64": "fp64",
    "float32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "f32": "fp32",
    "f16": "fp16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}


def bits(dtype: str) -> int:
    """Bits of one element of a type.

    >>> bits("bf16"), bits("float32")
    (16, 32)
    """
    name = dtype.lower().removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if name not in BITS:
        raise UnknownName("dtype", dtype, [*BITS, *_ALIASES], hint=f"known are {', '.join(BITS)}")
    return BITS[name]
