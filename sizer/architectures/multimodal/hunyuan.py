"""The towers of HunYuan-VL and Hunyuan V4, which make a token of a square of patches by convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, TowerConfig, TowerNames, blocks, convolution
from sizer.architectures.vision.clip import vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear, rms_norm
from sizer.core.tree import EACH, Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(block="layers", output="o_proj")
_MERGER = (
    (r"patch_merger\.proj_conv\.", "perceive.proj.0."),
    (r"patch_merger\.proj_out\.", "perceive.proj.2."),
    (r"patch_merger\.", "perceive."),
    (r"mlp\.fc1\.", "mlp.dense_h_to_4h."),
    (r"mlp\.fc2\.", "mlp.dense_4h_to_h."),
)
FILES = (
    *_MERGER,
    (r"^model\.vision_tower\.", "vit."),
    (r"^model\.language_model\.", "model."),
    (r"^vit\.layers\.\{\}\.layer_norm1\.", "vit.layers.{}.input_layernorm."),
    (r"^vit\.layers\.\{\}\.layer_norm2\.", "vit.layers.{}.post_attention_layernorm."),
)
FILES_V4 = ((r"patch_merger\.before_rms\.", "perceive.norm."), *FILES)


@configuration
class HunyuanVisionConfig(TowerConfig):
    """Sizes of the tower.

    `n_side`: patches along the side of the largest image. `merge`: along that of a merged square.
    `d_out`: width that the text is given; `marks`: learned vectors begin, end and part an image.
    """

    patch_size: Dim
    n_side: Dim
    merge: Dim
    d_out: Dim
    n_channels: Dim = 3
    marks: bool = True

    letters = {
        **TowerConfig.letters,
        "patch_size": "p",
        "n_side": "Ns",
        "merge": "Mg",
        "d_out": "Do",
        "n_channels": "Nc",
    }
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_side": "patches along the side of the largest image",
        "merge": "patches along a side that become one token",
        "d_out": "width that the text is given",
        "n_channels": "colour channels",
    }


def hunyuan_vision(c: HunyuanVisionConfig) -> Module:
    """The tower, with the names of `HunYuanVLVisionTransformer`.

    Source: transformers `modeling_hunyuan_vl.py`.
    """
    return _tower(c, _merger(c))


def hy_v4_vision(c: HunyuanVisionConfig) -> Module:
    """The tower of Hunyuan V4, with the names of `HYV4VLVisionModel`.

    Source: transformers `modeling_hy_v4_vl.py`.
    """
    embed, out = Axis("embed", c.d_model), Axis("out", c.d_out)
    joined = Axis("merged", c.d_model * c.merge * c.merge)
    square, one = Axis("kernel", c.merge), Axis("kernel", 1)
    parts: Children = (
        rms_norm("before_rms", embed),
        convolution("proj_conv", joined, embed, square, square, act=c.act, component="other"),
        convolution("proj_out", out, joined, one, one, component="other"),
        Param("image_newline", (out,)),
    )
    return _tower(c, Module("patch_merger", parts, component="other"))


def _tower(c: HunyuanVisionConfig, merger: Module) -> Module:
    embed, side = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    # One row more than there are patches, for a token that is not used.
    rows = Axis("positions", c.n_side * c.n_side + 1)
    embeddings = (
        convolution("patch_embedding", embed, Axis("channels", c.n_channels), side, side, places=EACH),
        embedding("position_embedding", rows, embed, component="position"),
    )
    return Module("", (Module("embeddings", embeddings), blocks(c), merger))


def _merger(c: HunyuanVisionConfig) -> Module:
    embed = Axis("embed", c.d_model)
    out, square, one = Axis("out", c.d_out), Axis("kernel", c.merge), Axis("kernel", 1)
    marks = ("image_begin", "image_end", "image_sep") if c.marks else ()
    parts: Children = (
        rms_norm("before_rms", embed),
        convolution("proj_conv", 2 * embed, embed, square, square, act=c.act, component="other"),
        convolution("proj_out", 4 * embed, 2 * embed, one, one, component="other"),
        Param("image_newline", (4 * embed,)),
        linear("mlp", out, 4 * embed, bias=True),
        *(Param(name, (out,)) for name in marks),
        rms_norm("after_rms", out),
    )
    return Module("patch_merger", parts, component="other")


ARCHITECTURES = {
    "hunyuan_vl": Architecture(MultimodalConfig, multimodal),
    "hunyuan_vision": Architecture(HunyuanVisionConfig, hunyuan_vision),
    "hy_v4_vision": Architecture(HunyuanVisionConfig, hy_v4_vision),
}


def _vision(hf: HFConfig) -> Reading:
    return _read(hf, "hunyuan_vision", "text_hidden_size")


def _hy_v4_vision(hf: HFConfig) -> Reading:
    return _read(hf, "hy_v4_vision", "out_hidden_size")


def _read(hf: HFConfig, architecture: str, width: str) -> Reading:
    given = vision_sizes(
        hf,
        n_side=whole(hf, "max_image_size") // whole(hf, "patch_size"),
        merge=hf["spatial_merge_size"],
        d_out=hf[width],
        module_names=NAMES,
    )
    return Reading(architecture, given)


def _hunyuan_vl(hf: HFConfig) -> Reading:
    width = hf.nested("text_config")["hidden_size"]
    vision = hf.nested("vision_config").having(text_hidden_size=width)
    return reading(hf, "hunyuan_vl", vision=vision, stored=FILES)


def _hy_v4_vl(hf: HFConfig) -> Reading:
    return reading(hf, "hunyuan_vl", vision=hf.nested("vision_config"), stored=FILES_V4)


HF_READERS = {
    "hunyuan_vl": _hunyuan_vl,
    "hunyuan_vl_vision": _vision,
    "hy_v4_vl": _hy_v4_vl,
    "hy_v4_vl_vision": _hy_v4_vision,
}
