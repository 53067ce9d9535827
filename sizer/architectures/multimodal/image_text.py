"""Language models that see: a vision tower, one or two matrices, and the text.

LLaVA and those that differ from it in what stands between tower and text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import whole
from sizer.architectures.multimodal.model import MultimodalConfig, multimodal, reading, text_of
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.layers import linear, rms_norm
from sizer.core.tree import Axis, Module, Op, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class ImageTextConfig(MultimodalConfig):
    """What joins images to text. `layers`: names of its one or two matrices; `act` between two."""

    layers: tuple[str, ...] = ("linear_1", "linear_2")
    act: str = "gelu"


def llava(c: ImageTextConfig) -> Module:
    """LLaVA (Liu et al. 2023), with the names of `LlavaForConditionalGeneration`.

    Source: transformers `modeling_llava.py` and those of the types in this file.
    """
    patches, embed = Axis("vision", c.merge * c.d_vision), Axis("embed", c.d_model)
    first, *second = c.layers
    hidden = embed if c.d_bridge is None else Axis("bridge", c.d_bridge)
    bridge = (
        linear(first, hidden if second else embed, patches, bias=c.bridge_bias),
        *(Op("act", c.act, {"width": hidden.size}) for _ in second),
        *(linear(name, embed, hidden, bias=c.bridge_bias) for name in second),
    )
    return multimodal(c, Module(c.places.bridge, bridge, component="other", stream="encoder"))


def gemma3(c: ImageTextConfig) -> Module:
    """Gemma 3 (arXiv:2503.19786): the patches are averaged, normed and projected."""
    vision, embed = Axis("vision", c.d_vision), Axis("embed", c.d_model)
    bridge = (
        rms_norm("mm_soft_emb_norm", vision),
        Param("mm_input_projection_weight", (vision, embed), "matmul"),
    )
    return multimodal(c, Module(c.places.bridge, bridge, component="other", stream="encoder"))


def fuyu(c: ImageTextConfig) -> Module:
    """Fuyu: no tower; the pixels of a patch are one token of the text."""
    pixels = Axis("pixels", c.d_vision)
    return multimodal(
        c,
        linear("vision_embed_tokens", Axis("embed", c.d_model), pixels, bias=True, component="embedding"),
    )


ARCHITECTURES = {
    "fuyu": Architecture(ImageTextConfig, fuyu),
    "llava": Architecture(ImageTextConfig, llava),
    "gemma3": Architecture(ImageTextConfig, gemma3),
}


def _read(hf: HFConfig, architecture: str = "llava", **given: Any) -> Reading:
    vision = hf.nested("vision_config")
    fields = {"vision": vision, "d_vision": vision["hidden_size"], "files": "whole_text"}
    return reading(hf, architecture, **{**fields, **given})


def _gemma3(hf: HFConfig) -> Reading:
    return _read(hf, "gemma3")


def _llava(hf: HFConfig) -> Reading:
    layers = hf["vision_feature_layer"]
    return _read(
        hf,
        merge=len(layers) if isinstance(layers, list | tuple) else 1,
        bridge_bias=bool(hf["multimodal_projector_bias"]),
        act=hf["projector_hidden_act"],
    )


def _paligemma(hf: HFConfig) -> Reading:
    return _read(hf, layers=("linear",))


def _fuyu(hf: HFConfig) -> Reading:
    text = text_of(hf, "persimmon")
    pixels = whole(hf, "patch_size") ** 2 * whole(hf, "num_channels")
    return reading(hf, "fuyu", text=text, d_vision=pixels, files="whole_text")


HF_READERS = {
    "fuyu": _fuyu,
    "gemma3": _gemma3,
    "llava": _llava,
    "paligemma": _paligemma,
}
