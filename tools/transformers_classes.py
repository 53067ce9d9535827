"""Write transformers-tasks.jsonl.gz: classes that no other fixture has, as transformers builds them.

    python tools/transformers_classes.py

Every class that a reader accepts and transformers has, from its type's own defaults, `VARIANTS`: those
with a switch that no published configuration of a fixture turns, and `WRITTEN`. Each is built on the meta
device.
"""

from __future__ import annotations

import gzip
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from digests import digest_buffers, digest_shapes, digest_ties  # noqa: E402
from transformers_fixture import NOISE, pruned  # noqa: E402

from sizer.architectures.registry import HF_MODULES  # noqa: E402
from sizer.sources.hf_config import record_of  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures"
OUT = FIXTURES / "transformers-tasks.jsonl.gz"
RESNET = {"backbone_config": {"model_type": "resnet", "out_features": ["stage4"]}, "use_timm_backbone": False}
QWEN4 = {
    "num_hidden_layers": 4,
    "num_experts": 16,
    "ple_layer_ids": [1, 3],
    "ngram_vocab_size_base": 1000,
    "split_ngram_parts": 8,
    "layer_types": ["linear_attention", "full_attention"] * 2,
    "eos_token_id": 1,
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 64,
    "indexer_compress_ratio": 4,
}
GEMMA4_DRAFT = {
    "num_centroids": 64,
    "use_ordered_embeddings": True,
    "text_config": {
        "model_type": "gemma4_text",
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": 0,
        "num_kv_shared_layers": 30,
    },
}
HALF_ROTARY = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    "full_attention": {
        "rope_type": "linear",
        "factor": 2.0,
        "partial_rotary_factor": 0.5,
        "rope_theta": 1e6,
    },
}
VARIANTS: list[tuple[str, str, dict[str, Any]]] = [
    ("blt", "BltForCausalLM", {"tie_word_embeddings": True}),
    ("convbert", "ConvBertModel", {"num_groups": 2}),
    ("deberta", "DebertaForMaskedLM", {"legacy": False}),
    ("deberta", "DebertaModel", {"embedding_size": 96}),
    ("deberta", "DebertaModel", {"talking_head": True, "relative_attention": True}),
    ("deberta-v2", "DebertaV2ForMaskedLM", {"legacy": False}),
    ("detr", "DetrModel", {"position_embedding_type": "learned", **RESNET}),
    ("gemma3_text", "Gemma3ForCausalLM", {"use_bidirectional_attention": True}),
    ("git", "GitForCausalLM", {"num_image_with_embedding": 6}),
    ("gpt2", "GPT2DoubleHeadsModel", {"summary_use_proj": False}),
    ("gpt2", "GPT2DoubleHeadsModel", {"summary_proj_to_labels": False}),
    ("hrm_text", "HrmTextForCausalLM", {"mlp_bias": True}),
    ("layoutlmv3", "LayoutLMv3Model", {"text_embed": False}),
    ("layoutlmv3", "LayoutLMv3Model", {"visual_embed": False}),
    ("mobilebert", "MobileBertModel", {"use_bottleneck": False, "intra_bottleneck_size": 512}),
    ("reformer", "ReformerModelWithLMHead", {"axial_pos_embds": False, "is_decoder": True}),
    ("regnet", "RegNetModel", {"layer_type": "x"}),
    ("resnet", "ResNetModel", {"layer_type": "basic", "hidden_sizes": [64, 128, 256, 512]}),
    ("roc_bert", "RoCBertModel", {"concat_input": False}),
    ("roc_bert", "RoCBertModel", {"enable_pronunciation": False}),
    ("roc_bert", "RoCBertModel", {"enable_shape": False}),
    ("sam_vision_model", "SamVisionModel", {"global_attn_indexes": list(range(12))}),
    ("seamless_m4t", "SeamlessM4TForSpeechToText", {"position_embeddings_type": "rotary"}),
    ("seamless_m4t", "SeamlessM4TForSpeechToText", {"add_adapter": False}),
    ("smollm3", "SmolLM3ForCausalLM", {"use_sliding_window": True, "sliding_window": 64}),
    ("swin", "SwinModel", {"use_absolute_embeddings": True}),
    ("tapas", "TapasForQuestionAnswering", {"num_aggregation_labels": 4}),
    ("timesformer", "TimesformerModel", {"attention_type": "space_only"}),
    ("timesformer", "TimesformerForVideoClassification", {"attention_type": "joint_space_time"}),
    ("wav2vec2", "Wav2Vec2Model", {"add_adapter": True}),
    ("wav2vec2", "Wav2Vec2Model", {"add_adapter": True, "output_hidden_size": 512}),
    ("wav2vec2", "Wav2Vec2Model", {"feat_extract_norm": "layer", "do_stable_layer_norm": True}),
    ("wav2vec2", "Wav2Vec2ForCTC", {"do_stable_layer_norm": True, "adapter_attn_dim": 16}),
    ("wav2vec2", "Wav2Vec2ForSequenceClassification", {"use_weighted_layer_sum": True}),
    ("wav2vec2-bert", "Wav2Vec2BertModel", {"position_embeddings_type": "rotary"}),
    ("wav2vec2-bert", "Wav2Vec2BertModel", {"position_embeddings_type": None}),
    ("wav2vec2-conformer", "Wav2Vec2ConformerModel", {"position_embeddings_type": "rotary"}),
    ("xlm", "XLMModel", {"use_lang_emb": True, "n_langs": 3}),
    ("xlm", "XLMForSequenceClassification", {"summary_use_proj": False}),
    ("yolos", "YolosModel", {"use_mid_position_embeddings": False}),
    ("dpr", "DPRQuestionEncoder", {"projection_dim": 64}),
    ("dpr", "DPRReader", {"projection_dim": 64}),
    ("fsmt", "FSMTForConditionalGeneration", {"tie_word_embeddings": True}),
    ("gemma4", "Gemma4ForConditionalGeneration", {"vision_config": {}, "audio_config": {}}),
    ("gemma4_unified", "Gemma4UnifiedForConditionalGeneration", {"vision_config": {}, "audio_config": {}}),
    (
        "glm_moe_dsa",
        "GlmMoeDsaForCausalLM",
        {"num_hidden_layers": 4, "mlp_layer_types": ["dense", "sparse"] * 2},
    ),
    ("granite_docling", "GraniteDoclingForConditionalGeneration", {"density_router_hidden_size": 64}),
    ("lfm2", "Lfm2ForCausalLM", {"block_auto_adjust_ff_dim": False}),
    ("luke", "LukeForEntityClassification", {}),
    ("luke", "LukeForEntityPairClassification", {}),
    ("luke", "LukeForEntitySpanClassification", {}),
    ("muse_spark_text", "MuseSparkTextModel", {"mlp_layer_types": ["dense", "sparse"] * 31}),
    ("nystromformer", "NystromformerModel", {"segment_means_seq_len": 512}),
    ("perceiver", "PerceiverForOpticalFlow", {"num_cross_attention_heads": 1}),
    ("qwen2_moe", "Qwen2MoeForCausalLM", {"use_sliding_window": True}),
    ("qwen4_exp_text", "Qwen4ExpForCausalLM", QWEN4),
    ("qwen4_exp_text", "Qwen4ExpForCausalLM", {**QWEN4, "split_ngram_parts": 7}),
    ("t5gemma", "T5GemmaEncoderModel", {"is_encoder_decoder": False}),
    ("tapas", "TapasForQuestionAnswering", {}),
    ("whisper", "WhisperForAudioClassification", {}),
    ("whisper", "WhisperForAudioClassification", {"use_weighted_layer_sum": True}),
    ("hubert", "HubertModel", {"conv_pos_batch_norm": True}),
    ("wav2vec2", "Wav2Vec2ForAudioFrameClassification", {}),
    ("sam_vision_model", "SamVisionModel", {"window_size": 0}),
    ("clip_text_model", "CLIPTextModel", {}),
    ("ernie", "ErnieModel", {"use_task_id": True, "task_type_vocab_size": 3}),
    ("layoutlm", "LayoutLMModel", {}),
    ("mobilebert", "MobileBertModel", {"trigram_input": False, "embedding_size": 512}),
    ("wav2vec2-conformer", "Wav2Vec2ConformerModel", {"position_embeddings_type": "relative"}),
    ("wav2vec2-bert", "Wav2Vec2BertModel", {"position_embeddings_type": "relative"}),
    ("convbert", "ConvBertModel", {"head_ratio": 4}),
    ("data2vec-audio", "Data2VecAudioForAudioFrameClassification", {}),
    ("xlm", "XLMForQuestionAnswering", {}),
    ("xlnet", "XLNetForQuestionAnswering", {}),
    ("xlstm", "xLSTMForCausalLM", {"weight_mode": "fused"}),
    ("aimv2_vision_model", "Aimv2VisionModel", {"is_native": True}),
    ("clip_text_model", "CLIPTextModelWithProjection", {}),
    ("gemma4_assistant", "Gemma4AssistantForCausalLM", GEMMA4_DRAFT),
    (
        "perceiver",
        "PerceiverForImageClassificationConvProcessing",
        {"num_cross_attention_heads": 1, "num_self_attention_heads": 1},
    ),
]
# Configurations as a file writes them, in keys that transformers' classes turn into others.
WRITTEN: list[tuple[str, str, dict[str, Any]]] = [
    ("gemma3_text", "Gemma3ForCausalLM", {"rope_parameters": HALF_ROTARY}),
    ("gemma4_text", "Gemma4ForCausalLM", {"rope_parameters": HALF_ROTARY}),
    ("glm_moe_dsa", "GlmMoeDsaForCausalLM", {"num_hidden_layers": 4, "index_topk_pattern": "FSFS"}),
    ("granitemoe_swa", "GraniteMoeSWAForCausalLM", {"rope_parameters": {"rope_theta": 0}}),
    (
        "inkling_text",
        "InklingForCausalLM",
        {
            "num_hidden_layers": 6,
            "dense_mlp_idx": 2,
            "dense_intermediate_size": 4096,
            "intermediate_size": 512,
        },
    ),
    (
        "kimi_linear",
        "KimiLinearForCausalLM",
        {
            "num_hidden_layers": 4,
            "linear_attn_config": {"full_attn_layers": [2, 4], "kda_layers": [1, 3]},
        },
    ),
    ("mimo_v2_flash", "MiMoV2FlashForCausalLM", {"num_hidden_layers": 6, "sliding_window_size": 127}),
    ("smollm3", "SmolLM3ForCausalLM", {"use_sliding_window": False, "sliding_window": 64}),
    (
        "smollm3",
        "SmolLM3ForCausalLM",
        {"use_sliding_window": True, "sliding_window": 64, "no_rope_layers": [1, 0] * 18},
    ),
    ("ultrabert", "UltrabertModel", {"num_hidden_layers": 4, "attention_windows": [None, 64, 64, None]}),
    ("glm4_moe", "Glm4MoeForCausalLM", {"num_hidden_layers": 3, "first_k_dense_replace": 0}),
    ("muse_spark_text", "MuseSparkTextModel", {"num_hidden_layers": 2, "mlp_layer_types": ["sparse"] * 2}),
    ("qwen2_moe", "Qwen2MoeForCausalLM", {"num_hidden_layers": 3, "num_experts": 0}),
    ("qwen3_moe", "Qwen3MoeForCausalLM", {"num_hidden_layers": 3, "mlp_only_layers": [0, 1, 2]}),
]


def known() -> set[tuple[str, str]]:
    """The types and classes of the other fixtures."""
    names = ("transformers", "transformers-seeing", "transformers-drawn")
    texts = (gzip.decompress((FIXTURES / f"{name}.jsonl.gz").read_bytes()).decode() for name in names)
    return {(row["model_type"], row["cls"]) for text in texts for row in map(json.loads, text.splitlines())}


def wanted() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What is built: type, class, and what differs from the defaults."""
    accepted = {
        (name, cls)
        for name in HF_MODULES
        for classes in record_of(name).get("classes", {}).values()
        for cls in classes
    }
    yield from ((name, cls, {}) for name, cls in sorted(accepted - known()))
    yield from VARIANTS


def row(
    model_type: str, cls: str, changes: dict[str, Any], *, written: bool = False
) -> dict[str, Any] | None:
    """One class, built; nothing where transformers has no such class, or its defaults build none.

    `written`: the row has what was said, not the configuration that transformers makes of it.
    """
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = getattr(transformers, cls, None)
    if kind is None or model_type not in CONFIG_MAPPING:
        return None
    try:
        config = CONFIG_MAPPING[model_type](**changes)
        with torch.device("meta"):
            module = kind(config)
    except Exception as error:
        print(f"{model_type} {cls} {changes}: {error}", file=sys.stderr)
        return None
    names: dict[int, list[str]] = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
    left_out = {
        f"{path}.{name}".lstrip(".")
        for path, part in module.named_modules()
        for name in part._non_persistent_buffers_set
    }
    own = pruned({key: value for key, value in config.to_dict().items() if key not in NOISE})
    return {
        "model_type": model_type,
        "cls": cls,
        "variant": ",".join(changes) or None,
        "config": json.loads(
            json.dumps({**(changes if written else own), "model_type": model_type}, default=str)
        ),
        "total": sum(tensor.numel() for tensor in module.parameters()),
        "trainable": sum(tensor.numel() for tensor in module.parameters() if tensor.requires_grad),
        "params": digest_shapes(
            (name, list(tensor.shape)) for name, tensor in module.named_parameters(remove_duplicate=False)
        ),
        "buffers": digest_buffers(
            (name, list(tensor.shape), name not in left_out) for name, tensor in module.named_buffers()
        ),
        "ties": digest_ties(group for group in names.values() if len(group) > 1),
        "checkpoint": None,
    }


def main() -> None:
    """Build all and write the file."""
    warnings.simplefilter("ignore")
    built = (*(row(*one) for one in wanted()), *(row(*one, written=True) for one in WRITTEN))
    rows = [found for found in built if found]
    with gzip.GzipFile(OUT, "wb", mtime=0) as file:
        file.write("\n".join(json.dumps(one, separators=(",", ":")) for one in rows).encode())
    print(f"{len(rows)} rows, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
