"""What the initializers of an ONNX graph stand for.

The quantizers of ONNX Runtime name what they write after the weight: `w_quantized`, `w_scale` and
`w_zero_point` (`onnxruntime/quantization/onnx_quantizer.py`). Other small integers are weights packed
in a way that only the nodes say, or constants.
"""

from __future__ import annotations

from sizer.sources.checkpoints.logical.weights import Tensors
from sizer.sources.checkpoints.stored import StoredTensor

_ENDING = "_quantized"
_SMALL = ("int8", "uint8", "int4", "uint4", "int2", "uint2", "fp8_e4m3", "fp8_e5m2")
_CONSTANTS = ("int16", "uint16", "int32", "uint32")


def initializers(tensors: Tensors) -> None:
    """Claim what is quantized, and what is not a weight."""
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
                tensor, f"an {tensor.dtype} initializer without a scale by its name, kept out of the count"
            )


def _is_zero_point(tensor: StoredTensor) -> bool:
    return tensor.name.endswith("_zero_point")
