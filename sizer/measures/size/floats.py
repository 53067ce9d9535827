"""What formats of small floats store for a matrix of m outputs and k inputs.

fp8 by block   DeepSeek-V3 and transformers `finegrained_fp8`: a scale for 128 × 128
the others     compressed-tensors 0.20, by the presets of `quant_scheme.py`
gpt-oss        transformers `mxfp4`: experts in one tensor, bytes and powers of two
bitsandbytes   0.50, `QuantState.as_dict`, as transformers saves it
"""

from __future__ import annotations

from sizer.errors import InvalidConfig
from sizer.measures.size.stored import Part

# torch's names of the types, in the states of bitsandbytes and HQQ.
TORCH = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
# Letters of `nested_offset`, a number of 32 bits as decimal text: most often 19, seldom under 17 or over 20.
OFFSET_LETTERS = 19


def fp8_block(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """A scale for each 128 × 128 block, those cut off at an edge included.

    >>> [part.shape for part in fp8_block(576, 7168, bits=8, group=128, dtype="bf16")]
    [(576, 7168), (5, 56)]
    """
    blocks = (-(-m // 128), -(-k // 128))
    return [
        Part("weight", (m, k), "fp8_e4m3", "weights"),
        Part("weight_scale_inv", blocks, "fp32", "scales"),
    ]


def fp8_tensor(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """One scale for the weights, one for what goes in (preset FP8)."""
    return [
        Part("weight", (m, k), "fp8_e4m3", "weights"),
        Part("weight_scale", (1,), dtype, "scales"),
        Part("input_scale", (1,), dtype, "scales"),
    ]


def fp8_channel(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """A scale an output; what goes in is scaled as it comes (preset FP8_DYNAMIC)."""
    return [Part("weight", (m, k), "fp8_e4m3", "weights"), Part("weight_scale", (m, 1), dtype, "scales")]


def _whole(m: int, k: int, group: int, what: str) -> None:
    if k % group:
        raise InvalidConfig(f"[{m}, {k}]: {what} needs inputs in whole blocks of {group}")


def mxfp4(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """Two weights a byte, a power of two for 32."""
    _whole(m, k, 32, "MXFP4")
    return [
        Part("weight_packed", (m, k // 2), "uint8", "weights"),
        Part("weight_scale", (m, k // 32), "uint8", "scales"),
    ]


def mxfp8(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """A byte a weight, a power of two for 32."""
    _whole(m, k, 32, "MXFP8")
    return [
        Part("weight", (m, k), "fp8_e4m3", "weights"),
        Part("weight_scale", (m, k // 32), "uint8", "scales"),
    ]


def nvfp4a16(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """Two weights a byte, an fp8 scale for 16, one scale over all."""
    _whole(m, k, 16, "NVFP4")
    return [
        Part("weight_packed", (m, k // 2), "uint8", "weights"),
        Part("weight_scale", (m, k // 16), "fp8_e4m3", "scales"),
        Part("weight_global_scale", (1,), "fp32", "scales"),
    ]


def nvfp4(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """The same, and the scale of what goes in (preset NVFP4, 4-bit activations)."""
    parts = nvfp4a16(m, k, bits=bits, group=group, dtype=dtype)
    return [*parts, Part("input_global_scale", (1,), "fp32", "scales")]


def stacked_mxfp4(experts: int, m: int, k: int) -> list[Part]:
    """All experts of a layer: `…_blocks` and `…_scales` of gpt-oss."""
    _whole(m, k, 32, "MXFP4")
    return [
        Part("_blocks", (experts, m, k // 32, 16), "uint8", "weights"),
        Part("_scales", (experts, m, k // 32), "uint8", "scales"),
    ]


def four_bit(
    m: int, k: int, *, bits: int, group: int, dtype: str, kind: str = "nf4", double: bool = False
) -> list[Part]:
    """nf4 and fp4 of bitsandbytes: blocks of the flattened matrix, with a state as JSON text.

    >>> four_bit(128, 128, bits=4, group=64, dtype="bf16")[-1].shape
    (80,)
    """
    n = m * k
    blocks = -(-n // group)
    state = f'{{"quant_type": "{kind}", "blocksize": {group}, "dtype": "{TORCH[dtype]}", "shape": [{m}, {k}]'
    parts = [Part("weight", (-(-n // 2), 1), "uint8", "weights")]
    if double:
        parts += [
            Part("weight.absmax", (blocks,), "uint8", "absmax"),
            Part("weight.quant_map", (16,), "fp32", "codebooks"),
            Part("weight.nested_absmax", (-(-blocks // 256),), "fp32", "absmax"),
            Part("weight.nested_quant_map", (256,), "fp32", "codebooks"),
        ]
        state += ', "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": '
        state += "0" * OFFSET_LETTERS
    else:
        parts += [
            Part("weight.absmax", (blocks,), "fp32", "absmax"),
            Part("weight.quant_map", (16,), "fp32", "codebooks"),
        ]
    return [*parts, Part(f"weight.quant_state.bitsandbytes__{kind}", (len(state) + 1,), "uint8", "state")]


def torchao_nf4(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """nf4 of torchao, as torchtune's QLoRA holds it in memory.

    A scale of a byte for 64 weights, and factors for 256 scales; of those a view is used, and all are kept.
    """
    blocks, left = divmod(m * k, group)
    if left or blocks % 256:
        raise InvalidConfig(f"[{m}, {k}]: torchao's nf4 needs weights in whole blocks of {256 * group:,}")
    return [
        Part("weight.quantized_data", (m * k // 2,), "uint8", "weights"),
        Part("weight.quantized_scalers", (blocks,), "int8", "absmax"),
        Part("weight.quantization_factor", (blocks,), "bf16", "absmax"),
        Part("weight.scaler_mean", (), "bf16", "absmax"),
        Part("weight.nf4", (16,), "bf16", "codebooks"),
    ]


def eight_bit(m: int, k: int, *, bits: int, group: int, dtype: str) -> list[Part]:
    """LLM.int8(): the largest value of each row, and a byte that names the layout."""
    return [
        Part("weight", (m, k), "int8", "weights"),
        Part("SCB", (m,), "fp32", "scales"),
        Part("weight_format", (), "uint8", "state"),
    ]
