"""Molmo 2: a tower whose patches an attention pools, and a Qwen3- or OLMo-like text with more tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, bare, multimodal, reading
from sizer.architectures.decoders.decoder import DecoderConfig, decoder
from sizer.architectures.decoders.decoder_names import LLAMA
from sizer.architectures.decoders.reading import dense, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerConfig, TowerNames, blocks
from sizer.architectures.vision.clip import side, vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, gate_op, linear
from sizer.core.tree import Axis, Module, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = LLAMA._replace(rotary=("rotary_emb", "rotary_emb_unscaled"))
STORED = LLAMA._replace(qkv=("att_proj",), output="attn_out", mlp=("ff_proj", "ff_out"), rotary=())
VISION = TowerNames(block="layers", output="o_proj")
STORED_NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ff_norm", "": ""}
FILES = (
    (r"language_model\.layers\.", "transformer.blocks."),
    (r"language_model\.norm\.", "transformer.ln_f."),
    (r"language_model\.", "transformer."),
    (r"vision_tower\.layers\.", "vision_backbone.image_vit.transformer.resblocks."),
    (r"vision_tower\.", "vision_backbone.image_vit."),
    (r"multi_modal_projector\.", "vision_backbone."),
    (r"resblocks\.\{\}\.self_attn\.(q|k|v|o)_proj\.", r"resblocks.{}.attention.w\1."),
    (r"resblocks\.\{\}\.mlp\.fc(1|2)\.", r"resblocks.{}.feed_forward.w\1."),
    (r"\.layer_norm1\.", ".attention_norm."),
    (r"\.layer_norm2\.", ".ffn_norm."),
    (r"\.image_pooling_2d\.(q|k|v|o)_proj\.", r".image_pooling_2d.w\1."),
    (r"\.image_projector\.gate_proj\.", ".image_projector.w1."),
    (r"\.image_projector\.down_proj\.", ".image_projector.w2."),
    (r"\.image_projector\.up_proj\.", ".image_projector.w3."),
)


@configuration
class Molmo2TextConfig(DecoderConfig):
    """Sizes of the text. `n_new_tokens`: tokens beyond the vocabulary, with a table of their own in files."""

    n_new_tokens: Dim | None = None

    letters = {**DecoderConfig.letters, "n_new_tokens": "Vn"}
    meanings = {**DecoderConfig.meanings, "n_new_tokens": "tokens beyond the vocabulary"}


@configuration
class Molmo2VisionConfig(TowerConfig):
    """Sizes of the tower."""

    patch_size: Dim
    n_patches: Dim
    n_channels: Dim = 3

    letters = {**TowerConfig.letters, "n_patches": "Np", "patch_size": "p", "n_channels": "Nc"}
    meanings = {
        **TowerConfig.meanings,
        "n_patches": "patches of an image",
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
    }


@configuration
class Molmo2Config(MultimodalConfig):
    """The parts, and the sizes of the attention that pools the outputs of `merge` layers of the tower.

    `d_out`: width that the text is given.
    """

    n_heads: Dim
    n_kv_heads: Dim
    d_head: Dim
    d_out: Dim
    pooling_bias: bool = True
    act: str = "silu"

    letters = {
        **MultimodalConfig.letters,
        "n_heads": "H_pl",
        "n_kv_heads": "K_pl",
        "d_head": "Dh_pl",
        "d_out": "D_out",
    }
    meanings = {
        **MultimodalConfig.meanings,
        "merge": "layers of the tower whose outputs are read side by side",
        "d_out": "width that the text is given",
    }


def molmo2_text(c: Molmo2TextConfig) -> Module:
    """The text of Molmo 2, with the names of `Molmo2TextModel`.

    Source: transformers `modeling_molmo2.py`.
    """
    embed, rows = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    new = None if c.n_new_tokens is None else Axis("vocab", c.n_new_tokens)
    table = embedding("embed_tokens", rows if new is None else rows + new, embed)
    if c.layout == "checkpoint":
        before_attn, after_attn, before_mlp, after_mlp = (STORED_NORMS[name] for name in c.norms)
        c = replace(c, module_names=STORED, norms=(before_attn, after_attn, before_mlp, after_mlp))
        more = () if new is None else (Param("new_embedding", (new, embed), "lookup"),)
        table = table._replace(name="wte", children=(Param("embedding", (rows, embed), "lookup"), *more))
    _, *others = decoder(c).children
    return Module("", (table, *others))


def molmo2_vision(c: Molmo2VisionConfig) -> Module:
    """The tower, with the names of `Molmo2VisionModel`."""
    embed, pixels = Axis("embed", c.d_model), Axis("pixels", c.n_channels * c.patch_size * c.patch_size)
    positions = Param("positional_embedding", (Axis("patches", c.n_patches), embed), component="position")
    patch = linear("patch_embedding", embed, pixels, bias=True, component="embedding")
    return Module("", (positions, patch, blocks(c)))


def molmo2(c: Molmo2Config) -> Module:
    """Molmo 2 (Allen AI 2025), with the names of `Molmo2ForConditionalGeneration`.

    Source: transformers `modeling_molmo2.py`.
    """
    vision, hidden = Axis("vision", c.d_vision), Axis("bridge", c.d_bridge)
    projector = Module(
        "image_projector",
        (
            linear("gate_proj", hidden, vision, bias=c.bridge_bias),
            linear("up_proj", hidden, vision, bias=c.bridge_bias),
            gate_op(c.act, hidden.size),
            linear("down_proj", Axis("embed", c.d_out), hidden),
        ),
    )
    adapter = (_pooling(c, vision), projector)
    return multimodal(c, Module(c.places.bridge, adapter, component="other", stream="encoder"))


def _pooling(c: Molmo2Config, vision: Axis) -> Module:
    joined = Axis("vision", c.merge * vision.size)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    return Module(
        "image_pooling_2d",
        (
            linear("q_proj", heads, joined, bias=c.pooling_bias),
            linear("k_proj", kv_heads, joined, bias=c.pooling_bias),
            linear("v_proj", kv_heads, joined, bias=c.pooling_bias),
            *attention_core(c.n_heads, c.n_kv_heads, c.d_head, cached=False),
            linear("o_proj", vision, heads, bias=c.pooling_bias),
        ),
        component="attention",
    )


ARCHITECTURES = {
    "molmo2": Architecture(Molmo2Config, molmo2),
    "molmo2_text": Architecture(Molmo2TextConfig, molmo2_text),
    "molmo2_vision": Architecture(Molmo2VisionConfig, molmo2_vision),
}


def _text(hf: HFConfig) -> Reading:
    first, second = "input_layernorm", "post_attention_layernorm"
    return dense(
        hf,
        "molmo2_text",
        Molmo2TextConfig,
        task="base",
        n_new_tokens=hf["additional_vocab_size"] or None,
        qkv_bias=bool(hf["attention_bias"]),
        qk_norm="head" if hf["qk_norm_type"] == "qwen3" else "full",
        norms=("", first, "", second) if hf["norm_after"] else (first, "", second, ""),
        module_names=NAMES,
    )


def _vision(hf: HFConfig) -> Reading:
    """The first files say the sizes of an image under keys of their own."""
    patch = whole(hf, "image_patch_size" if hf.given("image_patch_size") else "patch_size")
    early = "image_default_input_size"
    height, width = side(hf, early if hf.given(early) else "image_size") if _has_size(hf) else (378, 378)
    rows = hf.get("image_num_pos") or hf["num_position_embeddings"]
    given = vision_sizes(
        hf,
        patch_size=patch,
        n_patches=rows or (height // patch) * (width // patch),
        n_kv_heads=hf["num_key_value_heads"],
        d_head=hf["head_dim"],
        bias="qkvo" if hf["attention_bias"] else "",
        module_names=VISION,
    )
    return Reading("molmo2_vision", given)


def _has_size(hf: HFConfig) -> bool:
    return hf.given("image_default_input_size") or hf["image_size"] is not None


def _molmo2(hf: HFConfig) -> Reading:
    """In the first files the tower is `vit_config`, with layers behind the last that is read."""
    early = hf.given("vit_config") and not hf.given("vision_config")
    vision = hf.nested("vit_config", "molmo2_vision") if early else hf.nested("vision_config")
    adapter = hf.nested("adapter_config")
    layers = adapter.get("vit_layers") or adapter["vision_feature_layer"] or [24, 18]
    tower = bare(vision)
    if early:
        n_layers = whole(vision, "num_hidden_layers")
        tower = tower._replace(given={**tower.given, "n_layers": max(i % n_layers for i in layers) + 1})
    return reading(
        hf,
        "molmo2",
        vision=tower,
        d_vision=adapter["hidden_size"],
        merge=len(layers),
        n_heads=adapter["num_attention_heads"],
        n_kv_heads=adapter["num_key_value_heads"],
        d_head=adapter["head_dim"],
        d_bridge=adapter["intermediate_size"],
        d_out=adapter["text_hidden_size"],
        pooling_bias=bool(adapter["attention_bias"]),
        bridge_bias=bool(adapter["mlp_bias"]),
        act=adapter["hidden_act"],
        # The class declares no tie: the table of the words has more rows than the head.
        tie_embeddings=False,
        stored=FILES,
    )


HF_READERS = {"molmo2": _molmo2, "molmo2_text": _text, "molmo2_vision": _vision}
