"""MiniCPM-V: a tower that merges windows of patches after some of its blocks, and again at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, PartNames, multimodal, reading
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, attention
from sizer.architectures.vision.clip import VisionConfig, patches, side, vision_sizes, vision_tower
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Op
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

PLACES = PartNames(bridge="merger")


@configuration
class MiniCPMVisionConfig(VisionConfig):
    """`n_window`: patches of a window, which attend to each other and become one."""

    n_window: Dim

    letters = {**VisionConfig.letters, "n_window": "Nw"}
    meanings = {**VisionConfig.meanings, "n_window": "patches of a window"}


def vision(c: MiniCPMVisionConfig) -> Module:
    """SigLIP with a merger among its blocks, with the names of `MiniCPMV4_6VisionModel`."""
    tower, embed = vision_tower(c), Axis("embed", c.d_model)
    window, hidden = Axis("window", c.d_model * c.n_window), Axis("ffn", c.d_ff * c.n_window)
    merger = (
        attention(c),
        layer_norm("layer_norm1", embed),
        *_merge(embed, hidden, window),
    )
    return tower._replace(children=(*tower.children, Module("vit_merger", merger, component="other")))


def minicpm(c: MultimodalConfig) -> Module:
    """MiniCPM-V 4.6, with the names of `MiniCPMV4_6ForConditionalGeneration`.

    Source: transformers `modeling_minicpmv4_6.py`.
    """
    embed = Axis("embed", c.d_model)
    assert c.d_vision is not None
    merged = Axis("merged", c.d_vision * c.merge)
    wide = Module("mlp.0", _merge(embed, merged, merged))
    return multimodal(c, Module(c.places.bridge, (wide,), component="other", stream="encoder"))


def _merge(out: Axis, hidden: Axis, joined: Axis) -> Children:
    """Patches side by side, through a norm and two matrices."""
    return (
        layer_norm("pre_norm", joined),
        linear("linear_1", hidden, joined, bias=True),
        Op("act", "gelu", {"width": hidden.size}),
        linear("linear_2", out, hidden, bias=True),
    )


ARCHITECTURES = {
    "minicpm_v": Architecture(MultimodalConfig, minicpm),
    "minicpm_vision": Architecture(MiniCPMVisionConfig, vision),
}


def _minicpm(hf: HFConfig) -> Reading:
    if hf["merger_times"] != 1:
        raise InvalidConfig(f"merger_times = {clip(repr(hf['merger_times']))} is not described; use 1")
    vision = hf.nested("vision_config")
    width = vision["hidden_size"]
    # The merge before the text is of four patches, whatever its kernel.
    return reading(hf, "minicpm_v", vision=vision, d_vision=width, merge=4, places=PLACES)


def _vision(hf: HFConfig) -> Reading:
    rows, columns = side(hf, "window_kernel_size")
    given = vision_sizes(hf, n_patches=patches(hf), n_window=rows * columns, position_ids=False)
    return Reading("minicpm_vision", given)


HF_READERS = {
    "minicpm_ocr": _minicpm,
    "minicpm_ocr_vision": _vision,
    "minicpmv4_6": _minicpm,
    "minicpmv4_6_vision": _vision,
    "minicpmv4_7": _minicpm,
    "minicpmv4_7_vision": _vision,
}
