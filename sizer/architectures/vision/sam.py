"""SAM's tower, and GOT-OCR 2 that reads pages with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, multimodal, reading
from sizer.architectures.decoders.reading import listed_layers, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, TowerConfig, TowerNames, blocks, convolution
from sizer.architectures.vision.clip import vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

SAM = TowerNames(
    block="layers",
    attention="attn",
    qkv=("qkv",),
    output="proj",
    mlp=("mlp", "lin1", "lin2"),
    norms=("layer_norm1", "", "layer_norm2", ""),
)


@configuration
class SamVisionConfig(TowerConfig):
    """Sizes and switches of a SAM tower.

    `kinds`: "window" for a block that attends within squares of `window_side` patches, "full" for
    one that sees all `n_side` by `n_side`. `relative`: each block has learned relative positions.
    `d_neck`: channels that the tower gives.
    """

    n_side: Dim
    patch_size: Dim
    n_channels: Dim
    d_neck: Dim
    kinds: Pattern
    window_side: Dim | None = None
    absolute: bool = True
    relative: bool = True

    letters = {
        "n_side": "Ns",
        "patch_size": "p",
        "n_channels": "Nc",
        "d_neck": "Dn",
        "kinds": "L",
        "window_side": "Ws",
    }
    meanings = {
        "n_side": "patches along a side",
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
        "d_neck": "channels that the tower gives",
        "window_side": "patches along a side of a window",
    }


def sam_vision(c: SamVisionConfig) -> Module:
    """SAM's image encoder (arXiv:2304.02643), with the names of `GotOcr2VisionEncoder`.

    Source: transformers `modeling_got_ocr2.py`.
    """
    embed, patch, side = Axis("embed", c.d_model), Axis("patch", c.patch_size), Axis("side", c.n_side)
    one = Axis("one", 1)
    table = (Param("pos_embed", (one, side, side, embed), component="position"),) if c.absolute else ()
    channels = Axis("channels", c.n_channels)
    return Module(
        "",
        (
            *table,
            convolution("patch_embed.projection", embed, channels, patch, patch),
            blocks(c, in_attention=_relative(c) if c.relative else ()),
            Module("neck", neck(embed, Axis("neck", c.d_neck))),
        ),
    )


def neck(embed: Axis, channels: Axis) -> Children:
    """What makes the channels that the tower gives."""
    one, three = Axis("kernel", 1), Axis("kernel", 3)
    return (
        convolution("conv1", channels, embed, one, one, bias=False, component="other"),
        layer_norm("layer_norm1", channels),
        convolution("conv2", channels, channels, three, three, bias=False, component="other"),
        layer_norm("layer_norm2", channels),
    )


def wrapped(c: SamVisionConfig) -> Module:
    """The tower as a model by itself, with the names of `SamVisionModel`."""
    return Module("vision_encoder", sam_vision(c).children)


def _relative(c: SamVisionConfig) -> Children:
    """A vector of a head's width for each distance, along either side."""
    head = Axis("head", c.d_head)

    def tables(side: Dim) -> Children:
        distances = Axis("distances", 2 * side - 1)
        return tuple(Param(f"rel_pos_{x}", (distances, head), component="position") for x in "hw")

    full = Module("", tables(c.n_side), at=c.kinds.layers("full"))
    if c.window_side is None:
        return (full,)
    return (Module("", tables(c.window_side), at=c.kinds.layers("window")), full)


def got_ocr2(c: MultimodalConfig) -> Module:
    """GOT-OCR 2 (arXiv:2409.01704): two convolutions halve the sides of the image."""
    embed, three = Axis("embed", c.d_model), Axis("kernel", 3)
    vision = Axis("vision", c.d_joined)
    twice = 2 * vision
    bridge = (
        convolution("conv_upsampler1", twice, vision, three, three, bias=False, component="other"),
        convolution("conv_upsampler2", embed, twice, three, three, bias=False, component="other"),
        linear("multimodal_projector", embed, embed, bias=True),
    )
    return multimodal(c, Module(c.places.bridge, bridge, component="other", stream="encoder"))


ARCHITECTURES = {
    "got_ocr2": Architecture(MultimodalConfig, got_ocr2),
    "sam_vision": Architecture(SamVisionConfig, sam_vision),
    "sam_vision_model": Architecture(SamVisionConfig, wrapped),
}


def sam_reading(hf: HFConfig, architecture: str = "sam_vision") -> Reading:
    """The fields of a SAM tower."""
    n_layers, window = listed_layers(hf), hf["window_size"]
    everywhere = hf["global_attn_indexes"] if window else range(n_layers)
    given = vision_sizes(
        hf,
        d_ff=hf.get("mlp_dim") or int(whole(hf, "hidden_size") * hf["mlp_ratio"]),
        n_side=whole(hf, "image_size") // whole(hf, "patch_size"),
        d_neck=hf["output_channels"],
        kinds=Pattern(tuple("full" if i in everywhere else "window" for i in range(n_layers))),
        window_side=window or None,
        absolute=bool(hf["use_abs_pos"]),
        relative=bool(hf["use_rel_pos"]),
        bias="qo" if hf["qkv_bias"] else "o",
        module_names=SAM,
    )
    return Reading(architecture, given)


def _wrapped(hf: HFConfig) -> Reading:
    return sam_reading(hf, "sam_vision_model")


def _got_ocr2(hf: HFConfig) -> Reading:
    tower = hf.nested("vision_config")
    return reading(hf, "got_ocr2", vision=tower, d_joined=tower["output_channels"], files="whole_text")


HF_READERS = {
    "got_ocr2": _got_ocr2,
    "got_ocr2_vision": sam_reading,
    "pp_chart2table": _got_ocr2,
    "pp_chart2table_vision": sam_reading,
    "sam_hq_vision_model": _wrapped,
    "sam_vision_model": _wrapped,
}
