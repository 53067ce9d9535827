"""What the initializers of an ONNX graph stand for.

Nodes say which initializers are weights with scales, and how they are packed (`onnx_nodes.py`). Where no
node does, names may: ONNX Runtime calls what it quantizes `w_quantized`, `w_scale` and `w_zero_point`
(`onnxruntime/quantization/onnx_quantizer.py`). Other small integers are constants, or unclear.
"""

from __future__ import annotations

import re

from sizer.sources.checkpoints.logical.weights import Tensors
from sizer.sources.checkpoints.onnx_nodes import Packing
from sizer.sources.checkpoints.stored import StoredTensor

_ENDING = "_quantized"
# What the quantizers of ONNX Runtime add to the name of a weight.
_PACKED = re.compile(r"(_DQ)?_Q[248]$|_quantized$|\.qweight$")
_SMALL = ("int8", "uint8", "int4", "uint4", "int2", "uint2", "fp8_e4m3", "fp8_e5m2")
_CONSTANTS = ("int16", "uint16", "int32", "uint32")


def initializers(tensors: Tensors) -> None:
    """Claim what is quantized, and what is not a weight."""
    for node in tensors.contents.packed_by:
        _of_node(tensors, node)
    for tensor in tensors.contents.stored:
        name = tensor.name
        if name in tensors.claimed or name in tensors.taken:
            continue
        stem = name.removesuffix(_ENDING)
        if stem != name and tensors.get(f"{stem}_scale") is not None:
            tensors.claim("scales", [f"{stem}_scale"])
            tensors.claim("zero points", [f"{stem}_zero_point"])
            tensors.weight(stem, tensor.shape, tensor.elements, tensor.dtype, tensor)
        elif tensor.dtype in _CONSTANTS:
            tensors.claim("constants", [name])
        elif tensor.dtype in _SMALL and not _is_zero_point(tensor):
            tensors.unknown(
                tensor, f"an initializer of {tensor.dtype} without a scale by its name, kept out of the count"
            )


def _of_node(tensors: Tensors, node: Packing) -> None:
    """The initializers of a node, those that it has."""
    tensors.claim("scales", [node.scales])
    tensors.claim("zero points", [node.zeros])
    tensors.claim("group indices", [node.indices])
    tensor = tensors.get(node.weights)
    if tensor is None or tensor.name in tensors.taken:
        return
    bits = node.numbers.get("bits", 4)
    if not 0 < bits <= 8:
        tensors.problem(f"its node says {bits} bits", tensor.name)
        return
    shape = tensor.shape
    if node.op == "MatMulNBits":
        shape = (node.numbers.get("N", 0), node.numbers.get("K", 0))
        # Rows are padded to whole blocks.
        block = node.numbers.get("block_size", 0)
        if min(*shape, block) <= 0 or shape[0] * -(-shape[1] // block) * (block * bits // 8) != tensor.bytes:
            tensors.unknown(tensor, "of another size than the node that it is packed for, not counted")
            return
    elif node.op == "GatherBlockQuantized" and tensor.dtype == "uint8" and shape and bits < 8:
        shape = (*shape[:-1], shape[-1] * 8 // bits)
    params = 1
    for size in shape:
        params *= size
    stem = _PACKED.sub("", tensor.name)
    name = f"{stem}.weight" if tensor.name.endswith(".qweight") else stem
    scheme = f"{node.op} {bits}-bit" if shape != tensor.shape else tensor.dtype
    tensors.weight(name, shape, params, scheme, tensor)


def _is_zero_point(tensor: StoredTensor) -> bool:
    return tensor.name.endswith("_zero_point")
