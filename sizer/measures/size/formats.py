"""The formats a checkpoint may be quantized to, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from sizer.core.record import Record
from sizer.errors import InvalidConfig, UnknownName, clip
from sizer.measures.size import floats, integers
from sizer.measures.size.stored import Part

Pack = Callable[..., list[Part]]

# What is quantized, by the tool that does it.
#   blocks   matrices of the repeated blocks, routers apart
#   linear   every matrix but heads and routers
#   modules  every nn.Linear of transformers 5 but tied matrices, the output embedding, the last parameter
#   tables   matrices and tables of embeddings, heads too, where groups fit
SCOPES = ("blocks", "linear", "modules", "tables")


class Format(Record):
    """How matrices are stored: `pack(m, k, bits=, group=, dtype=)` answers the tensors of one.

    `bits` and `group` are what the name says. `scope`: which matrices, of `SCOPES`. `exact`: whether
    the tensors are to the byte. `note` says what the numbers leave out.
    """

    __slots__ = ("bits", "exact", "group", "name", "note", "pack", "scope", "source")

    def __init__(
        self,
        name: str,
        pack: Pack | None,
        scope: str = "linear",
        bits: int = 16,
        group: int = -1,
        source: str = "",
        note: str = "",
        exact: bool = True,
    ) -> None:
        self.name = name
        self.pack = pack
        self.scope = scope
        self.bits = bits
        self.group = group
        self.source = source
        self.note = note
        self.exact = exact


_BNB = "bitsandbytes 0.50 in transformers 5.24"
_CT = "compressed-tensors 0.20"
_DOUBLE = "nested_offset is a number as text, whose length depends on the weights: 19 letters are taken"

PLAIN = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32"}
FIXED: dict[str, Format] = {
    f.name: f
    for f in (
        Format("bnb-int8", floats.eight_bit, "modules", 8, source=_BNB),
        *(
            Format(
                kind + ("-dq" if double else ""),
                partial(floats.four_bit, kind=kind, double=double),
                "modules",
                4,
                64,
                source=_BNB,
                note=_DOUBLE if double else "",
                exact=not double,
            )
            for kind in ("nf4", "fp4")
            for double in (False, True)
        ),
        Format(
            "nf4-torchao",
            floats.torchao_nf4,
            "linear",
            4,
            64,
            source="torchao 0.1, NF4Tensor; run 2026-11",
            note="as torchtune's QLoRA holds it in memory; its files are of 16 bits",
            exact=False,
        ),
        Format(
            "fp8-block",
            floats.fp8_block,
            "linear",
            8,
            128,
            source="DeepSeek-V3's files; finegrained_fp8 of transformers 5.24",
        ),
        Format("fp8", floats.fp8_tensor, "linear", 8, source=f"{_CT}, preset FP8"),
        Format("fp8-dynamic", floats.fp8_channel, "linear", 8, source=f"{_CT}, preset FP8_DYNAMIC"),
        Format("mxfp4", floats.mxfp4, "linear", 4, 32, source=f"{_CT}, preset MXFP4; gpt-oss its own files"),
        Format("mxfp8", floats.mxfp8, "linear", 8, 32, source=f"{_CT}, preset MXFP8"),
        Format("nvfp4", floats.nvfp4, "linear", 4, 16, source=f"{_CT}, preset NVFP4"),
        Format("nvfp4a16", floats.nvfp4a16, "linear", 4, 16, source=f"{_CT}, preset NVFP4A16"),
        Format("w8a8", integers.channelwise, "linear", 8, source=f"{_CT}, preset W8A8"),
    )
}
ALIASES = {
    "none": "bf16",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "f16": "fp16",
    "f32": "fp32",
    "gptq": "gptq-int4-g128",
    "awq": "awq-int4-g128",
    "w4a16": "w4a16-g128",
    "w8a16": "w8a16-g128",
    "w4a16-asym": "w4a16-g128-asym",
    "int8": "bnb-int8",
    "bnb-nf4": "nf4",
    "bnb-fp4": "fp4",
    "fp8-channel": "fp8-dynamic",
    "fp8-tensor": "fp8",
    "mlx-q4": "mlx-q4-g64",
    "mlx-q8": "mlx-q8-g64",
    "hqq": "hqq-int4-g64",
}

_GPTQ = "AutoGPTQ's qlinear_cuda"
_AWQ = "AutoAWQ's gemm"


def _with_group(family: str, bits: int, group: int, last: str) -> Format | None:
    """A format whose name says bits and group: `gptq-int4-g128`."""
    group_text = f"-g{group}"
    if family == "gptq" and bits in (2, 3, 4, 8) and last in ("", "-desc"):
        note = "desc_act changes the order of the inputs, and no size: g_idx is stored either way"
        return Format(
            f"gptq-int{bits}{group_text}{last}",
            integers.gptq,
            "blocks",
            bits,
            group,
            _GPTQ,
            note if last else "",
        )
    if family == "awq" and bits == 4 and not last:
        return Format(f"awq-int4{group_text}", integers.awq, "blocks", 4, group, _AWQ)
    if family == "w" and 2 <= bits <= 8 and last in ("", "-asym"):
        pack = partial(integers.packed, zeros=True) if last else integers.packed
        return Format(f"w{bits}a16{group_text}{last}", pack, "linear", bits, group, f"{_CT}, pack-quantized")
    if family == "mlx" and bits in (2, 3, 4, 5, 6, 8) and not last:
        note = "MLX writes the header itself, in another order: its bytes are an estimate"
        return Format(
            f"mlx-q{bits}{group_text}", integers.mlx, "tables", bits, group, "mlx", note, exact=False
        )
    if family == "hqq" and bits in (1, 2, 3, 4, 8) and group > 0 and not last:
        note = "which modules HQQ is told to pack, and the header of the tool that saves, are an estimate"
        return Format(
            f"hqq-int{bits}{group_text}", integers.hqq, "blocks", bits, group, "hqq 0.2.8", note, exact=False
        )
    return None


def parse(name: str, group_size: int | None = None) -> Format:
    """The format of a name; `group_size` overrides that of the name.

    >>> parse("gptq").name, parse("gptq-int3-g64").bits, parse("awq", group_size=64).name
    ('gptq-int4-g128', 3, 'awq-int4-g64')
    """
    wanted = name.strip().lower().replace("_", "-")
    wanted = ALIASES.get(wanted, wanted)
    if wanted in PLAIN:
        _no_group(wanted, group_size)
        return Format(wanted, None, bits=32 if wanted == "fp32" else 16)
    found = FIXED.get(wanted)
    if found is not None:
        if found.name.startswith(("nf4", "fp4")) and group_size is not None:
            return found._replace(group=_block(group_size))
        if group_size not in (None, found.group):
            _no_group(wanted, group_size)
        return found
    found = _parsed(wanted, group_size)
    if found is None:
        raise UnknownName("format", name, known(), hint="sizer size --help lists them")
    return found


# A family, its bits, the weights that share a scale (-1: a whole row), and a variant.
_NAME = re.compile(
    r"(?:(gptq|awq|mlx|hqq)(?:-(?:int|q)?(\d{1,2}))?|(w)(\d)a16)(?:-g(-1|\d{1,6}))?(-desc|-asym)?"
)


def _parsed(wanted: str, group_size: int | None) -> Format | None:
    match = _NAME.fullmatch(wanted)
    if match is None:
        return None
    family, bits = match[1] or match[3], int(match[2] or match[4] or 4)
    group = int(match[5]) if match[5] else 64 if family in ("mlx", "hqq") else 128
    group = group if group_size is None else group_size
    if group != -1 and group <= 0:
        raise InvalidConfig(
            f"group size = {clip(group)} is neither positive nor -1, which stands for whole rows"
        )
    if family == "mlx" and group not in (32, 64, 128):
        raise InvalidConfig(f"group size = {clip(group)}: MLX has groups of 32, 64 and 128")
    return _with_group(family, bits, group, match[6] or "")


def _block(size: int) -> int:
    if size not in (32, 64, 128, 256, 512, 1024, 2048, 4096):
        raise InvalidConfig(
            f"group size = {size} is no block size of bitsandbytes: a power of two, 32 to 4096"
        )
    return size


def _no_group(name: str, group_size: int | None) -> None:
    if group_size is not None:
        raise InvalidConfig(
            f"{name} has no groups to choose the size of; leave --group-size = {group_size} out"
        )


def known() -> list[str]:
    """Names to offer for one that is unknown."""
    from sizer.measures.size.gguf_mix import ALIASES as SHORT
    from sizer.measures.size.gguf_mix import FILE_TYPES

    sizes = [f"gptq-int{b}-g{g}" for b in (2, 3, 4, 8) for g in (32, 64, 128, -1)]
    return [*PLAIN, *ALIASES, *FIXED, *sizes, "awq-int4-g128", *FILE_TYPES, *SHORT]
