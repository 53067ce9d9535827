"""SAM 2's tower: Hiera, whose stages halve the image and double the width, and a neck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import positive, whole
from sizer.architectures.detection.backbones import backbone_of
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.clip import ONE
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import MAX_LAYERS, MAX_SIZE, Dim
from sizer.core.layers import attention_core, layer_norm, linear, mlp
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Layers, Module, Param, heads_axis
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

MOST_STAGES = 16


@configuration
class HieraDetConfig(Config):
    """Sizes of Hiera.

    `depths`, `widths`, `heads`, `head_widths`, `ffs`: blocks of each stage, and the sizes of each.
    `changes`: the stages whose first block changes the width on the way around its attention.
    `n_rows`, `n_columns`: of the table of positions; `window_side`: of the one that is laid in tiles.
    """

    d_stem: Dim
    depths: PerLayer
    widths: PerLayer
    heads: PerLayer
    head_widths: PerLayer
    ffs: PerLayer
    n_channels: Dim
    patch_height: Dim
    patch_width: Dim
    n_rows: Dim
    n_columns: Dim
    window_side: Dim
    changes: tuple[bool, ...]
    act: str = "gelu"
    task: str = "base"

    letters = {
        "d_stem": "Cs",
        "depths": "L",
        "widths": "C",
        "heads": "H",
        "head_widths": "Dh",
        "ffs": "F",
        "n_channels": "Nc",
        "patch_height": "ph",
        "patch_width": "pw",
        "n_rows": "Nh",
        "n_columns": "Nw",
        "window_side": "Ws",
    }
    meanings = {
        "d_stem": "channels after the first convolution",
        "n_channels": "colour channels",
        "patch_height": "height of a patch",
        "patch_width": "width of a patch",
        "n_rows": "rows of the table of positions",
        "n_columns": "columns of the table of positions",
        "window_side": "patches along a side of a window",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


@configuration
class Sam2VisionConfig(Config):
    """Hiera, and the sizes of the neck. `channels`: of the features that it reads."""

    backbone: Part
    channels: PerLayer
    d_neck: Dim
    kernel: Dim
    task: str = "base"

    letters = {"backbone": "bb", "channels": "Cb", "d_neck": "Dn", "kernel": "Kn"}
    meanings = {"d_neck": "channels that the neck gives", "kernel": "side of its kernels"}

    def __post_init__(self) -> None:
        check_sizes(self)


def hiera_det(c: HieraDetConfig) -> Module:
    """Hiera (arXiv:2306.00989) as SAM 2 has it, with the names of `Sam2HieraDetModel`.

    Source: transformers `modeling_sam2.py`.
    """
    stem, window = Axis("embed", c.d_stem), Axis("window", c.window_side)
    kernel = Axis("patch", c.patch_height), Axis("patch", c.patch_width)
    table = (ONE, stem, Axis("rows", c.n_rows), Axis("columns", c.n_columns))
    depths = c.depths.sizes()
    return Module(
        "",
        (
            Param("pos_embed", table, component="position"),
            Param("pos_embed_window", (ONE, stem, window, window), component="position"),
            convolution("patch_embed.projection", stem, Axis("channels", c.n_channels), *kernel),
            Module("blocks", _stages(c), repeat=sum(depths[1:], start=depths[0])),
        ),
    )


def _stages(c: HieraDetConfig) -> Children:
    """The first block of each stage, which reads the width before, and the others."""
    widths = [Axis("embed", width) for width in c.widths.sizes()]
    parts: list[Module] = []
    for stage, depth in enumerate(c.depths.sizes()):
        out, inp = widths[stage], widths[max(stage - 1, 0)]
        start = sum(before or 0 for before in c.depths.values[:stage])
        known = range(start, start + depth) if isinstance(depth, int) else None
        first = Layers(1, None if known is None else known[:1])
        others = Layers(depth - 1, None if known is None else known[1:])
        parts.append(Module("", _block(c, stage, inp, out, changes=c.changes[stage]), at=first))
        parts.append(Module("", _block(c, stage, out, out), at=others))
    return tuple(parts)


def _block(c: HieraDetConfig, stage: int, inp: Axis, out: Axis, *, changes: bool = False) -> Children:
    n, d_head = c.heads.sizes()[stage], c.head_widths.sizes()[stage]
    heads, ffn = heads_axis("heads", n, d_head), Axis("ffn", c.ffs.sizes()[stage])
    attention = (
        linear("qkv", heads + heads + heads, inp, bias=True),
        *attention_core(n, n, d_head, cached=False),
        linear("proj", out, heads, bias=True),
    )
    around = (linear("proj", out, inp, bias=True, component="other"),) if changes else ()
    return (
        layer_norm("layer_norm1", inp),
        *around,
        Module("attn", attention, component="attention"),
        layer_norm("layer_norm2", out),
        mlp("mlp", ffn, out, act=c.act, names=("proj_in", "proj_out")),
    )


def sam2_vision(c: Sam2VisionConfig) -> Module:
    """Hiera and its neck, with the names of `Sam2VisionModel`."""
    neck, kernel = Axis("neck", c.d_neck), Axis("kernel", c.kernel)
    convolutions = tuple(
        convolution(f"convs.{i}", neck, Axis("channels", width), kernel, kernel, component="other")
        for i, width in enumerate(c.channels.sizes())
    )
    return Module("", (c.backbone.module("backbone", layout=c.layout), Module("neck", convolutions)))


ARCHITECTURES = {
    "hiera_det": Architecture(HieraDetConfig, hiera_det),
    "sam2_vision": Architecture(Sam2VisionConfig, sam2_vision),
}


def listed(hf: HFConfig, key: str, usual: tuple[int, ...]) -> tuple[int, ...]:
    """Positive whole numbers, one a stage; those of the smallest SAM 2 where the file has none."""
    found = usual if hf[key] is None else hf[key]
    good = isinstance(found, list | tuple) and 0 < len(found) <= MOST_STAGES
    if not good or not all(type(size) is int and 0 < size <= MAX_SIZE for size in found):
        raise InvalidConfig(
            f"{key} = {clip(repr(found))} is not a list of up to {MOST_STAGES} positive whole numbers"
        )
    return tuple(found)


def _pair(hf: HFConfig, key: str, usual: int) -> tuple[int, int]:
    """Height and width; one number is both."""
    if type(hf[key]) is int:
        return whole(hf, key), whole(hf, key)
    found = listed(hf, key, (usual, usual))
    if len(found) != 2:
        raise InvalidConfig(f"{key} = {clip(repr(found))} is not a height and a width")
    return found[0], found[1]


def _hiera(hf: HFConfig) -> Reading:
    depths = listed(hf, "blocks_per_stage", (1, 2, 7, 2))
    widths = listed(hf, "embed_dim_per_stage", (96, 192, 384, 768))
    heads = listed(hf, "num_attention_heads_per_stage", (1, 2, 4, 8))
    windows = listed(hf, "window_size_per_stage", (8, 4, 14, 7))
    if not len(depths) == len(widths) == len(heads):
        raise InvalidConfig(
            f"blocks_per_stage lists {len(depths)} stages, embed_dim_per_stage {len(widths)} and "
            f"num_attention_heads_per_stage {len(heads)}"
        )
    if sum(depths) > MAX_LAYERS:
        raise InvalidConfig(f"blocks_per_stage has more than {MAX_LAYERS:,} blocks")
    for width, n in zip(widths, heads, strict=True):
        if width % n:
            raise InvalidConfig(f"a stage of {width} channels does not part into {n} heads")
    ratio = positive("mlp_ratio", hf["mlp_ratio"])
    kernel = _pair(hf, "patch_kernel_size", 7)
    table = _pair(hf, "window_positional_embedding_background_size", 7)
    given: dict[str, Any] = {
        "d_stem": hf["hidden_size"],
        "depths": PerLayer(depths),
        "widths": PerLayer(widths),
        "heads": PerLayer(heads),
        "head_widths": PerLayer(tuple(width // n for width, n in zip(widths, heads, strict=True))),
        "ffs": PerLayer(tuple(int(width * ratio) for width in widths)),
        "n_channels": hf["num_channels"],
        "patch_height": kernel[0],
        "patch_width": kernel[1],
        "n_rows": table[0],
        "n_columns": table[1],
        "window_side": windows[0],
        "changes": tuple(i > 0 and widths[i - 1] != width for i, width in enumerate(widths)),
        "act": hf["hidden_act"],
    }
    return Reading("hiera_det", given)


def _vision(hf: HFConfig) -> Reading:
    given = {
        "backbone": bare(backbone_of(hf, "sam2_hiera_det_model")),
        "channels": PerLayer(listed(hf, "backbone_channel_list", (768, 384, 192, 96))),
        "d_neck": hf["fpn_hidden_size"],
        "kernel": hf["fpn_kernel_size"],
    }
    return Reading("sam2_vision", given)


HF_READERS = {"sam2_hiera_det_model": _hiera, "sam2_vision_model": _vision}
