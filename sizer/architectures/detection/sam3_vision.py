"""SAM 3's tower: a ViT with rotary positions, and a neck that gives its features in several sizes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.decoders.reading import listed_layers, whole
from sizer.architectures.detection.backbones import backbone_of
from sizer.architectures.detection.vitdet import THREE, grid, layers_of
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, TowerConfig, TowerNames, blocks, convolution
from sizer.architectures.vision.clip import ONE, vision_sizes
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import buffer, layer_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

TWO = Axis("kernel", 2)
NAMES = TowerNames(block="layers", attention="attention", output="o_proj")
# How much larger than the tower's the features of a level may be.
SCALES = (4.0, 2.0, 1.0, 0.5)
MAX_LEVELS = 64


@configuration
class Sam3VitConfig(TowerConfig):
    """Sizes of SAM 3's ViT.

    `kinds`: "window" for a block that attends within squares of `window_side` patches, "full" for one
    that sees all `n_patches`. `n_positions`: rows of the table of positions, which is laid in tiles.
    """

    n_patches: Dim
    n_positions: Dim
    patch_size: Dim
    n_channels: Dim
    kinds: Pattern
    window_side: Dim | None = None

    letters = {
        **TowerConfig.letters,
        "n_patches": "Np",
        "n_positions": "Nps",
        "patch_size": "p",
        "n_channels": "Nc",
        "kinds": "L",
        "window_side": "Ws",
    }
    meanings = {
        **TowerConfig.meanings,
        "n_patches": "patches of an image",
        "n_positions": "rows of the table of positions",
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
        "window_side": "patches along a side of a window",
    }


@configuration
class Sam3VisionConfig(Config):
    """The ViT, and the sizes of the neck. `scales`: how large the features of each level are."""

    backbone: Part
    d_backbone: Dim
    d_neck: Dim
    d_half: Dim | None = None
    d_quarter: Dim | None = None
    scales: tuple[float, ...] = SCALES
    task: str = "base"

    letters = {
        "backbone": "bb",
        "d_backbone": "Cb",
        "d_neck": "Dn",
        "d_half": "Ch",
        "d_quarter": "Cq",
    }
    meanings = {
        "d_backbone": "channels that the ViT gives",
        "d_neck": "channels that the neck gives",
        "d_half": "half of the channels of the ViT",
        "d_quarter": "a quarter of the channels of the ViT",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        if {4.0, 2.0} & set(self.scales):
            self.derive(d_half=divide(self.d_backbone, 2, names="d_backbone / 2"))
        if 4.0 in self.scales:
            self.derive(d_quarter=divide(self.d_backbone, 4, names="d_backbone / 4"))


def sam3_vit(c: Sam3VitConfig) -> Module:
    """The ViT of SAM 3 (arXiv:2511.16719), with the names of `Sam3ViTModel`.

    Source: transformers `modeling_sam3.py`.
    """
    embed, patch = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    table = Param("position_embeddings", (ONE, Axis("patches", c.n_positions), embed), component="position")
    name = "patch_embeddings.projection"
    projection = convolution(name, embed, Axis("channels", c.n_channels), patch, patch, bias=False)
    rotary = rotary_buffers(c.d_rotary, layout=c.layout)
    return Module(
        "",
        (
            Module("embeddings", (table, projection)),
            layer_norm("layer_norm", embed),
            blocks(c, *rotary, *_places(c)),
        ),
    )


def _places(c: Sam3VitConfig) -> Children:
    """Row and column of each patch that a block sees."""
    axes = Axis("axes", 2)
    everywhere = buffer("position_ids", Axis("patches", c.n_patches), axes, persistent=False)
    full = Module("", (everywhere,), at=c.kinds.layers("full"))
    if c.window_side is None:
        return (full,)
    square = Axis("patches", c.window_side * c.window_side)
    near = buffer("position_ids", square, axes, persistent=False)
    return (Module("", (near,), at=c.kinds.layers("window")), full)


def sam3_vision(c: Sam3VisionConfig) -> Module:
    """The ViT and its neck, with the names of `Sam3VisionModel`."""
    levels = tuple(Module(f"fpn_layers.{i}", _level(c, scale)) for i, scale in enumerate(c.scales))
    return Module("", (c.backbone.module("backbone", layout=c.layout), Module("neck", levels)))


def _level(c: Sam3VisionConfig, scale: float) -> Children:
    """Transposed convolutions that double the sides, and two convolutions."""
    full, neck = Axis("channels", c.d_backbone), Axis("neck", c.d_neck)
    widths = [full]
    if scale >= 2:
        widths.append(Axis("half", c.d_half))
    if scale >= 4:
        widths.append(Axis("quarter", c.d_quarter))
    doubled = (
        # An activation stands between the two.
        _doubled(f"scale_layers.{2 * i}", inp, out)
        for i, (inp, out) in enumerate(pairwise(widths))
    )
    return (
        *doubled,
        convolution("proj1", neck, widths[-1], ONE, ONE, component="other"),
        convolution("proj2", neck, neck, THREE, THREE, component="other"),
    )


def _doubled(name: str, inp: Axis, out: Axis) -> Module:
    leaves = (Param("weight", (inp, out, TWO, TWO), "matmul"), Param("bias", (out,)))
    return Module(name, leaves, component="other", kind="conv")


ARCHITECTURES = {
    "sam3_vit": Architecture(Sam3VitConfig, sam3_vit),
    "sam3_vision": Architecture(Sam3VisionConfig, sam3_vision),
}


def _vit(hf: HFConfig) -> Reading:
    n_layers, window = listed_layers(hf), hf["window_size"]
    listed = hf["global_attn_indexes"] is not None
    everywhere = layers_of(hf, "global_attn_indexes") if listed else (7, 15, 23, 31)
    kinds = tuple("full" if i in everywhere or not window else "window" for i in range(n_layers))
    rows, columns = grid(hf)
    before = grid(hf, "pretrain_image_size")
    n_heads = whole(hf, "num_attention_heads")
    head = whole(hf, "head_dim") if hf.in_file("head_dim") else whole(hf, "hidden_size") // n_heads
    given = vision_sizes(
        hf,
        n_patches=rows * columns,
        n_positions=before[0] * before[1],
        kinds=Pattern(kinds),
        window_side=window or None,
        # Half of a head turns with the row and half with the column, two numbers at a time.
        d_rotary=2 * ((head // 2 + 1) // 2),
        module_names=NAMES,
    )
    return Reading("sam3_vit", given)


def _vision(hf: HFConfig) -> Reading:
    backbone = backbone_of(hf, "sam3_vit_model")
    scales = SCALES if hf["scale_factors"] is None else hf["scale_factors"]
    known = isinstance(scales, list | tuple) and all(scale in SCALES for scale in scales)
    if not known or len(scales) > MAX_LEVELS:
        raise InvalidConfig(f"scale_factors = {clip(repr(scales))} is not a list of some of {SCALES}")
    given = {
        "backbone": bare(backbone),
        "d_backbone": backbone["hidden_size"],
        "d_neck": hf["fpn_hidden_size"],
        "scales": tuple(float(scale) for scale in scales),
    }
    return Reading("sam3_vision", given)


HF_READERS = {"sam3_vit_model": _vit, "sam3_vision_model": _vision}
