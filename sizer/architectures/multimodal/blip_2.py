"""BLIP-2 and InstructBLIP: a tower, a Q-Former whose queries read it, and a text model with its head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.parts import Part, part_of
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerNames, blocks, convolution, norms_named
from sizer.architectures.vision.clip import VisionConfig, patches, vision_sizes
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import EACH, Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
NAMES = TowerNames(qkv=("qkv",), output="projection")


@configuration
class Blip2Config(Config):
    """The parts, and the queries that carry an image to the text."""

    vision: Part
    qformer: Part
    text: Part
    d_model: Dim
    d_qformer: Dim
    n_queries: Dim
    task: str = "base"

    letters = {
        "vision": "img",
        "qformer": "qf",
        "text": "txt",
        "d_model": "D_txt",
        "d_qformer": "D_qf",
        "n_queries": "Nq",
    }
    meanings = {"d_qformer": "width of the Q-Former", "n_queries": "queries of an image"}

    def __post_init__(self) -> None:
        check_sizes(self)


def vision(c: VisionConfig) -> Module:
    """A ViT whose positions are one plain tensor, with the names of `Blip2VisionModel`."""
    embed, side = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    assert c.n_patches is not None
    rows = Axis("patches", c.n_patches + 1)
    embeddings = (
        Param("class_embedding", (ONE, ONE, embed), component="embedding"),
        Param("position_embedding", (ONE, rows, embed), component="position"),
        convolution("patch_embedding", embed, Axis("channels", c.n_channels), side, side, places=EACH),
    )
    return Module("", (Module("embeddings", embeddings), blocks(c), *norms_named(c, c.post_norm, embed)))


def blip_2(c: Blip2Config) -> Module:
    """BLIP-2 (Li et al. 2023), with the names of `Blip2ForConditionalGeneration`.

    Source: transformers `modeling_blip_2.py`, `modeling_instructblip.py`.
    """
    width, embed = Axis("queries", c.d_qformer), Axis("embed", c.d_model)
    return Module(
        "",
        (
            Param("query_tokens", (ONE, Axis("query", c.n_queries), width), component="embedding"),
            c.vision.module("vision_model", layout=c.layout, stream="encoder"),
            c.qformer.module("qformer", layout=c.layout, stream="encoder"),
            linear("language_projection", embed, width, bias=True, component="other"),
            c.text.module("language_model", layout=c.layout),
        ),
    )


ARCHITECTURES = {
    "blip_2": Architecture(Blip2Config, blip_2),
    "blip_2_vision": Architecture(VisionConfig, vision),
}


def _blip_2(hf: HFConfig) -> Reading:
    text, vision = hf.nested("text_config"), hf.nested("vision_config")
    qformer = hf.nested("qformer_config").having(encoder_hidden_size=vision["hidden_size"])
    given = {
        "vision": bare(vision),
        "qformer": bare(qformer),
        "text": _text(hf, text),
        "d_model": text["hidden_size"],
        "d_qformer": qformer["hidden_size"],
        "n_queries": whole(hf, "num_query_tokens"),
    }
    return Reading("blip_2", given)


def _text(hf: HFConfig, text: HFConfig) -> Part:
    """The text has its own head, but for InstructBLIP's classes without one."""
    if hf.model_type != "blip-2" and hf.task == "base":
        return bare(text)
    causal = text.has_task("causal") and not text.get("is_encoder_decoder", False)
    return part_of(text.as_task("causal" if causal else "seq2seq"))


def _vision(hf: HFConfig) -> Reading:
    bias = "qkvo" if hf["qkv_bias"] else "o"
    sizes = vision_sizes(hf, n_patches=patches(hf), bias=bias, module_names=NAMES, n_channels=3)
    return Reading("blip_2_vision", sizes)


HF_READERS = {
    "blip-2": _blip_2,
    "blip_2_vision_model": _vision,
    "instructblip": _blip_2,
    "instructblip_vision_model": _vision,
    "instructblipvideo": _blip_2,
    "instructblipvideo_vision_model": _vision,
}
