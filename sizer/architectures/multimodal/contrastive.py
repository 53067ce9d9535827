"""CLIP and SigLIP: a tower over images and one over words, which agree on what belongs together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.encoders.bert import fields_of
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, TowerConfig, blocks
from sizer.architectures.vision.clip import ONE, vision_sizes
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, layer_norm, linear
from sizer.core.tree import ONCE, Axis, Module, Op, Param
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class ClipTextConfig(TowerConfig):
    """Sizes of a tower over words. `d_out`: width of SigLIP's head, where there is one."""

    vocab_size: Dim
    n_ctx: Dim
    d_out: Dim | None = None
    causal: bool = True

    letters = {**TowerConfig.letters, "d_out": "Do"}
    meanings = {**TowerConfig.meanings, "d_out": "width that the tower gives"}


@configuration
class ContrastiveConfig(Config):
    """The towers and what follows them.

    `d_projection`: width in which both towers meet, where matrices lead there, and biases if
    `projection_bias`. `scales`: the learned numbers that the similarities are scaled and shifted with,
    and their shape.
    """

    vision: Part | None = None
    text: Part | None = None
    d_vision: Dim | None = None
    d_text: Dim | None = None
    d_projection: Dim | None = None
    projection_bias: bool = False
    scales: tuple[str, ...] = ("logit_scale",)
    scalar: bool = True
    task: str = "base"

    letters = {
        "vision": "img",
        "text": "txt",
        "d_vision": "D_img",
        "d_text": "D_txt",
        "d_projection": "Dp",
    }
    meanings = {
        "d_vision": "width of the vision tower",
        "d_text": "width of the text tower",
        "d_projection": "width in which the towers meet",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def clip_text(c: ClipTextConfig) -> Module:
    """The tower over words, with the names of `CLIPTextModel`. Source: transformers `modeling_clip.py`."""
    embed, rows = Axis("embed", c.d_model), Axis("context", c.n_ctx)
    ids = (buffer("position_ids", ONE, rows, persistent=False),) if c.layout == "transformers" else ()
    tables = (
        embedding("token_embedding", Axis("vocab", c.vocab_size), embed),
        embedding("position_embedding", rows, embed, component="position"),
        *ids,
    )
    head: tuple[Module, ...] = ()
    if c.d_out is not None:
        head = (linear("head", Axis("out", c.d_out), embed, bias=True, component="head", places=ONCE),)
    return Module("", (Module("embeddings", tables), blocks(c), layer_norm("final_layer_norm", embed), *head))


def contrastive(c: ContrastiveConfig) -> Module:
    """CLIP (arXiv:2103.00020) and SigLIP (arXiv:2303.15343), with the names of `CLIPModel`."""
    parts: list[Module | Param] = []
    for part, name in ((c.text, "text_model"), (c.vision, "vision_model")):
        if part is not None:
            parts.append(part.module(name, layout=c.layout))
    labels = Axis("labels", c.n_labels)
    if c.task == "image_classification":
        vision = Axis("vision", c.d_vision)
        classifier = linear("classifier", labels, vision, bias=True, component="head", places=ONCE)
        return Module("", (*parts, classifier))
    for width, name in ((c.d_vision, "visual_projection"), (c.d_text, "text_projection")):
        if width is not None and c.d_projection is not None:
            meet, tower = Axis("projection", c.d_projection), Axis("tower", width)
            matrix = linear(name, meet, tower, bias=c.projection_bias, component="head", places=ONCE)
            parts.append(matrix)
    shape = () if c.scalar else (ONE,)
    scales = (Param(name, shape, component="head") for name in c.scales)
    contrast: Children = ()
    if c.text is not None and c.vision is not None:
        width = c.d_vision if c.d_projection is None else c.d_projection
        contrast = (Op("contrast", "contrast", {"width": width}, component="head"),)
    return Module("", (*parts, *scales, *contrast))


ARCHITECTURES = {
    "clip_text": Architecture(ClipTextConfig, clip_text),
    "contrastive": Architecture(ContrastiveConfig, contrastive),
}


def _text(hf: HFConfig, **given: Any) -> Reading:
    fields = {"vocab_size": hf["vocab_size"], "n_ctx": hf["max_position_embeddings"]}
    return Reading("clip_text", vision_sizes(hf, **fields, **given))


def _clip_text(hf: HFConfig) -> Reading:
    return projected_text(hf) if hf.cls.endswith("WithProjection") else _text(hf)


def projected_text(hf: HFConfig) -> Reading:
    """The text tower of a CLIP, and the matrix that leads to where both towers meet."""
    given = {"text": Part("clip_text", _text(hf).given), "d_text": hf["hidden_size"]}
    return Reading("contrastive", {**given, "d_projection": whole(hf, "projection_dim"), "scales": ()})


def _siglip_text(hf: HFConfig) -> Reading:
    return _text(hf, d_out=hf["projection_size"] or hf["hidden_size"], causal=False)


def _towers(hf: HFConfig, **given: Any) -> Reading:
    vision, text = hf.nested("vision_config"), hf.nested("text_config")
    task = "image_classification" if hf.cls.endswith("ForImageClassification") else "base"
    fields: dict[str, Any] = {
        "task": task,
        "n_labels": hf.n_labels,
        "vision": bare(vision),
        "d_vision": vision["hidden_size"],
    }
    if task == "base":
        fields |= {"text": bare(text), "d_text": text["hidden_size"]}
    return Reading("contrastive", {**fields, **given})


def _clip(hf: HFConfig) -> Reading:
    if not hf.cls.endswith(("Model", "ForImageClassification")):
        raise UnknownName("class", hf.cls, ("CLIPModel", "CLIPForImageClassification"), hint="of a clip")
    return _towers(hf, d_projection=whole(hf, "projection_dim"))


def _siglip(hf: HFConfig) -> Reading:
    """SigLIP and SigLIP 2: the towers share one space without matrices."""
    return _towers(hf, scales=("logit_scale", "logit_bias"), scalar=False)


def _chinese_clip(hf: HFConfig) -> Reading:
    """Chinese CLIP (arXiv:2211.01335): the words are read by a BERT."""
    return _towers(hf, d_projection=whole(hf, "projection_dim"))


def _chinese_text(hf: HFConfig) -> Reading:
    return Reading("bert", fields_of(hf, pooler=False))


HF_READERS = {
    "chinese_clip": _chinese_clip,
    "chinese_clip_text_model": _chinese_text,
    "clip": _clip,
    "clip_text_model": _clip_text,
    "clipseg": _clip,
    "clipseg_text_model": _clip_text,
    "groupvit_text_model": _clip_text,
    "metaclip_2": _clip,
    "metaclip_2_text_model": _clip_text,
    "owlv2": _clip,
    "owlv2_text_model": _clip_text,
    "owlvit": _clip,
    "owlvit_text_model": _clip_text,
    "siglip": _siglip,
    "siglip2": _siglip,
    "siglip2_text_model": _siglip_text,
    "siglip_text_model": _siglip_text,
    "xclip_text_model": _clip_text,
}
