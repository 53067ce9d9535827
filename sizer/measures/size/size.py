"""The size of a checkpoint before it exists: its tensors, its files, and what is known of each number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sizer.errors import InvalidConfig, UnknownName, clip
from sizer.measures.size.formats import PLAIN, Format, parse
from sizer.measures.size.result import Size
from sizer.measures.size.rows import Choice, pieces, stored_rows
from sizer.measures.size.stored import PARTS, Piece

if TYPE_CHECKING:
    from sizer.model import Model

CONTAINERS = ("safetensors", "gguf")
DTYPES = {**{name: name for name in PLAIN}, "bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
# `save_pretrained` of transformers 5.
MAX_SHARD = "50GB"


def size(
    model: Model,
    *,
    quant: str = "none",
    container: str | None = None,
    group_size: int | None = None,
    dtype: str = "bf16",
    skip: Iterable[str] = (),
    quantize: Iterable[str] = (),
    max_shard_size: str | int = MAX_SHARD,
    metadata_bytes: int = 0,
    pure: bool = False,
    imatrix: bool = False,
) -> Size:
    """The bytes of a model's checkpoint in a format.

    `quant` names the format. `skip` and `quantize` name modules that are left as they are, or packed,
    against the default of the tool. `dtype`: of what is not packed. `metadata_bytes`: of the keys and
    values of a GGUF file, the tokenizer among them. `pure` and `imatrix` are llama-quantize's.

    >>> import sizer
    >>> size(sizer.load("llama-3-8b"), quant="gptq-int4-g128").parts["indices"]
    4980736
    """
    dtype = _dtype(dtype)
    if quant.strip().lower() == "none":
        quant = dtype
    skip, quantize = tuple(skip), tuple(quantize)
    from_name = gguf_name(quant)
    if container is None:
        container = "gguf" if from_name is not None else "safetensors"
    if container not in CONTAINERS:
        raise UnknownName("container", container, CONTAINERS, hint=" or ".join(CONTAINERS))
    if container == "gguf":
        from sizer.measures.size.gguf import size_of

        if max_shard_size != MAX_SHARD:
            raise InvalidConfig(
                "llama.cpp writes one file; --max-shard-size is for safetensors, leave it out"
            )
        if group_size is not None or quantize:
            raise InvalidConfig(
                "types of GGUF have blocks of their own; leave --group-size and --quantize out"
            )
        plain = {**DTYPES, "f16": "fp16", "f32": "fp32"}.get(quant.strip().lower())
        wanted = from_name or plain
        if wanted is None:
            raise UnknownName("GGUF type", quant, gguf_names(), hint="sizer size --help lists them")
        return size_of(
            model, wanted, dtype=dtype, skip=skip, metadata=metadata_bytes, pure=pure, imatrix=imatrix
        )
    if from_name is not None:
        raise InvalidConfig(f"{quant} is a type of GGUF, which safetensors has not; leave --container out")
    if pure or imatrix or metadata_bytes:
        raise InvalidConfig(
            "--pure, --imatrix and --metadata-bytes are for GGUF; --container gguf, or leave them out"
        )
    return _safetensors(model, parse(quant, group_size), dtype, skip, quantize, max_shard_size)


def packed(
    model: Model, found: Format, dtype: str, skip: Iterable[str] = (), quantize: Iterable[str] = ()
) -> tuple[list[Piece], Choice]:
    """What a format stores for a model, and what it chose."""
    rows = stored_rows(model)
    choice = Choice(model, found, rows, skip, quantize)
    stored = pieces(rows, choice, dtype)
    unused = choice.unused()
    if unused:
        modules = [
            row.name.removesuffix(".weight").rpartition(".")[2] for row in rows if row.kind == "linear"
        ]
        raise UnknownName(
            "module", unused[0], dict.fromkeys(modules), hint="steps of a name, or all of it with *"
        )
    return stored, choice


def _dtype(name: str) -> str:
    found = DTYPES.get(name.strip().lower().removeprefix("torch."))
    if found is None:
        raise UnknownName("dtype", name, DTYPES, hint="of what is not packed: bf16, fp16 or fp32")
    return found


def gguf_name(quant: str) -> str | None:
    """The mix of llama.cpp that a name stands for."""
    # Names of its types are letters, digits and underscores; most other formats have a hyphen.
    if "_" not in quant and not quant.lower().startswith(("q", "iq", "tq", "mxfp4-moe")):
        return None
    from sizer.measures.size.gguf import mix_name

    return mix_name(quant)


def _safetensors(
    model: Model,
    found: Format,
    dtype: str,
    skip: tuple[str, ...],
    quantize: tuple[str, ...],
    max_shard_size: str | int,
) -> Size:
    from sizer.measures.size.order import MEASURED, ordered
    from sizer.measures.size.safetensors import files, index_bytes, runs_of

    if found.name in PLAIN:
        dtype = found.name
    limit = _limit(max_shard_size)
    stored, choice = packed(model, found, dtype, skip, quantize)
    parts: dict[str, int] = {}
    shares: dict[tuple[str, str, str], tuple[int, int]] = {}
    for piece in stored:
        copies = piece.copies
        total = copies * piece.bytes
        parts[piece.part] = parts.get(piece.part, 0) + total
        key = (piece.component, piece.part, piece.dtype)
        before = shares.get(key, (0, 0))
        shares[key] = (before[0] + copies, before[1] + total)
    data = sum(parts.values())
    if data >= 2**63:
        raise InvalidConfig(f"{model.name}: tensors of 2^63 bytes and more, beyond the offsets of any file")
    is_sharded = data > limit
    in_order, fused = ordered(model, stored, loaded=found.pack is not None) if is_sharded else (stored, False)
    runs = runs_of(in_order, fused=fused)
    written = files(runs, limit)
    params = int(model.count().total)
    index = index_bytes(runs, written, params) if len(written) > 1 else 0
    notes = [f"quantized by the rule of {found.source}"] if found.source else []
    notes += [found.note] if found.note else []
    is_exact = found.exact
    if is_sharded:
        notes.append(
            "shards are cut as transformers 5 cuts them for a model that was "
            + ("loaded, by name" if found.pack else "built; one that was loaded is sorted by name first")
        )
        # Cut elsewhere, by another tool or in another order, offsets have other digits.
        model_type = (model.hf_config or {}).get("model_type", model.architecture)
        known_order = model_type in MEASURED if found.pack is None else found.scope == "modules"
        is_exact = is_exact and known_order
    warnings = []
    if choice.left_experts:
        warnings.append(
            "the experts of a layer are one tensor in transformers 5, which bitsandbytes leaves as it is; "
            "--quantize experts packs each of their matrices"
        )
    return Size(
        found.name,
        "safetensors",
        params,
        {name: parts[name] for name in PARTS if name in parts},
        shares,
        written,
        index,
        0,
        0,
        "exact" if is_exact else "estimate",
        notes,
        ["header, shards and index: safetensors 0.8, transformers 5.24"],
        warnings,
        stored,
    )


def gguf_names() -> list[str]:
    """Names of types and mixes of GGUF."""
    from sizer.measures.size.gguf_mix import ALIASES, FILE_TYPES

    return [*FILE_TYPES, *ALIASES, *DTYPES]


def _limit(text: str | int) -> int:
    """Bytes of a shard: `5GB`, `500MiB`, or a number."""
    if text == MAX_SHARD:
        # Reading the text of a number of bytes imports a third of what the answer takes.
        return 50 * 10**9
    from sizer.units import parse_bytes

    number = text if isinstance(text, int) and not isinstance(text, bool) else parse_bytes(str(text))
    if number is None or number <= 0:
        raise InvalidConfig(
            f"max shard size = {clip(text)} is no positive number of bytes; write 50GB or 500MiB"
        )
    return number
