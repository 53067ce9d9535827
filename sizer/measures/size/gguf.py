"""GGUF to the byte, the keys apart: what llama.cpp converts and quantizes, and where it puts it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product as cartesian
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from sizer.core.walk import Row, name_at
from sizer.errors import InvalidConfig, UnknownName, clip
from sizer.measures.size import gguf_mix
from sizer.measures.size.gguf_mix import FALLBACKS, FILE_TYPES, Facts, Mix
from sizer.measures.size.gguf_names import Named, renamed
from sizer.measures.size.result import Size
from sizer.measures.size.rows import matches, outputs_first, shape_of, stored_rows
from sizer.measures.size.safetensors import File
from sizer.sources.checkpoints.ggml import TYPES

if TYPE_CHECKING:
    from sizer.model import Model

ALIGNMENT = 32
# name -> elements of a block, bytes of a block
BLOCKS = {name: (block, size) for name, block, size in TYPES.values()}
# Kept by llama-quantize as the converter wrote it; parts of names.
_KEPT = (
    *("_norm.weight", "ffn_gate_inp.weight", "altup", "laurel", "per_layer_model_proj", "ssm_conv1d"),
    *("shortconv.conv.weight", "time_mix_first.weight", "attn_rel_b.weight"),
)
_TABLES = ("position_embd.weight", "token_types.weight")
# Of these, two-dimensional ones that the converter writes in 32 bits.
_FP32 = (
    *("_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight"),
    *("ssm_conv1d", "shortconv.conv.weight", "time_mix_first.weight"),
)
# Model types whose layers llama.cpp calls a 70B where there are 80 of them.
_EIGHTY = ("llama", "qwen2", "mistral")


class Tensor(NamedTuple):
    """A tensor of a GGUF file; its shape is outermost first, as elsewhere."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    component: str


def mix_name(quant: str) -> str | None:
    """The mix that a name stands for; `None` where llama-quantize has none of that name."""
    name = quant.strip().lower().replace("-", "_")
    name = gguf_mix.ALIASES.get(name, name)
    return name if name in FILE_TYPES else None


def tensors(
    model: Model,
    rows: Sequence[Row],
    quant: str,
    *,
    dtype: str = "fp16",
    pure: bool = False,
    imatrix: bool = False,
    skip: Sequence[str] = (),
) -> tuple[list[Tensor], list[str]]:
    """The tensors of the file, in its order, and the names of those that are taken over unknown.

    `quant`: a mix, or "bf16", "fp16", "fp32". `pure`: every tensor of the mix's own type.
    """
    named, unknown = _converted(model, rows)
    mixed = quant in FILE_TYPES
    source = dtype if mixed else quant
    chosen = None
    if mixed and not pure:
        chosen = Mix(quant, _facts(model, [n for _, n, _ in named], imatrix))
    unused = [pattern for pattern in skip if not any(matches(pattern, n.name) for _, n, _ in named)]
    if unused:
        raise UnknownName(
            "tensor of the file", unused[0], [n.name for _, n, _ in named], hint="llama.cpp's names"
        )
    found = []
    for layer, one, component in named:
        kind = _source_type(one, source)
        if mixed and _quantized(one) and not _skipped(one.name, skip):
            kind = FILE_TYPES[quant]
            if chosen is not None:
                block = BLOCKS[kind][0]
                kind = chosen.type_of(one.name, layer, one.shape[-1], len(one.shape) > 2, block)
            known = not unknown or one.name.startswith(("blk.", "token_embd", "output", "enc.", "dec."))
            kind = _fitting(one, kind) if known or one.shape[-1] % BLOCKS[kind][0] == 0 else source
        block, size = BLOCKS[kind]
        found.append(Tensor(one.name, one.shape, kind, prod(one.shape) // block * size, component))
    return found, unknown


def _stack(name: str) -> str:
    """What stands before the number of a block."""
    return name.partition("{}")[0]


def _converted(model: Model, rows: Sequence[Row]) -> tuple[list[tuple[int, Named, str]], list[str]]:
    """Layer, name and shape, component of each tensor, by layer and name."""
    model_type = str((model.hf_config or {}).get("model_type") or model.architecture)
    found: list[tuple[int, Named, str]] = []
    unknown: list[str] = []
    transposed = outputs_first(rows)
    # A file has one stack of blocks; those of a tower are in another file, and keep their names here.
    stacks = [_stack(row.name) for row in sorted(rows, key=lambda row: row.stream != "") if row.frames]
    for row in rows:
        shape = shape_of(row)
        if row.name in transposed:
            shape = shape[::-1]
        # All but the first index are of experts, which are joined.
        frames = [(frame.indices or ())[: 1 if frame.shared else None] for frame in row.frames]
        joined = prod(map(len, frames[1:]))
        answer = renamed(row.name, shape, joined, model_type, model.config)
        if answer and answer[0].name.startswith("blk.") and _stack(row.name) != stacks[0]:
            answer = None
        if answer is None:
            unknown.append(row.name)
            names = [name_at(row.name, indices) for indices in cartesian(*frames)]
            found += [(i, Named(name, shape), row.component) for i, name in enumerate(names)]
            continue
        for one in answer:
            for layer in frames[0] if frames else (-1,):
                found.append((layer, Named(one.name.replace("{}", str(layer)), one.shape), row.component))
    rotary = _rope_factors(model)
    if rotary:
        found.append((-1, Named("rope_freqs.weight", (rotary,)), "position"))
    found.sort(key=lambda item: (item[0] if item[1].name.startswith("blk.") else -1, item[1].name))
    return found, unknown


def _rope_factors(model: Model) -> int:
    """Llama 3.1 scales its rotary positions; the converter writes a factor for each pair."""
    config = model.hf_config or {}
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = (scaling.get("rope_type") or scaling.get("type")) if isinstance(scaling, dict) else None
    width = getattr(model.config, "d_head", None)
    return width // 2 if kind == "llama3" and isinstance(width, int) else 0


def _facts(model: Model, named: list[Named], imatrix: bool) -> Facts:
    config = model.config
    model_type = str((model.hf_config or {}).get("model_type") or model.architecture)
    names = {one.name for one in named}
    heads, kv_heads = getattr(config, "n_heads", 1) or 1, getattr(config, "n_kv_heads", None)
    if any(name.endswith("attn_k_b.weight") for name in names):
        # Absorbed latent attention has one head of keys.
        kv_heads = 1
    layers = int(getattr(config, "n_layers", 0) or 0)
    return Facts(
        layers=layers,
        n_experts=int(getattr(config, "n_experts", 0) or 0),
        n_gqa=int(heads) // int(kv_heads or heads),
        tied="output.weight" not in names,
        is_falcon=model_type == "falcon",
        is_70b=layers == 80 and model_type in _EIGHTY and (kv_heads or heads) != heads,
        imatrix=imatrix,
        values=sum(1 for name in names if gguf_mix.role(name) in ("v", "qkv", "kv_b")),
    )


def _source_type(one: Named, wanted: str) -> str:
    """The type the converter writes: 32 bits for vectors, norms, routers and what is no weight."""
    fp32 = len(one.shape) < 2 or not one.name.endswith(".weight") or one.name in _TABLES
    return "fp32" if fp32 or any(part in one.name for part in _FP32) else wanted


def _quantized(one: Named) -> bool:
    if len(one.shape) < 2 or not one.name.endswith("weight") or one.name in _TABLES:
        return False
    return not any(part in one.name for part in _KEPT)


def _skipped(name: str, skip: Iterable[str]) -> bool:
    return any(matches(pattern, name) for pattern in skip)


def _fitting(one: Named, kind: str) -> str:
    """A type whose blocks fit the rows: llama.cpp's fallbacks where they do not."""
    inputs = one.shape[-1]
    if inputs % BLOCKS[kind][0] == 0:
        return kind
    if kind not in FALLBACKS:
        raise InvalidConfig(
            f"{one.name}: rows of {inputs} are no whole blocks of {BLOCKS[kind][0]}, and llama.cpp has no "
            f"other type for {kind}; leave it out with --skip {one.name}"
        )
    found = FALLBACKS[kind]
    return found if inputs % BLOCKS[found][0] == 0 else "fp16"


def padded(size: int) -> int:
    """Up to the next multiple of the alignment.

    >>> padded(33)
    64
    """
    return -(-size // ALIGNMENT) * ALIGNMENT


def header_bytes(found: Iterable[Tensor], metadata: int) -> int:
    """Magic, version, counts, keys and values of `metadata` bytes, and a description of each tensor."""
    described = sum(8 + len(t.name.encode()) + 4 + 8 * len(t.shape) + 4 + 8 for t in found)
    return padded(24 + metadata + described)


def size_of(
    model: Model,
    quant: str,
    *,
    dtype: str,
    skip: tuple[str, ...],
    metadata: int,
    pure: bool,
    imatrix: bool,
) -> Size:
    """The size of a file of a mix, or of one of the types that need no quantizing."""
    if type(metadata) is not int or not 0 <= metadata < 2**40:
        raise InvalidConfig(
            f"metadata bytes = {clip(metadata)} is no number of bytes that a file's keys take"
        )
    found, unknown = tensors(
        model, stored_rows(model), quant, dtype=dtype, pure=pure, imatrix=imatrix, skip=skip
    )
    shares: dict[tuple[str, str, str], tuple[int, int]] = {}
    for one in found:
        key = (one.component, "weights", one.dtype)
        count, n_bytes = shares.get(key, (0, 0))
        shares[key] = (count + 1, n_bytes + one.bytes)
    data = sum(one.bytes for one in found)
    if data >= 2**63:
        raise InvalidConfig(f"{model.name}: tensors of 2^63 bytes and more, beyond the offsets of any file")
    on_disk = sum(padded(one.bytes) for one in found)
    is_mix = quant in FILE_TYPES
    notes = [
        "the keys of a GGUF file, the tokenizer among them, are not known from a configuration: "
        f"{metadata:,} bytes are counted for them (--metadata-bytes)",
        *(
            [f"types by tensor follow {gguf_mix.SOURCE}; other versions may choose otherwise"]
            if is_mix
            else []
        ),
    ]
    warnings = []
    if unknown:
        warnings.append(
            f"{len(unknown)} names such as {unknown[0].replace('{}', '*')} are not in sizer's table of "
            "llama.cpp's names and are kept as they are, so this is an estimate"
        )
    return Size(
        quant + ("-pure" if pure and is_mix else ""),
        "gguf",
        int(model.count().total),
        {"weights": data},
        shares,
        [File("model.gguf", len(found), on_disk, header_bytes(found, metadata))],
        0,
        on_disk - data,
        metadata,
        "estimate" if unknown else "exact",
        notes,
        ["names and shapes: llama.cpp's convert_hf_to_gguf.py, gguf 0.19"],
        warnings,
        found,
    )
