"""Formats that keep what they need to unpack beside the weights: bitsandbytes, HQQ, AQLM, TorchAO."""

from __future__ import annotations

import json
from typing import Any

from sizer.sources.checkpoints.logical.values import integers_of, object_of
from sizer.sources.checkpoints.logical.weights import Tensors
from sizer.sources.checkpoints.stored import StoredTensor, elements_of


def bitsandbytes_4bit(tensors: Tensors, absmax: StoredTensor) -> bool:
    """nf4 and fp4: two weights a byte in one column, and the state of their blocks.

    `bitsandbytes/functional.py`, `QuantState.as_dict`: the shape is in a JSON text of eighty bytes.
    """
    tensors.alone()
    name = absmax.name[: -len(".absmax")]
    tensor = tensors.get(name)
    if tensor is None:
        return False
    state = next(
        (s for kind in ("nf4", "fp4") if (s := tensors.get(f"{name}.quant_state.bitsandbytes__{kind}"))), None
    )
    kind = "nf4" if state is None or state.name.endswith("nf4") else "fp4"
    nested = f"{name}.nested_absmax" in tensors.by_name
    tensors.claim("scales", [absmax.name, f"{name}.nested_absmax"])
    tensors.claim("codebooks", [f"{name}.quant_map", f"{name}.nested_quant_map"])
    if state is not None:
        tensors.claim("quant state", [state.name])
    params = 2 * tensor.bytes
    shape: tuple[int, ...] = (params,)
    stated = object_of(tensors.contents, state).get("shape") if state is not None else None
    if isinstance(stated, list) and stated and all(type(n) is int and n > 0 for n in stated):
        product = 1
        for size in stated:
            product *= size
        # Two a byte, and half a byte to spare where their number is odd.
        if product in (params, params - 1):
            params, shape = product, tuple(stated)
        else:
            tensors.problem("its state has a shape of another number of weights than are stored", name)
    blocks = -(-params // absmax.elements) if absmax.elements else 0
    if blocks > 4096 or absmax.elements > params:
        tensors.problem("has an absmax that fits no block size of bitsandbytes", name)
    tensors.weight(name, shape, params, f"{kind}, double quantized" if nested else kind, tensor)
    return True


def bitsandbytes_8bit(tensors: Tensors, scales: StoredTensor) -> bool:
    """LLM.int8(): int8 weights, and the largest value of each row in `SCB`."""
    stem = scales.name.rpartition(".")[0]
    tensor = tensors.get(f"{stem}.weight")
    if tensor is None or tensor.dtype != "int8":
        return False
    tensors.claim("scales", [scales.name])
    tensors.claim("quant state", [f"{stem}.weight_format"])
    tensors.weight(tensor.name, tensor.shape, tensor.elements, "LLM.int8()", tensor)
    return True


# What HQQ keeps beside a packed matrix: `HQQLinear.state_dict` in `hqq/core/quantize.py`.
_HQQ_STATE = (
    *("nbits", "group_size", "shape", "axis", "packing", "unpack_view_dtype", "view_as_float"),
    *("quant_scale", "quant_zero", "compute_dtype", "offload_meta", "encoded_state_dict"),
    *("stores_quant_config", "channel_wise", "optimize", "round_zero"),
)


def hqq(tensors: Tensors, tensor: StoredTensor) -> bool:
    """`W_q`: 8/b weights a byte, or ten 3-bit ones a 32-bit word, with padding that `shape` tells."""
    stem = tensor.name[: -len(".W_q")]
    tensors.claim("scales", [f"{stem}.scale", f"{stem}.zero_scale"])
    tensors.claim("zero points", [f"{stem}.zero"])
    tensors.claim("quant state", [f"{stem}.{key}" for key in _HQQ_STATE])
    shape = _hqq_shape(tensors, stem)
    if shape:
        params = 1
        for size in shape:
            params *= size
        if 0 < params <= 8 * tensor.bytes:
            tensors.weight(f"{stem}.weight", shape, params, "HQQ", tensor)
            return True
    bits = _hqq_bits(tensors)
    if bits in (1, 2, 4, 8):
        params = tensor.bytes * 8 // bits
        tensors.weight(f"{stem}.weight", (params,), params, f"HQQ {bits}-bit", tensor)
        return True
    tensors.unknown(
        tensor, "packed by HQQ; its `shape`, or the bits in a configuration, are needed to count it"
    )
    return True


def _hqq_shape(tensors: Tensors, stem: str) -> tuple[int, ...]:
    tensors.alone()
    stored = tensors.get(f"{stem}.shape")
    return tuple(integers_of(tensors.contents, stored)) if stored is not None else ()


def _hqq_bits(tensors: Tensors) -> int:
    for method in tensors.settings.methods:
        config: Any = method.get("quant_config", method)
        params = config.get("weight_quant_params") if isinstance(config, dict) else None
        if isinstance(params, dict) and type(params.get("nbits")) is int:
            return int(params["nbits"])
    return 0


def aqlm(tensors: Tensors, tensor: StoredTensor) -> bool:
    """AQLM: `codes` [m/o, k/i, n] into `codebooks` [n, 2^b, o, i]. Egiazarian et al. 2024."""
    stem = tensor.name[: -len(".codes")]
    books = tensors.get(f"{stem}.codebooks")
    if books is None or len(books.shape) != 4 or len(tensor.shape) != 3:
        return False
    tensors.claim("codebooks", [books.name])
    tensors.claim("scales", [f"{stem}.scales"])
    shape = (tensor.shape[0] * books.shape[2], tensor.shape[1] * books.shape[3])
    tensors.weight(f"{stem}.weight", shape, shape[0] * shape[1], "AQLM", tensor)
    return True


# Weights in an element of `qdata`, by TorchAO's class.
_TORCHAO = {
    "Float8Tensor": 1,
    "Int8Tensor": 1,
    "IntxUnpackedToInt8Tensor": 1,
    "Int4Tensor": 2,
    "Int4PreshuffledTensor": 2,
    "Int4PlainInt32Tensor": 8,
    "Int4TilePackedTo4dTensor": 8,
}


def torchao(tensors: Tensors, tensor: StoredTensor) -> bool:
    """TorchAO's safetensors: `_weight_qdata`, and in the metadata the class under `weight`.

    `torchao/prototype/safetensors/safetensors_support.py`.
    """
    stem, _, last = tensor.name[: -len("_qdata")].rpartition(".")
    if not last.startswith("_"):
        return False
    tensors.alone()
    name = f"{stem}.{last[1:]}" if stem else last[1:]
    text = tensors.contents.metadata.get(name)
    try:
        about = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        about = {}
    kind = about.get("_type") if isinstance(about, dict) else None
    if not isinstance(kind, str):
        return False
    prefix = tensor.name[: -len("qdata")]
    tensors.claim(
        "scales", [prefix + e for e in ("scale", "scale_and_zero", "per_tensor_scale", "act_pre_scale")]
    )
    tensors.claim("zero points", [prefix + "zero_point", prefix + "zero"])
    packing = _TORCHAO.get(kind)
    if packing is None:
        tensors.unknown(tensor, f"packed by TorchAO's {kind}, whose layout sizer does not know")
        return True
    data = about.get("_data")
    stated = data.get("shape") if isinstance(data, dict) else None
    shape: tuple[int, ...]
    if isinstance(stated, list) and stated and all(type(n) is int and n > 0 for n in stated):
        shape = tuple(stated)
    elif packing < 8 and tensor.shape:
        shape = (*tensor.shape[:-1], tensor.shape[-1] * packing)
    else:
        shape = (tensor.elements * packing,)
    params = 1
    for size in shape:
        params *= size
    if params > tensor.elements * packing:
        tensors.problem("its metadata has a shape of more weights than are stored", name)
    tensors.weight(name, shape, params, f"TorchAO {kind}", tensor)
    return True


def made_of_tensors(tensors: Tensors) -> None:
    """Tensors that a pickle makes of others, as TorchAO's do: the largest part holds the weights."""
    made = tensors.contents.made_of_tensors
    parts: dict[str, list[StoredTensor]] = {}
    for tensor in tensors.contents.stored:
        steps = tensor.name.split(".")
        for length in range(len(steps) - 1, 0, -1):
            owner = ".".join(steps[:length])
            if owner in made:
                parts.setdefault(owner, []).append(tensor)
                break
    for name, found in parts.items():
        kind, shape = made[name]
        params = elements_of(shape, name)
        largest = max(found, key=lambda t: t.bytes)
        if params > 8 * largest.bytes:
            tensors.problem(f"a {kind} of more weights than are stored", name)
        for tensor in found:
            zero = "zero" in tensor.name[len(name) :]
            tensors.claimed[tensor.name] = "zero points" if zero else "scales"
        del tensors.claimed[largest.name]
        tensors.weight(name, shape, params, kind, largest)
