"""Which scheme reads which stored tensor: by the ending of its name, or by its dtype."""

from __future__ import annotations

from functools import cache

from sizer.sources.checkpoints.ggml import TYPES
from sizer.sources.checkpoints.logical.weights import Scheme, Tensors
from sizer.sources.checkpoints.stored import StoredTensor

# Types whose elements are the weights, packed or not: those of ggml say so themselves.
PLAIN_DTYPES = frozenset(
    [
        *("fp64", "fp32", "fp16", "bf16", "complex64", "complex128", "int64", "uint64", "bool"),
        # PyTorch keeps the scales of these outside of the tensor.
        *("qint8", "quint8", "qint32"),
    ]
) | {name for name, block, _ in TYPES.values() if block > 1}

# The ending of a name -> the module and the function that claims its tensors, or says no.
BY_ENDING = {
    "qweight": "integers.gptq_or_awq",
    "absmax": "codes.bitsandbytes_4bit",
    "SCB": "codes.bitsandbytes_8bit",
    "scales": "packed.mlx",
    "weight_packed": "packed.compressed",
    "*_packed": "packed.compressed",
    "*_blocks": "blocks.mxfp4_blocks",
    "blocks": "blocks.mxfp4_blocks",
    "*_qdata": "codes.torchao",
    "codes": "codes.aqlm",
    "W_q": "codes.hqq",
}


@cache
def _scheme(name: str) -> Scheme:
    # Imported when a file asks for one; most ask for none.
    from sizer.sources.checkpoints.logical import blocks, codes, integers, packed

    modules = {"blocks": blocks, "codes": codes, "integers": integers, "packed": packed}
    module, function = name.split(".")
    found: Scheme = getattr(modules[module], function)
    return found


def by_ending(tensors: Tensors, tensor: StoredTensor) -> bool:
    """Whether a scheme for the ending of a tensor's name read it."""
    name = tensor.name
    scheme = BY_ENDING.get(name[name.rfind(".") + 1 :]) or BY_ENDING.get("*" + name[name.rfind("_") :])
    return scheme is not None and _scheme(scheme)(tensors, tensor)


def of_dtype(tensors: Tensors, tensor: StoredTensor) -> None:
    """A tensor of a small type that no name gave to a scheme."""
    from sizer.sources.checkpoints.logical import blocks

    if tensor.dtype.startswith(("fp8", "fp6", "fp4")):
        blocks.eight_bit_float(tensors, tensor)
    elif tensor.dtype in ("int8", "uint8"):
        blocks.bytes_with_scales(tensors, tensor)
    else:
        tensors.unknown(
            tensor, f"a tensor of {tensor.dtype} of no format that sizer knows, kept out of the count"
        )
