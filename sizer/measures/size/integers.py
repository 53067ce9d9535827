"""What formats of packed integers store for a matrix of m outputs and k inputs.

GPTQ               AutoGPTQ `qlinear_cuda.py`: words of 32 bits along the inputs, `g_idx` always
AWQ                AutoAWQ `gemm.py`: words along the outputs
compressed-tensors 0.20 `pack_quantized`: words along the inputs, dense across their borders
MLX                `mlx.core.quantize`: words along the inputs, a scale and an offset a group
HQQ                `hqq/core/quantize.py`: bytes of the flattened matrix, a scale and a zero a group
"""

from __future__ import annotations

from sizer.errors import InvalidConfig
from sizer.measures.size.floats import TORCH
from sizer.measures.size.stored import Part

# Booleans that HQQ keeps beside each matrix, a byte each.
_HQQ_FLAGS = (
    *("view_as_float", "quant_scale", "quant_zero", "offload_meta", "encoded_state_dict"),
    *("stores_quant_config", "channel_wise", "optimize", "round_zero"),
)


def gptq(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """GPTQ: zero points are stored whether they are used or not, and so is the group of each input.

    >>> [part.shape for part in gptq(4096, 4096, bits=4, group=128, dtype="bf16")]
    [(512, 4096), (32, 512), (32, 4096), (4096,)]
    """
    groups = 1 if group == -1 else -(-k // group)
    if k % 32 or m % 32:
        raise InvalidConfig(f"[{m}, {k}]: GPTQ packs 32 inputs and 32 outputs at a time")
    return [
        Part("qweight", (k // 32 * bits, m), "int32", "weights"),
        Part("qzeros", (groups, m // 32 * bits), "int32", "zeros"),
        Part("scales", (groups, m), "fp16", "scales"),
        Part("g_idx", (k,), "int32", "indices"),
    ]


def awq(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """AWQ's layout "gemm"; no index of groups."""
    group = k if group == -1 else group
    if k % group or m % (32 // bits):
        raise InvalidConfig(
            f"[{m}, {k}]: AWQ needs inputs in whole groups of {group} and outputs in words of {32 // bits}"
        )
    words = m * bits // 32
    return [
        Part("qweight", (k, words), "int32", "weights"),
        Part("qzeros", (k // group, words), "int32", "zeros"),
        Part("scales", (k // group, m), "fp16", "scales"),
    ]


def packed(m: int, k: int, *, bits: int, group: int, dtype: str, zeros: bool = False) -> list[Part]:
    """compressed-tensors `pack-quantized`; scales in the type of the model."""
    group = k if group == -1 else group
    if k % group:
        raise InvalidConfig(f"[{m}, {k}]: compressed-tensors needs inputs in whole groups of {group}")
    parts = [
        Part("weight_packed", (m, -(-k * bits // 32)), "int32", "weights"),
        Part("weight_scale", (m, k // group), dtype, "scales"),
        Part("weight_shape", (2,), "int64", "state"),
    ]
    if zeros:
        parts.append(Part("weight_zero_point", (-(-m * bits // 32), k // group), "int32", "zeros"))
    return parts


def channelwise(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """compressed-tensors `int-quantized`: a byte a weight, a scale an output."""
    return [Part("weight", (m, k), "int8", "weights"), Part("weight_scale", (m, 1), dtype, "scales")]


def mlx(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """MLX: the offset of a group is called `biases`."""
    return [
        Part("weight", (m, k * bits // 32), "uint32", "weights"),
        Part("scales", (m, k // group), dtype, "scales"),
        Part("biases", (m, k // group), dtype, "zeros"),
    ]


def hqq(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """HQQ along axis 1, as `HQQLinear.state_dict` lists it with `encoded_state_dict`."""
    group = k if group == -1 else group
    n = m * k
    if n % group:
        raise InvalidConfig(f"[{m}, {k}]: HQQ needs a multiple of {group} weights")
    groups = n // group
    # Rows of groups are packed together: ten to a word of 32 bits at 3 bits, 8/b to a byte else.
    if bits == 3:
        parts = [Part("W_q", (-(-groups // 10), group), "int32", "weights")]
    elif groups * bits % 8:
        raise InvalidConfig(f"[{m}, {k}]: HQQ packs {8 // bits} groups to a byte, and {groups} are not whole")
    else:
        parts = [Part("W_q", (groups * bits // 8, group), "uint8", "weights")]
    return [
        *parts,
        Part("scale", (groups, 1), dtype, "scales"),
        Part("zero", (groups, 1), dtype, "zeros"),
        Part("shape", (2,), "int64", "state"),
        *(Part(name, (), "int32", "state") for name in ("nbits", "group_size", "axis")),
        # Names as bytes: "4bit_u8" or "3bit_32", "torch.uint8" or "torch.int32", "torch.bfloat16".
        Part("packing", (7,), "uint8", "state"),
        Part("unpack_view_dtype", (11,), "uint8", "state"),
        Part("compute_dtype", (len(f"torch.{TORCH[dtype]}"),), "uint8", "state"),
        *(Part(name, (), "uint8", "state") for name in _HQQ_FLAGS),
    ]
