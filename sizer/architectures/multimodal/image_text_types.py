"""The model types of language models that see with one tower, read from their configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import PartNames, bare, reading, text_of
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Reading
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

COSMOS = PartNames(vision="visual", bridge="projector")
DEEPSEEK = PartNames(vision="vision_model", bridge="aligner")
HYPERCLOVAX = PartNames(vision="vision_model", bridge="projector")
IDEFICS = PartNames(text="text_model", vision="vision_model", bridge="connector")
LIGHTON = PartNames(vision="vision_encoder", bridge="vision_projection")
PADDLE = PartNames(vision="visual.vision_model", bridge="projector")
VIDEO_LLAMA = PartNames(vision="vision_model", bridge="projector")
VIDEO_LLAVA = PartNames(vision="image_tower")


QIANFAN = (
    (r"^lm_head\.", "language_model.lm_head."),
    (r"^model\.language_model\.", "language_model.model."),
    (r"^model\.multi_modal_projector\.layer_norm\.", "mlp1.0."),
    (r"^model\.multi_modal_projector\.linear_1\.", "mlp1.1."),
    (r"^model\.multi_modal_projector\.linear_2\.", "mlp1.3."),
    (r"\.embeddings\.patch_embeddings\.projection\.", ".embeddings.patch_embedding."),
    (r"\.embeddings\.position_embeddings", ".embeddings.position_embedding"),
    (r"\.embeddings\.cls_token", ".embeddings.class_embedding"),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"\.attention\.qkv\.", ".attn.qkv."),
    (r"\.attention\.projection_layer\.", ".attn.proj."),
    (r"\.lambda_(1|2)", r".ls\1"),
    (r"layers\.", "encoder.layers."),
    (r"^model\.vision_tower\.", "vision_model."),
)
# Attention as Diffusers names it, and a text without a name of its own.
DIFFUSERS = (
    (r"\.self_attn\.(q|k|v)_proj\.", r".self_attn.to_\1."),
    (r"\.self_attn\.o_proj\.", ".self_attn.to_out."),
    (r"\.self_attn\.(q|k)_norm\.", r".self_attn.norm_\1."),
)
# Mistral's own names, of the text's in `moe/mistral_large4.py` too; a model without head keeps its parts'.
MISTRAL = (
    (r"\.attention\.(q|k|v)_proj\.", r".attention.w\1."),
    (r"\.attention\.o_proj\.", ".attention.wo."),
    (r"\.(feed_forward|shared_experts)\.gate_proj\.", r".\1.w1."),
    (r"\.(feed_forward|shared_experts)\.down_proj\.", r".\1.w2."),
    (r"\.(feed_forward|shared_experts)\.up_proj\.", r".\1.w3."),
    (r"^model\.vision_tower\.", "vision_encoder."),
    (r"^model\.language_model\.embed_tokens\.", "tok_embeddings."),
    (r"^model\.language_model\.rotary_emb\.", "lerope."),
    (r"^model\.language_model\.", ""),
    (r"^model\.multi_modal_projector\.norm\.", "pre_mm_projector_norm."),
    (r"^model\.multi_modal_projector\.linear_1\.", "vision_language_adapter.w_in."),
    (r"^model\.multi_modal_projector\.linear_2\.", "vision_language_adapter.w_out."),
    (r"^model\.multi_modal_projector\.", ""),
    (r"^lm_head\.", "output."),
)
TEXT_BARE = (r"^model\.language_model\.", "")


def _read(hf: HFConfig, architecture: str = "llava", **given: Any) -> Reading:
    vision = hf.nested("vision_config")
    fields = {"vision": vision, "d_vision": vision["hidden_size"], "files": "whole_text"}
    return reading(hf, architecture, **{**fields, **given})


def _gemma3(hf: HFConfig) -> Reading:
    return _read(hf, "gemma3")


def _shieldgemma2(hf: HFConfig) -> Reading:
    whole_model = hf.cls.endswith("ForImageClassification")
    return _read(hf, "shieldgemma2" if whole_model else "gemma3", files="nested_text")


def feature_layers(hf: HFConfig) -> int:
    """Blocks of the tower whose outputs the text reads side by side."""
    layers = hf["vision_feature_layer"]
    return len(layers) if isinstance(layers, list | tuple) else 1


def _llava(hf: HFConfig, architecture: str = "llava", **given: Any) -> Reading:
    fields: dict[str, Any] = {
        "merge": feature_layers(hf),
        "bridge_bias": bool(hf["multimodal_projector_bias"]),
        "act": hf["projector_hidden_act"],
    }
    return _read(hf, architecture, **{**fields, **given})


def _llava_next(hf: HFConfig) -> Reading:
    if hf.model_type == "llava_next_video" and hf["spatial_pool_mode"] == "conv":
        raise InvalidConfig(f"spatial_pool_mode = {clip(repr('conv'))} is not described; use average or max")
    return _llava(hf, "llava_next")


def _video_llava(hf: HFConfig) -> Reading:
    return _llava(hf, "video_llava", places=VIDEO_LLAVA)


def _vipllava(hf: HFConfig) -> Reading:
    return _read(
        hf, merge=feature_layers(hf), norm_before="projector_layernorm", act=hf["projector_hidden_act"]
    )


def _mistral3(hf: HFConfig) -> Reading:
    return _llava(hf, "mistral3", n_square=whole(hf, "spatial_merge_size") ** 2)


def _mistral_large4(hf: HFConfig) -> Reading:
    n_square = whole(hf, "spatial_merge_size") ** 2
    return _llava(hf, "mistral3", n_square=n_square, files="", stored=MISTRAL)


def _internvl(hf: HFConfig, **given: Any) -> Reading:
    return _read(
        hf,
        **given,
        merge=int(1 / hf["downsample_ratio"]) ** 2,
        norm_before="layer_norm",
        act=hf["projector_hidden_act"],
    )


def _qianfan(hf: HFConfig) -> Reading:
    """InternVL, in whose files each block computes queries, keys and values at once."""
    tower = bare(hf.nested("vision_config"))
    fused = tower.given["module_names"]._replace(qkv=("qkv",))
    tower = tower._replace(given={**tower.given, "file_names": fused})
    return _internvl(hf, vision=tower, files="", stored=QIANFAN)


def _aya_vision(hf: HFConfig) -> Reading:
    text = hf.nested("text_config")
    width = hf.get("alignment_intermediate_size") or text["hidden_size"]
    return _read(
        hf,
        merge=whole(hf, "downsample_factor") ** 2,
        d_bridge=width // 2,
        norm_before="layernorm",
        gated=True,
        act="silu",
    )


def _cohere2_vision(hf: HFConfig) -> Reading:
    return _read(
        hf,
        merge=whole(hf, "downsample_factor") ** 2,
        d_bridge=whole(hf, "alignment_intermediate_size") // 2,
        gated=True,
        act="silu",
        files="",
    )


def _lighton_ocr(hf: HFConfig) -> Reading:
    return _read(
        hf,
        "mistral3",
        n_square=whole(hf, "spatial_merge_size") ** 2,
        bridge_bias=False,
        places=LIGHTON,
        files="",
    )


def _idefics3(hf: HFConfig) -> Reading:
    """Idefics3 and SmolVLM: one matrix over squares of patches."""
    return _read(
        hf,
        merge=whole(hf, "scale_factor") ** 2,
        layers=("modality_projection.proj",),
        bridge_bias=False,
        places=IDEFICS,
        files="",
    )


def _lfm2_vl(hf: HFConfig) -> Reading:
    return _read(
        hf,
        merge=whole(hf, "downsample_factor") ** 2,
        d_bridge=hf["projector_hidden_size"],
        bridge_bias=bool(hf["projector_bias"]),
        norm_before="layer_norm" if hf["projector_use_layernorm"] else "",
        act=hf["projector_hidden_act"],
        files="",
    )


def _deepseek_vl(hf: HFConfig) -> Reading:
    return _read(hf, layers=("linear1", "linear2"), places=DEEPSEEK, files="")


def _paligemma(hf: HFConfig) -> Reading:
    text, width = hf.nested("text_config"), hf.get("projection_dim")
    narrower = width if width is not None and width != text["hidden_size"] else None
    return _read(hf, layers=("linear",), d_out=narrower)


def _fuyu(hf: HFConfig) -> Reading:
    text = text_of(hf, "persimmon")
    pixels = whole(hf, "patch_size") ** 2 * whole(hf, "num_channels")
    return reading(hf, "fuyu", text=text, d_vision=pixels, files="whole_text")


def _hyperclovax(hf: HFConfig) -> Reading:
    width = hf.nested("vision_config")["out_hidden_size"]
    return _read(hf, "hyperclovax_vision", d_joined=width, places=HYPERCLOVAX, files="")


def _paddleocr(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    square = whole(vision, "spatial_merge_size") ** 2
    joined = square * whole(vision, "hidden_size")
    return _read(hf, "paddleocr", merge=square, d_bridge=joined, places=PADDLE, files="plain_text")


def _video_llama(hf: HFConfig) -> Reading:
    return _read(hf, layers=("readout.0", "readout.2"), places=VIDEO_LLAMA, files="")


def _lfm3_vl(hf: HFConfig) -> Reading:
    """The norm stands before four patches are joined to one."""
    vision = hf.nested("vision_config")
    return _read(
        hf,
        "joined_after_norm",
        merge=whole(vision, "spatial_merge_size") ** 2,
        d_bridge=hf["projector_hidden_size"],
        norm_before="layer_norm",
        bridge_bias=bool(hf["projector_bias"]),
        act=hf["projector_hidden_act"],
        files="",
    )


def _cosmos3_edge(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    return _read(
        hf,
        "joined_after_norm",
        merge=whole(vision, "spatial_merge_size") ** 2,
        d_bridge=hf["projector_hidden_size"],
        norm_before="norm",
        layers=("linear_fc1", "linear_fc2"),
        # The class declares no tie, whatever a file says.
        tie_embeddings=False,
        places=COSMOS,
        stored=(
            *DIFFUSERS,
            (r"\.mlp\.fc1\.", ".mlp.up_proj."),
            (r"\.mlp\.fc2\.", ".mlp.down_proj."),
            TEXT_BARE,
        ),
        files="",
    )


HF_READERS = {
    "aya_vision": _aya_vision,
    "cohere2_vision": _cohere2_vision,
    "cosmos3_edge": _cosmos3_edge,
    "deepseek_vl": _deepseek_vl,
    "fuyu": _fuyu,
    "gemma3": _gemma3,
    "hyperclovax_vision_v2": _hyperclovax,
    "idefics3": _idefics3,
    "internvl": _internvl,
    "lfm2_vl": _lfm2_vl,
    "lfm3_vl": _lfm3_vl,
    "lighton_ocr": _lighton_ocr,
    "llava": _llava,
    "llava_next": _llava_next,
    "llava_next_video": _llava_next,
    "llava_onevision": _llava_next,
    "mistral3": _mistral3,
    "mistral_large4": _mistral_large4,
    "paddleocr_vl": _paddleocr,
    "paligemma": _paligemma,
    "qianfan_ocr": _qianfan,
    "shieldgemma2": _shieldgemma2,
    "smolvlm": _idefics3,
    "video_llama_3": _video_llama,
    "video_llava": _video_llava,
    "vipllava": _vipllava,
}
