"""Weights packed along their rows: compressed-tensors, and MLX.

compressed-tensors: https://github.com/vllm-project/compressed-tensors, `compressors/`. At b bits a row
of k inputs takes ⌈k·b/32⌉ 32-bit words, values across word borders where b does not divide 32.

  pack-quantized  weight_packed int32 [m, ⌈k·b/32⌉]  weight_scale [m, k/g]  weight_shape int64 [2]
  nvfp4           weight_packed uint8 [m, k/2]  weight_scale fp8 [m, k/16]  weight_global_scale [1]
  mxfp4           weight_packed uint8 [m, k/2]  weight_scale uint8 [m, k/32]

MLX: `mlx.core.quantize`: weight uint32 [m, k·b/32], scales and biases [m, k/g].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizer.sources.checkpoints.logical.values import integers_of
from sizer.sources.checkpoints.logical.weights import Tensors
from sizer.sources.checkpoints.stored import StoredTensor


def compressed(tensors: Tensors, tensor: StoredTensor) -> bool:
    """`weight_packed` of compressed-tensors, or another parameter's `…_packed`."""
    name = tensor.name[: -len("_packed")]
    scale = tensors.get(f"{name}_scale")
    if scale is None or not tensor.shape:
        return False
    stem = name.rpartition(".")[0]
    tensors.claim(
        "scales",
        [f"{name}_scale", f"{name}_global_scale", f"{stem}.input_global_scale", f"{stem}.input_scale"],
    )
    tensors.claim("zero points", [f"{name}_zero_point", f"{stem}.input_zero_point"])
    tensors.claim("group indices", [f"{name}_g_idx"])
    tensors.claim("quant state", [f"{name}_shape"])
    *rows, words = tensor.shape
    if tensor.dtype == "uint8":
        scheme = "NVFP4" if scale.dtype.startswith("fp8_e4m3") else "MXFP4"
        tensors.weight(name, (*rows, 2 * words), 2 * tensor.elements, scheme, tensor)
        return True
    if tensor.dtype != "int32":
        return False
    columns = _columns(tensors, name, tensor, scale)
    if columns is None:
        tensors.unknown(
            tensor, "packed words whose bits neither a configuration nor weight_shape gives, not counted"
        )
        return True
    inputs, bits = columns
    params = inputs
    for size in rows:
        params *= size
    tensors.weight(name, (*rows, inputs), params, f"int{bits} packed" if bits else "int packed", tensor)
    return True


def _columns(
    tensors: Tensors, name: str, tensor: StoredTensor, scale: StoredTensor
) -> tuple[int, int] | None:
    """The inputs of a packed matrix and the bits of each, where all that is known agrees on one."""
    words, groups = tensor.shape[-1], scale.shape[-1] if scale.shape else 1
    by_group, by_channel = set(), set()
    for bits, group in _groups(tensors.settings.methods):
        if group and group > 0:
            # Groups are whole, so their number and their size give the inputs.
            if -(-groups * group * bits // 32) == words:
                by_group.add((groups * group, bits))
        elif words * 32 // bits:
            # Of one group a row, the last word may be filled in part.
            by_channel.add((words * 32 // bits, bits))
    if len(by_group) == 1:
        return by_group.pop()
    tensors.alone()
    shape = tensors.get(f"{name}_shape")
    # The shape itself, sixteen bytes of data.
    found = integers_of(tensors.contents, shape) if shape is not None else []
    if found and found[-1] > 0:
        inputs = found[-1]
        # The most bits that fit, of those that are packed, where no configuration says how many are.
        most = min(16, words * 32 // inputs)
        stated = [bits for _, bits in by_group | by_channel if -(-inputs * bits // 32) == words]
        if most and -(-inputs * most // 32) == words:
            return inputs, stated[0] if stated else most
    if len(by_channel) != 1:
        return None
    inputs, bits = by_channel.pop()
    tensors.remark("rows of whole words are assumed, since its weight_shape is not at hand", name)
    return inputs, bits


def _groups(methods: list[dict[str, Any]]) -> Iterator[tuple[int, int | None]]:
    """Bits and group size of each group of modules in the configuration."""
    for method in methods:
        groups = method.get("config_groups")
        for group in groups.values() if isinstance(groups, dict) else ():
            weights = group.get("weights") if isinstance(group, dict) else None
            if isinstance(weights, dict) and type(weights.get("num_bits")) is int and weights["num_bits"] > 0:
                size = weights.get("group_size")
                yield weights["num_bits"], size if type(size) is int else None


def mlx(tensors: Tensors, scales: StoredTensor) -> bool:
    """`weight` of 32-bit words with `scales`, and `biases` where the groups have an offset."""
    stem = scales.name.rpartition(".")[0]
    tensor = tensors.get(f"{stem}.weight")
    if tensor is None or tensor.dtype != "uint32" or not tensor.shape or not scales.shape:
        return False
    tensors.claim("scales", [scales.name])
    tensors.claim("zero points", [f"{stem}.biases"])
    words, groups = tensor.shape[-1], scales.shape[-1]
    found = _mlx_bits(tensors, stem, words, groups)
    if found is None:
        tensors.unknown(
            tensor,
            "packed words of MLX; their bits are in the `quantization` of config.json, which is missing",
        )
        return True
    bits, mode = found
    inputs = words * 32 // bits
    params = inputs
    for size in tensor.shape[:-1]:
        params *= size
    tensors.weight(f"{stem}.weight", (*tensor.shape[:-1], inputs), params, f"MLX {mode}{bits}-bit", tensor)
    return True


def _mlx_bits(tensors: Tensors, stem: str, words: int, groups: int) -> tuple[int, str] | None:
    """Bits of a module: its own entry in the configuration, or that of all."""
    for method in tensors.settings.methods:
        if any(isinstance(value, dict) for value in method.values()):
            tensors.alone()
        own = method.get(stem)
        values = {**method, **own} if isinstance(own, dict) else method
        bits, size = values.get("bits"), values.get("group_size")
        if type(bits) is int and type(size) is int and 1 <= bits <= 32:
            if groups * size * bits != words * 32:
                continue
            mode = values.get("mode")
            return bits, f"{mode} " if isinstance(mode, str) and mode != "affine" else ""
    return None
