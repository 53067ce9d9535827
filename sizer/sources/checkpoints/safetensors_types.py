"""The types of safetensors: the format's name of each, ours, and its bits.

In the order in which the library lays tensors out in a file, wide types first (safetensors 0.8, measured).
"""

from __future__ import annotations

# The format's name of a dtype -> ours, and its bits.
DTYPES = {
    "U64": ("uint64", 64),
    "I64": ("int64", 64),
    "F64": ("fp64", 64),
    "C64": ("complex64", 64),
    "F32": ("fp32", 32),
    "U32": ("uint32", 32),
    "I32": ("int32", 32),
    "BF16": ("bf16", 16),
    "F16": ("fp16", 16),
    "U16": ("uint16", 16),
    "I16": ("int16", 16),
    "F8_E5M2FNUZ": ("fp8_e5m2fnuz", 8),
    "F8_E4M3FNUZ": ("fp8_e4m3fnuz", 8),
    "F8_E8M0": ("fp8_e8m0", 8),
    "F8_E4M3": ("fp8_e4m3", 8),
    "F8_E5M2": ("fp8_e5m2", 8),
    "I8": ("int8", 8),
    "U8": ("uint8", 8),
    "F6_E3M2": ("fp6_e3m2", 6),
    "F6_E2M3": ("fp6_e2m3", 6),
    "F4": ("fp4", 4),
    "BOOL": ("bool", 8),
}
