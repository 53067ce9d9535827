"""BLIP: a ViT, and a BERT that reads it, or is compared with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.encoders.bert import fields_of
from sizer.architectures.multimodal.blip_2 import NAMES
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.vision.clip import patches, vision_sizes
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module, Param
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

CLASSES = ("BlipModel", "BlipForConditionalGeneration")


@configuration
class BlipConfig(Config):
    """The towers, and the width in which they meet."""

    vision: Part
    text: Part
    d_vision: Dim
    d_text: Dim
    d_projection: Dim

    letters = {"vision": "img", "text": "txt", "d_vision": "D_img", "d_text": "D_txt", "d_projection": "Dp"}
    meanings = {
        "d_vision": "width of the vision tower",
        "d_text": "width of the text",
        "d_projection": "width in which the towers meet",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def blip(c: BlipConfig) -> Module:
    """BLIP (arXiv:2201.12086), with the names of `BlipForConditionalGeneration`.

    Source: transformers `modeling_blip.py`, `modeling_blip_text.py`.
    """
    base = c.task == "base"
    vision = c.vision.module("vision_model", layout=c.layout, stream="encoder")
    text = c.text.module("text_model" if base else "text_decoder", layout=c.layout)
    if not base:
        return Module("", (vision, text))
    meet = Axis("projection", c.d_projection)
    return Module(
        "",
        (
            Param("logit_scale", (), component="head"),
            text,
            vision,
            linear("visual_projection", meet, Axis("vision", c.d_vision), component="head"),
            linear("text_projection", meet, Axis("text", c.d_text), component="head"),
        ),
    )


ARCHITECTURES = {"blip": Architecture(BlipConfig, blip)}


def _blip(hf: HFConfig) -> Reading:
    if hf.cls not in CLASSES:
        raise UnknownName("class", hf.cls, CLASSES, hint="of a blip")
    base = hf.cls == "BlipModel"
    vision, text = hf.nested("vision_config"), hf.nested("text_config")
    causal = bool(text["is_decoder"])
    fields = fields_of(
        text,
        task="base" if base else "causal",
        causal=causal,
        cross_attention=causal,
        d_source=vision["hidden_size"],
        n_token_types=None,
        pooler=base,
        id_buffers=("position_ids",),
        tie_embeddings=bool(hf["tie_word_embeddings"] or text["tie_word_embeddings"]),
        n_labels=2,
    )
    given = {
        "task": "base" if base else "causal",
        "vision": bare(vision),
        "text": Part("bert", fields),
        "d_vision": vision["hidden_size"],
        "d_text": text["hidden_size"],
        "d_projection": whole(hf, "projection_dim"),
    }
    return Reading("blip", given)


def _vision(hf: HFConfig) -> Reading:
    return Reading("blip_2_vision", vision_sizes(hf, n_patches=patches(hf), module_names=NAMES, n_channels=3))


HF_READERS = {"blip": _blip, "blip_vision_model": _vision}
