"""ERNIE 4.5 VL: each layer has experts for words and smaller ones for patches, and some for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, PartNames, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.moe.moe_decoder import MoEConfig, moe_decoder, shared_experts
from sizer.architectures.moe.reading import moe_reading, sparse_layers
from sizer.architectures.multimodal.pixtral import PixtralConfig
from sizer.architectures.multimodal.qwen_vision import QWEN2
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import blocks, norm, rotary
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear, rms_norm, routed_experts
from sizer.core.tree import Axis, Layers, Module, Op, Param
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

FILES = (
    (r"^(model\.)?language_model\.", r"\1"),
    (r"^(model\.)?vision_tower\.", r"\1vision_model."),
    (r"\.(spatial|temporal)_linear\.fc1\.", r".\1_linear.0."),
    (r"\.(spatial|temporal)_linear\.fc2\.", r".\1_linear.2."),
    (r"\.(spatial|temporal)_linear\.ln\.", r".\1_linear.3."),
)
PLACES = PartNames(bridge="resampler_model")


@configuration
class ErnieTextConfig(MoEConfig):
    """Sizes of the text. `d_ff_image_expert`: hidden width of the experts of patches, as many as of words."""

    d_ff_image_expert: Dim

    letters = {**MoEConfig.letters, "d_ff_image_expert": "Fie"}
    meanings = {**MoEConfig.meanings, "d_ff_image_expert": "hidden width of an expert of patches"}


@configuration
class ErnieVisionConfig(PixtralConfig):
    """Sizes of the tower."""


def ernie_vl_text(c: ErnieTextConfig) -> Module:
    """The text of ERNIE 4.5 VL, with the names of `Ernie4_5_VLMoeTextModel`.

    Source: transformers `modeling_ernie4_5_vl_moe.py`. Active is what a word visits.
    """
    embed = Axis("embed", c.d_model)
    inner = _stored_experts(c, embed) if c.layout == "checkpoint" else _experts_in_memory(c, embed)
    return moe_decoder(c, experts=Module("", (*inner, *shared_experts(c, embed))))


def _experts_in_memory(c: ErnieTextConfig, embed: Axis) -> tuple[Module, ...]:
    experts = Axis("expert", c.n_experts)
    kinds = (("text_moe", c.top_k, c.d_ff_expert), ("vision_moe", 0, c.d_ff_image_expert))
    bias = Module("moe_statics", (_bias(Axis("one", 1), experts),))
    return tuple(
        Module(
            f"mlp.{name}",
            (
                Module("gate", (_scores("weight", (experts, embed), top_k is c.top_k), bias)),
                routed_experts(
                    "experts", experts, top_k, Axis("expert_ffn", width), embed, layout=c.layout, act=c.act
                ),
            ),
        )
        for name, top_k, width in kinds
    )


def _stored_experts(c: ErnieTextConfig, embed: Axis) -> tuple[Module, ...]:
    """The experts of patches stand behind those of words, and the matrices of the routers transposed."""
    experts, n = Axis("expert", c.n_experts), c.n_experts
    second = Layers(n, range(n, 2 * n) if isinstance(n, int) else None)
    words, patches = (
        routed_experts(
            "experts", experts, top_k, Axis("expert_ffn", width), embed, layout=c.layout, act=c.act
        )
        for top_k, width in ((c.top_k, c.d_ff_expert), (0, c.d_ff_image_expert))
    )
    gates = (_scores("weight", (embed, experts), True), _scores("weight_1", (embed, experts), False))
    parts = (
        Module("gate", gates),
        Module("moe_statics", (_bias(Axis("kinds", 2), experts),)),
        words,
        patches._replace(repeat=second),
    )
    return (Module("mlp", parts),)


def _scores(name: str, axes: tuple[Axis, ...], of_words: bool) -> Param:
    """The matrix of a router, which the other kind of token does not visit."""
    if of_words:
        return Param(name, axes, "matmul", component="router")
    return Param(name, axes, "idle", active=0, component="router")


def _bias(kinds: Axis, experts: Axis) -> Param:
    return Param("e_score_correction_bias", (kinds, experts), trainable=False, component="router")


def ernie_vision(c: ErnieVisionConfig) -> Module:
    """The tower, with the names of `Ernie4_5_VLMoeVisionTransformerPretrainedModel`."""
    embed, pixels = Axis("embed", c.d_model), Axis("pixels", c.n_channels * c.patch_size * c.patch_size)
    patches = linear("patch_embed.proj", embed, pixels, component="embedding")
    return Module("", (patches, *rotary(c), blocks(c), norm(c, "ln", embed)))


def ernie_vl(c: MultimodalConfig) -> Module:
    """ERNIE 4.5 VL (Baidu 2025), with the names of `Ernie4_5_VLMoeForConditionalGeneration`.

    Source: transformers `modeling_ernie4_5_vl_moe.py`.
    """
    embed, joined = Axis("embed", c.d_model), Axis("square", c.d_joined)
    frames = Axis("frames", c.merge * c.d_joined)
    resampler = (
        _merger("spatial_linear", joined, joined),
        _merger("temporal_linear", joined, frames),
        linear("mlp", embed, joined, bias=True),
        rms_norm("after_norm", embed),
    )
    return multimodal(c, Module(c.places.bridge, resampler, component="other", stream="encoder"))


def _merger(name: str, out: Axis, inp: Axis) -> Module:
    return Module(
        name,
        (
            linear("fc1", out, inp, bias=True),
            Op("act", "gelu", {"width": out.size}),
            linear("fc2", out, out, bias=True),
            layer_norm("ln", out),
        ),
    )


ARCHITECTURES = {
    "ernie_vision": Architecture(ErnieVisionConfig, ernie_vision),
    "ernie_vl": Architecture(MultimodalConfig, ernie_vl),
    "ernie_vl_text": Architecture(ErnieTextConfig, ernie_vl_text),
}


def _text(hf: HFConfig) -> Reading:
    widths = hf["moe_intermediate_size"] or [1536, 512]
    if not isinstance(widths, list | tuple) or len(widths) != 2:
        raise InvalidConfig(f"{hf.name}: moe_intermediate_size must be two widths, for words and for patches")
    bias = bool(hf["use_bias"])
    return moe_reading(
        hf,
        "ernie_vl_text",
        ErnieTextConfig,
        naming="ernie",
        mlp_layers=sparse_layers(hf, lambda i: i > 0),
        n_shared_experts=hf["moe_num_shared_experts"] or None,
        d_ff_expert=widths[0],
        d_ff_image_expert=widths[1],
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=bias,
    )


def _vision(hf: HFConfig) -> Reading:
    """An axis of the image rotates half of each head."""
    half = whole(hf, "hidden_size") // whole(hf, "num_heads") // 2
    given = {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": hf["depth"],
        "n_heads": hf["num_heads"],
        "d_ff": hf["intermediate_size"],
        "d_rotary": half + half % 2,
        "act": hf["hidden_act"],
        "patch_size": hf["patch_size"],
        "n_channels": hf["in_channels"],
        "module_names": QWEN2,
    }
    return Reading("ernie_vision", given)


def _ernie_vl(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    return reading(
        hf,
        "ernie_vl",
        vision=vision,
        d_joined=whole(vision, "hidden_size") * whole(vision, "spatial_merge_size") ** 2,
        merge=vision["temporal_merge_size"],
        places=PLACES,
        stored=FILES,
    )


HF_READERS = {
    "ernie4_5_vl_moe": _ernie_vl,
    "ernie4_5_vl_moe_text": _text,
    "ernie4_5_vl_moe_vision": _vision,
}
