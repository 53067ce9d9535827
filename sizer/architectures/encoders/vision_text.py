"""ModernVBERT and UltraVBERT: a SigLIP tower whose patches stand among the tokens of a text encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sizer.architectures.encoders import eurobert, modernbert
from sizer.architectures.encoders.eurobert import EuroBertConfig, ultrabert_fields
from sizer.architectures.encoders.modernbert import ModernBertConfig, modernbert_fields
from sizer.architectures.encoders.parts import ONE, Children, label_head, split_attention, with_heads
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import buffer, embedding, layer_norm, linear, mlp, rms_norm
from sizer.core.tree import Axis, Module, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class VisionConfig(Config):
    """Sizes of a SigLIP tower and of its connector.

    `pixel_shuffle`: that many patches a side become one token of the text.
    `vision_head`: the tower's own pooling of an image, which the text does not use.
    """

    d_vision: Dim
    n_vision_layers: Dim
    n_vision_heads: Dim
    d_vision_ff: Dim
    n_patches: Dim
    patch_size: Dim
    n_channels: Dim = 3
    pixel_shuffle: Dim = 4
    d_vision_head: Dim | None = None
    vision_head: bool = True

    letters = {
        "d_vision": "Dv",
        "n_vision_layers": "Lv",
        "n_vision_heads": "Hv",
        "d_vision_ff": "Fv",
        "n_patches": "Np",
        "patch_size": "P",
        "n_channels": "Ch",
        "pixel_shuffle": "Ps",
    }
    meanings = {
        "d_vision": "width of the vision tower",
        "n_vision_layers": "blocks of the vision tower",
        "n_vision_heads": "heads of the vision tower",
        "d_vision_ff": "hidden width of its MLP",
        "n_patches": "patches of an image",
        "patch_size": "pixels along a patch",
        "n_channels": "channels of an image",
        "pixel_shuffle": "patches along a side that become one token",
    }

    def derive_vision(self) -> None:
        """The width of a head of the tower."""
        if self.d_vision_head is None:
            self.derive(
                d_vision_head=divide(self.d_vision, self.n_vision_heads, names="d_vision / n_vision_heads")
            )


@configuration
class ModernVBertConfig(VisionConfig, ModernBertConfig):
    """Sizes and switches of a ModernVBERT."""

    letters = {**ModernBertConfig.letters, **VisionConfig.letters}
    meanings = {**ModernBertConfig.meanings, **VisionConfig.meanings}

    def __post_init__(self) -> None:
        ModernBertConfig.__post_init__(self)
        self.derive_vision()


@configuration
class UltraVBertConfig(VisionConfig, EuroBertConfig):
    """Sizes and switches of an UltraVBERT."""

    letters = {**EuroBertConfig.letters, **VisionConfig.letters}
    meanings = {**EuroBertConfig.meanings, **VisionConfig.meanings}

    def __post_init__(self) -> None:
        EuroBertConfig.__post_init__(self)
        self.derive_vision()


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


def siglip(c: VisionConfig) -> Module:
    """SigLIP's vision tower (arXiv:2303.15343): a pre-norm encoder over patches."""
    vision, patches = Axis("vision", c.d_vision), Axis("patches", c.n_patches)
    side, channels = Axis("patch", c.patch_size), Axis("channels", c.n_channels)
    convolution = (
        Param("weight", (vision, channels, side, side), "matmul"),
        Param("bias", (vision,)),
    )
    ids = (buffer("position_ids", ONE, patches, persistent=False),) if c.layout == "transformers" else ()
    embeddings: Children = (
        Module("patch_embedding", convolution, component="embedding", kind="conv"),
        embedding("position_embedding", patches, vision, component="position"),
        *ids,
    )
    block = Module("encoder.layers", _vision_block(c, vision), repeat=c.n_vision_layers)
    pooling = (_attention_pooling(c, vision),) if c.vision_head else ()
    return Module(
        "vision_model",
        (Module("embeddings", embeddings), block, layer_norm("post_layernorm", vision), *pooling),
        stream="vision",
    )


def _vision_block(c: VisionConfig, vision: Axis) -> Children:
    heads = heads_axis("heads", c.n_vision_heads, c.d_vision_head)
    sizes = _Heads(c.n_vision_heads, c.d_vision_head)
    qkvo = split_attention(sizes, heads, vision, ("q_proj", "k_proj", "v_proj", "out_proj"))
    return (
        layer_norm("layer_norm1", vision),
        Module("self_attn", qkvo, component="attention"),
        layer_norm("layer_norm2", vision),
        mlp("mlp", Axis("ffn", c.d_vision_ff), vision, names=("fc1", "fc2")),
    )


@dataclass(frozen=True)
class _Heads:
    """The sizes an attention core asks a configuration for."""

    n_heads: Dim
    d_head: Dim


def _attention_pooling(c: VisionConfig, vision: Axis) -> Module:
    """One learned query over all patches, which makes a vector of an image."""
    attention = (
        Param("in_proj_weight", (3 * vision, vision), "matmul"),
        Param("in_proj_bias", (3 * vision,)),
        linear("out_proj", vision, vision, bias=True),
    )
    return Module(
        "head",
        (
            Param("probe", (ONE, ONE, vision)),
            Module("attention", attention),
            layer_norm("layernorm", vision),
            mlp("mlp", Axis("ffn", c.d_vision_ff), vision, names=("fc1", "fc2"), component="head"),
        ),
        component="head",
    )


def connector(c: VisionConfig, embed: Axis, *norms: Module) -> Module:
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
    whole = hf.given("vision_config") and hf["vision_config"] is not None
    return {
        "d_vision": vision["hidden_size"],
        "n_vision_layers": vision["num_hidden_layers"],
        "n_vision_heads": vision["num_attention_heads"],
        "d_vision_ff": vision["intermediate_size"],
        "n_patches": (vision["image_size"] // vision["patch_size"]) ** 2,
        "patch_size": vision["patch_size"],
        "n_channels": vision["num_channels"],
        "vision_head": vision["vision_use_head"] if whole else pooled,
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
