"""ModernVBERT and UltraVBERT: a SigLIP tower whose patches stand among the tokens of a text encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import bare
from sizer.architectures.encoders import eurobert, modernbert
from sizer.architectures.encoders.eurobert import EuroBertConfig, ultrabert_fields
from sizer.architectures.encoders.modernbert import ModernBertConfig, modernbert_fields
from sizer.architectures.encoders.parts import label_head, with_heads
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear, rms_norm
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class VisionTextConfig(Config):
    """The tower, and its connector: `pixel_shuffle` patches a side become one token of the text."""

    vision: Part
    d_vision: Dim
    pixel_shuffle: Dim = 4

    letters = {"vision": "img", "d_vision": "D_img", "pixel_shuffle": "Ps"}
    meanings = {
        "d_vision": "width of the vision tower",
        "pixel_shuffle": "patches along a side that become one token",
    }


@configuration
class ModernVBertConfig(VisionTextConfig, ModernBertConfig):
    """Sizes and switches of a ModernVBERT."""

    letters = {**ModernBertConfig.letters, **VisionTextConfig.letters}
    meanings = {**ModernBertConfig.meanings, **VisionTextConfig.meanings}

    def __post_init__(self) -> None:
        ModernBertConfig.__post_init__(self)


@configuration
class UltraVBertConfig(VisionTextConfig, EuroBertConfig):
    """Sizes and switches of an UltraVBERT."""

    letters = {**EuroBertConfig.letters, **VisionTextConfig.letters}
    meanings = {**EuroBertConfig.meanings, **VisionTextConfig.meanings}

    def __post_init__(self) -> None:
        EuroBertConfig.__post_init__(self)


def modernvbert(c: ModernVBertConfig) -> Module:
    """ModernVBERT (arXiv:2510.01149), with the tensor names of transformers `modeling_modernvbert.py`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    text = Module("text_model", modernbert.encoder(c, embed, vocab))
    model = (siglip(c), connector(c, embed), text)
    if c.task == "masked":
        tied_to = "model.text_model.embeddings.tok_embeddings.weight" if c.tie_embeddings else None
        head = modernbert.prediction_head("projection_head", c, embed)
        lm_head = linear("lm_head", vocab, embed, bias=c.decoder_bias, tied_to=tied_to, component="head")
        return with_heads(c, "model", model, head, lm_head)
    return with_heads(c, "model", model, modernbert.prediction_head("head", c, embed), label_head(c, embed))


def ultravbert(c: UltraVBertConfig) -> Module:
    """UltraVBERT, with the tensor names of transformers `modeling_ultravbert.py`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    text = Module("text_model", eurobert.encoder(c, embed, vocab))
    model = (siglip(c), connector(c, embed, rms_norm("norm", embed)), text)
    if c.task != "masked":
        return with_heads(c, "model", model, label_head(c, embed))
    tied_to = "model.text_model.embed_tokens.weight" if c.tie_embeddings else None
    in_file = c.layout == "checkpoint"
    head, lm_head = ("head", "head.decoder") if in_file else ("projection_head", "lm_head")
    return with_heads(
        c,
        "model",
        model,
        eurobert.bottleneck(head, c, embed),
        linear(lm_head, vocab, embed, tied_to=tied_to, component="head"),
    )


def siglip(c: VisionTextConfig) -> Module:
    """The tower over the patches of an image."""
    return c.vision.module("vision_model", layout=c.layout, stream="vision")


def connector(c: VisionTextConfig, embed: Axis, *norms: Module) -> Module:
    """Neighbouring patches side by side, projected to the width of the text."""
    shuffled = Axis("shuffled", c.d_vision * c.pixel_shuffle * c.pixel_shuffle)
    return Module("connector", (linear("modality_projection", embed, shuffled), *norms), component="other")


ARCHITECTURES = {
    "modernvbert": Architecture(ModernVBertConfig, modernvbert),
    "ultravbert": Architecture(UltraVBertConfig, ultravbert),
}


def _vision_fields(hf: HFConfig, *, pooled: bool) -> dict[str, Any]:
    """The tower's fields, and those of the head on the whole; `pooled` is the default of its head."""
    vision = _nested(hf, "vision_config", "siglip_vision_model")
    tower = bare(vision)
    if not hf.given("vision_config") or hf["vision_config"] is None:
        tower = tower._replace(given={**tower.given, "pooling_head": pooled})
    return {
        "vision": tower,
        "d_vision": vision["hidden_size"],
        "pixel_shuffle": hf["pixel_shuffle_factor"],
        "tie_embeddings": hf["tie_word_embeddings"],
        "task": hf.task,
        "n_labels": hf.n_labels,
    }


def _nested(hf: HFConfig, key: str, expected: str) -> HFConfig:
    nested = hf.nested(key, expected)
    if nested.model_type != expected:
        raise InvalidConfig(f"{nested.name}: a {nested.model_type} is not known here, only {expected}")
    return nested


def _modernvbert(hf: HFConfig) -> Reading:
    text = _nested(hf, "text_config", "modernbert")
    given = modernbert_fields(text, ModernVBertConfig, **_vision_fields(hf, pooled=True))
    return Reading("modernvbert", given)


def _ultravbert(hf: HFConfig) -> Reading:
    text = _nested(hf, "text_config", "ultrabert")
    given = ultrabert_fields(text, UltraVBertConfig, **_vision_fields(hf, pooled=False))
    return Reading("ultravbert", given)


HF_READERS = {"modernvbert": _modernvbert, "ultravbert": _ultravbert}
