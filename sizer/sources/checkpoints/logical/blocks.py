"""Weights of eight bits or fewer whose scales lie beside them.

fp8 by block     weight fp8 [m, k]      weight_scale_inv fp32 [⌈m/128⌉, ⌈k/128⌉]  (DeepSeek-V3)
fp8 by channel   weight fp8 [m, k]      weight_scale [m, 1]                       (compressed-tensors)
int8 by channel  weight int8 [m, k]     weight_scale [m, 1]
NVFP4            weight uint8 [m, k/2]  weight_scale fp8 [m, k/16]  weight_scale_2 (ModelOpt)
MXFP4            …_blocks uint8 [E, m, k/32, 16]  …_scales uint8 [E, m, k/32]      (gpt-oss)
BitNet           weight uint8 [m/4, k]  weight_scale [1]
"""

from __future__ import annotations

from sizer.sources.checkpoints.logical.weights import Tensors
from sizer.sources.checkpoints.stored import StoredTensor

_SCALES = ("_scale_inv", "_scale", "_scale_2", "_scales", "_global_scale")
_INPUTS = ("input_scale", "output_scale", "activation_scale", "input_global_scale", "act_scale")


def _claim(tensors: Tensors, name: str) -> StoredTensor | None:
    """Claim the scales of a weight; the first of them."""
    stem, dot, last = name.rpartition(".")
    beside = tensors.beside.get(last)
    if beside is None:
        beside = tensors.beside[last] = _beside(last, tensors.endings)
    first = None
    for ending, component in beside:
        found = tensors.by_name.get(stem + dot + ending)
        if found is not None:
            tensors.claimed[found.name] = component
            if first is None and component == "scales" and ending not in _INPUTS:
                first = found
    return first


def _beside(last: str, endings: set[str]) -> list[tuple[str, str]]:
    """What may lie beside a tensor, of what there is at all: endings of names, and their components."""
    scales = [last + ending for ending in _SCALES]
    scales += ["scale"] if last == "weight" else []
    scales += [*_INPUTS, *(f"{last}_{ending}" for ending in _INPUTS)]
    zeros = [f"{last}_zero_point", "input_zero_point"]
    found = [(ending, "scales") for ending in scales] + [(ending, "zero points") for ending in zeros]
    return [(ending, component) for ending, component in found if ending in endings]


def eight_bit_float(tensors: Tensors, tensor: StoredTensor) -> None:
    """An element is a weight, with scales or without."""
    if tensor.dtype == "fp8_e8m0":
        # A type of powers of two, which only scales have.
        tensors.claim("scales", [tensor.name])
        return
    scale = _claim(tensors, tensor.name)
    kind = tensor.dtype.partition("_")[0].upper()
    by_block = scale is not None and len(scale.shape) > 1 and min(scale.shape[-2:]) > 1
    scheme = f"{kind} by block" if by_block else kind
    tensors.weight(tensor.name, tensor.shape, tensor.elements, scheme, tensor)


def bytes_with_scales(tensors: Tensors, tensor: StoredTensor) -> None:
    """Bytes: an int8 weight, or two of four bits; the shape of the scales says which."""
    scale = _claim(tensors, tensor.name)
    if scale is None or not tensor.shape:
        tensors.unknown(tensor, f"a tensor of {tensor.dtype} without scales beside it, kept out of the count")
        return
    *rows, last = tensor.shape
    groups = scale.shape[-1] if scale.shape else 1
    four_bit = None
    if scale.dtype.startswith("fp8_e4m3") and groups * 16 == 2 * last:
        four_bit = "NVFP4"
    elif scale.dtype in ("uint8", "fp8_e8m0") and groups * 32 == 2 * last:
        four_bit = "MXFP4"
    if four_bit:
        tensors.weight(tensor.name, (*rows, 2 * last), 2 * tensor.elements, four_bit, tensor)
    elif scale.dtype in ("uint8", "fp8_e8m0") and groups * 32 == last:
        tensors.weight(tensor.name, tensor.shape, tensor.elements, "MXFP8", tensor)
    elif tensor.dtype == "int8":
        tensors.weight(tensor.name, tensor.shape, tensor.elements, "int8", tensor)
    elif tensors.settings.word("quant_method") == "bitnet" and len(tensor.shape) == 2:
        shape = (4 * tensor.shape[0], tensor.shape[1])
        tensors.weight(tensor.name, shape, 4 * tensor.elements, "BitNet 2-bit", tensor)
    else:
        tensors.unknown(tensor, "bytes whose scales agree with no format that sizer knows, not counted")


def mxfp4_blocks(tensors: Tensors, tensor: StoredTensor) -> bool:
    """`…_blocks` and `…_scales` of gpt-oss, `….blocks` and `….scales` of its first files."""
    name = tensor.name[: -len("_blocks")]
    joint = tensor.name[len(name)]
    scales = tensors.get(f"{name}{joint}scales")
    if scales is None or tensor.dtype != "uint8" or tensor.shape[:-1] != scales.shape:
        return False
    tensors.claim("scales", [scales.name])
    *rows, groups, width = tensor.shape
    tensors.weight(name, (*rows, 2 * groups * width), 2 * tensor.elements, "MXFP4", tensor)
    return True
