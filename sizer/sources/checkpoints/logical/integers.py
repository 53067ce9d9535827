"""GPTQ and AWQ: integers packed into 32-bit words.

Layouts: `qlinear_cuda.py` of AutoGPTQ, `gemm.py` and `gemv.py` of AutoAWQ. For a matrix of m outputs
and k inputs at b bits and groups of g inputs:

  GPTQ  qweight [k·b/32, m]  qzeros [k/g, m·b/32]  scales [k/g, m]  g_idx [k]
  AWQ   qweight [k, m·b/32]  qzeros [k/g, m·b/32]  scales [k/g, m]
  gemv  qweight [m, k·b/32]  qzeros [m, …]         scales [m, …]
"""

from __future__ import annotations

from sizer.sources.checkpoints.logical.weights import Tensors
from sizer.sources.checkpoints.stored import StoredTensor


def gptq_or_awq(tensors: Tensors, tensor: StoredTensor) -> bool:
    """`qweight` with its scales; the shapes say which layout it is, and how many bits."""
    stem = tensor.name[: -len(".qweight")]
    scales, zeros = tensors.get(f"{stem}.scales"), tensors.get(f"{stem}.qzeros")
    index = tensors.get(f"{stem}.g_idx")
    if scales is None or len(tensor.shape) < 2 or len(scales.shape) < 2 or tensor.dtype != "int32":
        return False
    tensors.claim("scales", [scales.name])
    tensors.claim("zero points", [f"{stem}.qzeros"])
    tensors.claim("group indices", [f"{stem}.g_idx"])
    tensors.claim("scales", [f"{stem}.g_scale"])
    *stack, rows, columns = tensor.shape
    outputs = scales.shape[-1]
    if columns == outputs:
        bits = _gptq_bits(tensors, tensor, index, zeros, outputs)
        shape = (outputs, rows * 32 // bits) if bits else ()
        scheme = f"GPTQ {bits}-bit"
    elif tensors.settings.word("version") == "gemv" or scales.shape[-2] == rows != columns:
        bits = tensors.settings.number("w_bit", "bits") or 4
        shape, scheme = (rows, columns * 32 // bits), f"AWQ gemv {bits}-bit"
    elif outputs and columns * 32 % outputs == 0:
        bits = columns * 32 // outputs
        shape, scheme = (outputs, rows), f"AWQ {bits}-bit"
    else:
        bits, shape, scheme = 0, (), ""
    if not 1 <= bits <= 16:
        tensors.unknown(tensor, "a qweight whose shape agrees with no number of bits, kept out of the count")
        return True
    name = f"{stem}.weight"
    whole = (*stack, *shape)
    tensors.weight(name, whole, tensor.elements * 32 // bits, scheme, tensor)
    _check(tensors, name, bits, scheme)
    return True


def _gptq_bits(
    tensors: Tensors,
    tensor: StoredTensor,
    index: StoredTensor | None,
    zeros: StoredTensor | None,
    outputs: int,
) -> int:
    """Bits of a weight: from the inputs that g_idx lists, or from the packed zero points."""
    rows = tensor.shape[-2]
    if index is not None and index.elements and rows * 32 % index.shape[-1] == 0:
        return rows * 32 // index.shape[-1]
    if zeros is not None and outputs and zeros.shape[-1] * 32 % outputs == 0:
        return zeros.shape[-1] * 32 // outputs
    return tensors.settings.number("bits", "w_bit") or 0


def _check(tensors: Tensors, name: str, bits: int, scheme: str) -> None:
    """Compare with the configuration, whose rules for single modules go first."""
    settings = tensors.settings
    stated = settings.number("bits", "w_bit")
    single = any(found.get("dynamic") or found.get("extra_config") for found in settings.methods)
    if stated is not None and stated != bits and not single:
        tensors.problem(f"is {scheme} by its shape, {stated}-bit by the configuration", name)
