"""Models whose code is in their repositories: the totals that others publish for them.

"page": the number of parameters that the model's page on Hugging Face shows of its safetensors.
"index": `total_size` of the published index, in bytes, over the bytes of an element.
"LLaMA", "StableLM": the class of transformers 5.24 with the same tensors, on the meta device.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import pytest

import sizer
from sizer.core.walk import walk
from sizer.measures.count import count
from sizer.sources.hf_config import read
from sizer.sources.presets import directory


class Case(NamedTuple):
    name: str
    config: dict[str, Any]
    total: int
    source: str
    cls: str | None = None


def llama_like(
    model_type: str, cls: str, V: int, D: int, F: int, L: int, H: int, K: int | None = None, **more: Any
) -> dict[str, Any]:
    kv = {} if K is None else {"num_key_value_heads": K}
    return {
        "model_type": model_type,
        "architectures": [cls],
        "vocab_size": V,
        "hidden_size": D,
        "intermediate_size": F,
        "num_hidden_layers": L,
        "num_attention_heads": H,
        **kv,
        **more,
    }


def chatglm(n_layers: int, vocab: int, cls: str = "ChatGLMModel") -> dict[str, Any]:
    return {
        "model_type": "chatglm",
        "architectures": [cls],
        "add_bias_linear": False,
        "add_qkv_bias": True,
        "ffn_hidden_size": 13696,
        "hidden_size": 4096,
        "kv_channels": 128,
        "multi_query_attention": True,
        "multi_query_group_num": 2,
        "num_attention_heads": 32,
        "num_layers": n_layers,
        "padded_vocab_size": vocab,
        "post_layer_norm": True,
        "rmsnorm": True,
        "tie_word_embeddings": False,
        "pre_seq_len": None,
    }


CHATGLM1 = {
    "model_type": "chatglm",
    "architectures": ["ChatGLMModel"],
    "hidden_size": 4096,
    "inner_hidden_size": 16384,
    "num_attention_heads": 32,
    "num_layers": 28,
    "position_encoding_2d": True,
    "vocab_size": 130528,
}


def openelm(n_layers: int, d_model: int, d_head: int) -> dict[str, Any]:
    return {
        "model_type": "openelm",
        "architectures": ["OpenELMForCausalLM"],
        "num_transformer_layers": n_layers,
        "model_dim": d_model,
        "head_dim": d_head,
        "num_gqa_groups": 4,
        "ffn_dim_divisor": 256,
        "ffn_multipliers": [0.5, 4.0],
        "qkv_multipliers": [0.5, 1.0],
        "ffn_with_glu": True,
        "normalize_qk_projections": True,
        "share_input_output_layers": True,
        "vocab_size": 32000,
    }


def nas(blocks: list[tuple[int, int | None, float | None]], **sizes: int) -> dict[str, Any]:
    """A Nemotron-NAS of runs of equal blocks: how many, queries per KV head, multiplier of the MLP."""
    listed = [
        {
            "attention": {"n_heads_in_group": group, "no_op": group is None, "replace_with_linear": False},
            "ffn": {"ffn_mult": multiplier, "no_op": multiplier is None, "replace_with_linear": False},
        }
        for times, group, multiplier in blocks
        for _ in range(times)
    ]
    return {
        "model_type": "nemotron-nas",
        "architectures": ["DeciLMForCausalLM"],
        "attention_bias": False,
        "block_configs": listed,
        "intermediate_size": None,
        "num_hidden_layers": len(listed),
        "num_key_value_heads": None,
        "vocab_size": 128256,
        **sizes,
    }


# huggingface.co/nvidia/Llama-3_3-Nemotron-Super-49B-v1, config.json
SUPER_49B = nas(
    [
        *[(1, 8, 2.625), (5, 8, 5.25), (2, None, 2.625), (3, 8, 5.25), (1, None, 3.28125), (30, 8, 5.25)],
        *[(1, None, 1.3125), (2, None, 2.625), (1, None, 1.3125), (1, None, 5.25), (1, None, 1.3125)],
        *[(1, None, 2.625), (3, None, 1.3125), (1, 8, 5.25), (1, None, 1.3125), (2, None, 1.0)],
        *[(1, None, 1.3125), (3, None, 1.0), (2, None, 1.3125), (2, None, 0.5), (2, None, 1.0)],
        *[(2, None, 0.5), (1, None, 1.0), (2, None, 0.5), (9, 8, 5.25)],
    ],
    hidden_size=8192,
    num_attention_heads=64,
)


def phi(model_type: str, cls: str, d_model: int, n_layers: int) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "architectures": [cls],
        "n_embd": d_model,
        "n_head": 32,
        "n_head_kv": None,
        "n_inner": None,
        "n_layer": n_layers,
        "n_positions": 2048,
        "rotary_dim": 32,
        "vocab_size": 51200,
    }


JINA = {
    "model_type": "bert",
    "architectures": ["JinaBertForMaskedLM"],
    "auto_map": {"AutoConfig": "jinaai/jina-bert-implementation--configuration_bert.JinaBertConfig"},
    "feed_forward_type": "geglu",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "position_embedding_type": "alibi",
    "type_vocab_size": 2,
    "vocab_size": 30528,
}
NOMIC = {
    "model_type": "nomic_bert",
    "architectures": ["NomicBertModel"],
    "auto_map": {"AutoConfig": "nomic-ai/nomic-bert-2048--configuration_hf_nomic_bert.NomicBertConfig"},
    "activation_function": "swiglu",
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "n_embd": 768,
    "n_head": 12,
    "n_inner": 3072,
    "n_layer": 12,
    "pad_vocab_size_multiple": 64,
    "qkv_proj_bias": False,
    "type_vocab_size": 2,
    "vocab_size": 30528,
}
NOMIC_MOE = {
    **NOMIC,
    "activation_function": "gelu",
    "mlp_fc1_bias": True,
    "mlp_fc2_bias": True,
    "moe_every_n_layers": 2,
    "moe_top_k": 2,
    "num_experts": 8,
    "qkv_proj_bias": True,
    "type_vocab_size": 1,
    "vocab_size": 250048,
}
SANTACODER = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadCustomModel"],
    "auto_map": {"AutoConfig": "configuration_gpt2_mq.GPT2CustomConfig"},
    "attention_head_type": "multiquery",
    "n_embd": 2048,
    "n_head": 16,
    "n_inner": 8192,
    "n_layer": 24,
    "n_positions": 2048,
    "vocab_size": 49280,
}
MPT = {
    "model_type": "mpt",
    "architectures": ["MPTForCausalLM"],
    "auto_map": {"AutoConfig": "configuration_mpt.MPTConfig"},
    "attn_config": {"alibi": True, "attn_type": "multihead_attention", "qk_ln": False},
    "d_model": 4096,
    "expansion_ratio": 4,
    "learned_pos_emb": True,
    "max_seq_len": 2048,
    "n_heads": 32,
    "n_layers": 32,
    "no_bias": True,
    "vocab_size": 50432,
}
MOLMO = {
    "model_type": "molmo",
    "architectures": ["MolmoForCausalLM"],
    "attention_layer_norm": False,
    "embedding_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 37888,
    "layer_norm_type": "rms",
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "qkv_bias": True,
    "vocab_size": 152064,
    "weight_tying": False,
}
MIMO = llama_like(
    "mimo", "MiMoForCausalLM", 151680, 4096, 11008, 36, 32, 8, head_dim=128, num_nextn_predict_layers=1
)
PANGU = llama_like("PanguEmbedded", "PanguEmbeddedForCausalLM", 153376, 4096, 12800, 34, 32, 8, bias=True)
YUAN_M32 = llama_like(
    "yuan",
    "YuanForCausalLM",
    *(135040, 2048, 8192, 24, 16),
    attention_projection_size=4096,
    moe_config={"moe_num_experts": 32, "moe_top_k": 2, "ffn_hidden_size": 8192, "gated_linear_unit": True},
    tie_word_embeddings=False,
    use_moe=True,
)
ARCTIC = llama_like(
    "arctic",
    "ArcticForCausalLM",
    *(32000, 7168, 4864, 35, 56, 8),
    moe_layer_frequency=1,
    num_experts_per_tok=2,
    num_local_experts=128,
    parallel_attn_mlp_res=True,
)
GROK = llama_like(
    "grok-1",
    "Grok1ModelForCausalLM",
    *(131072, 6144, 32768, 64, 48, 8),
    num_experts=8,
    num_experts_per_tok=2,
    tie_word_embeddings=False,
)
KIMI_K25 = {
    "model_type": "kimi_k25",
    "architectures": ["KimiK25ForConditionalGeneration"],
    "text_config": {
        "model_type": "deepseek_v3",
        "first_k_dense_replace": 1,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "kv_lora_rank": 512,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 384,
        "n_shared_experts": 1,
        "num_attention_heads": 64,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 61,
        "num_key_value_heads": 64,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "tie_word_embeddings": False,
        "v_head_dim": 128,
        "vocab_size": 163840,
    },
    "vision_config": {"vt_hidden_size": 1152, "vt_num_hidden_layers": 27, "text_hidden_size": 7168},
}
DBRX = {
    "model_type": "dbrx",
    "architectures": ["DbrxForCausalLM"],
    "auto_map": {"AutoConfig": "configuration_dbrx.DbrxConfig"},
    "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "model_type": "", "rope_theta": 500000},
    "d_model": 6144,
    "ffn_config": {"ffn_hidden_size": 10752, "model_type": "", "moe_num_experts": 16, "moe_top_k": 4},
    "n_heads": 48,
    "n_layers": 40,
    "vocab_size": 100352,
}
REFINED_40B = {
    "model_type": "RefinedWeb",
    "architectures": ["RWForCausalLM"],
    "alibi": False,
    "bias": False,
    "hidden_size": 8192,
    "n_head": 128,
    "n_head_kv": 8,
    "n_layer": 60,
    "parallel_attn": True,
    "vocab_size": 65024,
}
REFINED_7B = {
    "model_type": "RefinedWebModel",
    "architectures": ["RWForCausalLM"],
    "alibi": False,
    "bias": False,
    "hidden_size": 4544,
    "multi_query": True,
    "n_head": 71,
    "n_layer": 32,
    "parallel_attn": True,
    "vocab_size": 65024,
}
COMMAND_R = llama_like(
    "cohere", "CohereForCausalLM", 256000, 8192, 22528, 40, 64, 64, model_max_length=131072, use_qk_norm=False
)
EXAONE = {
    "model_type": "exaone",
    "architectures": ["ExaoneForCausalLM"],
    "auto_map": {"AutoModelForCausalLM": "modeling_exaone.ExaoneForCausalLM"},
    "activation_function": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_layers": 32,
    "tie_word_embeddings": False,
    "vocab_size": 102400,
}
# Deci/DeciLM-7B: the page's total leaves 67 KV heads for the 32 layers, however they are dealt out.
DECI = llama_like(
    "deci",
    "DeciLMForCausalLM",
    *(32000, 4096, 14336, 32, 32),
    num_key_value_heads_per_layer=[4] * 9 + [2] * 8 + [1] * 15,
)

PHI3_SMALL = {
    "model_type": "phi3small",
    "architectures": ["Phi3SmallForCausalLM"],
    "ff_dim_multiplier": None,
    "ff_intermediate_size": 14336,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 100352,
}

BAICHUAN_13B = "github.com/baichuan-inc/Baichuan-13B, README: table of the models' sizes"
CASES = [
    Case("chatglm-6b", CHATGLM1, 6_173_286_400, "THUDM/chatglm-6b, page"),
    Case("chatglm2-6b", chatglm(28, 65024), 6_243_584_000, "index: (12,487,168,064 - 64) / 2"),
    Case(
        "glm-4-9b",
        chatglm(40, 151552),
        9_399_951_360,
        "THUDM/glm-4-9b-chat, index: (18,799,902,784 - 64) / 2",
    ),
    Case(
        "baichuan-7b",
        llama_like("baichuan", "BaiChuanForCausalLM", 64000, 4096, 11008, 32, 32),
        *(7_000_559_616, BAICHUAN_13B),
    ),
    Case(
        "baichuan-13b",
        llama_like("baichuan", "BaichuanForCausalLM", 64000, 5120, 13696, 40, 40),
        *(13_264_901_120, BAICHUAN_13B),
    ),
    Case(
        "baichuan2-7b",
        llama_like("baichuan", "BaichuanForCausalLM", 125696, 4096, 11008, 32, 32),
        *(7_505_973_248, "baichuan-inc/Baichuan2-7B-Chat, index: 15,011,946,496 / 2"),
    ),
    Case(
        "qwen-7b",
        llama_like("qwen", "QWenLMHeadModel", 151936, 4096, 22016, 32, 32, kv_channels=128, no_bias=True),
        *(7_721_324_544, "index: 15,442,649,088 / 2"),
    ),
    Case(
        "qwen-72b",
        llama_like("qwen", "QWenLMHeadModel", 152064, 8192, 49152, 80, 64, kv_channels=128, no_bias=True),
        *(72_287_920_128, "index: 144,575,840,256 / 2"),
    ),
    Case(
        "internlm-20b",
        llama_like("internlm", "InternLMForCausalLM", 103168, 5120, 13824, 60, 40, 40, bias=False),
        *(20_088_714_240, "internlm/internlm-20b, index: 40,177,428,480 / 2"),
    ),
    Case(
        "internlm2-7b",
        llama_like("internlm2", "InternLM2ForCausalLM", 92544, 4096, 14336, 32, 32, 8, bias=False),
        *(7_737_708_544, "internlm/internlm2-7b, page"),
    ),
    Case(
        "internlm2-20b",
        llama_like("internlm2", "InternLM2ForCausalLM", 92544, 6144, 16384, 48, 48, 8, bias=False),
        *(19_861_149_696, "internlm/internlm2-20b, page"),
    ),
    Case(
        "internlm2-7b-reward",
        llama_like("internlm2", "InternLM2ForRewardModel", 92544, 4096, 14336, 32, 32, 8, bias=False),
        *(7_358_652_416, "internlm2-7b, page, less its head of 92544 rows, and one row"),
    ),
    Case("openelm-270m", openelm(16, 1280, 64), 271_527_168, "apple/OpenELM-270M, page"),
    Case("openelm-450m", openelm(20, 1536, 64), 457_179_136, "apple/OpenELM-450M, page"),
    Case("openelm-1.1b", openelm(28, 2048, 64), 1_079_891_456, "apple/OpenELM-1_1B, page"),
    Case("openelm-3b", openelm(36, 3072, 128), 3_036_647_424, "apple/OpenELM-3B, page"),
    Case("decilm-7b", DECI, 7_043_551_232, "Deci/DeciLM-7B, page"),
    Case("nemotron-super-49b", SUPER_49B, 49_867_145_216, "nvidia/Llama-3_3-Nemotron-Super-49B-v1, page"),
    Case(
        "phi-1.5",
        phi("mixformer-sequential", "MixFormerSequentialForCausalLM", 2048, 24),
        *(1_418_270_720, "microsoft/phi-1_5, page"),
    ),
    Case(
        "phi-2-sequential",
        phi("mixformer-sequential", "MixFormerSequentialForCausalLM", 2560, 32),
        *(2_779_683_840, "index: 11,118,735,360 / 4"),
    ),
    Case("phi-2", phi("phi-msft", "PhiForCausalLM", 2560, 32), 2_779_683_840, "microsoft/phi-2, page"),
    Case("phi-3-small", PHI3_SMALL, 7_392_272_384, "microsoft/Phi-3-small-8k-instruct, page"),
    Case(
        "yi-6b",
        llama_like("Yi", "YiForCausalLM", 64000, 4096, 11008, 32, 32, 4),
        *(6_061_035_520, "01-ai/Yi-6B, page"),
    ),
    Case(
        "yi-34b",
        llama_like("Yi", "YiForCausalLM", 64000, 7168, 20480, 60, 56, 8),
        *(34_388_917_248, "01-ai/Yi-34B, page"),
    ),
    Case("falcon-40b", REFINED_40B, 41_303_293_952, "FalconForCausalLM of the same sizes; the head is tied"),
    Case("falcon-7b", REFINED_7B, 6_921_720_704, "FalconForCausalLM of the same sizes; the head is tied"),
    Case("arctic", ARCTIC, 478_584_608_768, "Snowflake/snowflake-arctic-instruct, page"),
    Case(
        "stablelm-3b-4e1t",
        llama_like("stablelm_epoch", "StableLMEpochForCausalLM", 50304, 2560, 6912, 32, 32),
        *(2_795_443_200, "stabilityai/stablelm-3b-4e1t, page"),
    ),
    Case(
        "stablelm-2-1.6b",
        llama_like(
            "stablelm_epoch", "StableLMEpochForCausalLM", 100352, 2048, 5632, 24, 32, 32, use_qkv_bias=True
        ),
        *(1_644_515_328, "stabilityai/stablelm-2-1_6b, page"),
    ),
    Case(
        "xverse-13b",
        llama_like("xverse", "XverseForCausalLM", 100278, 5120, 13824, 40, 40),
        *(13_715_031_040, "LLaMA"),
    ),
    Case(
        "skywork-13b",
        llama_like("skywork", "SkyworkForCausalLM", 65519, 4608, 12288, 52, 36),
        *(13_854_113_280, "LLaMA"),
    ),
    Case(
        "aquilachat2-7b",
        llama_like("aquila", "AquilaForCausalLM", 100008, 4096, 11008, 32, 32),
        *(7_295_537_152, "LLaMA"),
    ),
    Case(
        "orion-14b",
        llama_like("orion", "OrionForCausalLM", 84608, 5120, 15360, 40, 40, 40),
        *(14_498_703_360, "StableLM"),
    ),
    Case(
        "minicpm-2b",
        llama_like("minicpm", "MiniCPMForCausalLM", 122753, 2304, 5760, 40, 36, 36),
        *(2_724_880_896, "openbmb/MiniCPM-2B-sft-bf16, page"),
    ),
    Case("openpangu-7b", PANGU, 8_030_887_936, "index: (16,061,784,576 - 34 * 64 * 4) / 2"),
    Case(
        "openpangu-7b-later",
        {**PANGU, "model_type": "openpangu_dense"},
        *(8_030_887_936, "the same under a later name"),
    ),
    Case(
        "mimo-7b", {**MIMO, "count_mtp": True}, 7_833_409_536, "XiaomiMiMo/MiMo-7B, index: 15,666,819,072 / 2"
    ),
    Case("santacoder", SANTACODER, 1_124_886_528, "bigcode/santacoder, page"),
    Case("molmo-7b-d", MOLMO, 8_021_025_280, "allenai/Molmo-7B-D-0924, index: total_parameters"),
    Case("jina-v2-base-en", JINA, 137_368_320, "jinaai/jina-embeddings-v2-base-en, page", "JinaBertModel"),
    Case("nomic-v1", NOMIC, 136_731_648, "nomic-ai/nomic-embed-text-v1, page"),
    Case("nomic-v2-moe", NOMIC_MOE, 475_292_928, "nomic-ai/nomic-embed-text-v2-moe, page"),
    Case("mpt-7b", MPT, 6_649_286_656, "mosaicml/mpt-7b, page"),
    Case("exaone-3-7.8b", EXAONE, 7_818_448_896, "LGAI-EXAONE/EXAONE-3.0-7.8B-Instruct, page"),
    Case("command-r", COMMAND_R, 34_980_831_232, "CohereForAI/c4ai-command-r-v01, page"),
    Case("dbrx", DBRX, 131_596_523_520, "databricks/dbrx-base, page"),
    Case(
        "kimi-k2.5",
        KIMI_K25,
        1_026_879_376_368,
        "moonshotai/Kimi-K2.5, safetensors: 23,040 + 1,014,686,023,680 + 12,193,329,648",
    ),
    Case(
        "kimi-k2",
        {
            **KIMI_K25["text_config"],
            "model_type": "kimi_k2",
            "architectures": ["DeepseekV3ForCausalLM"],
        },
        1_026_408_232_448,
        "moonshotai/Kimi-K2-Instruct, page; 23,040 of them are router biases",
    ),
]

# Published rounded only: parameters in all, and those one token visits where the source says.
ROUNDED = [
    ("grok-1", GROK, "316.5B", "huggingface.co/TevunahAi/Grok-1-BF16: 316.5B, both embeddings stored"),
    (
        "yuan2-2b",
        llama_like("yuan", "YuanForCausalLM", 135040, 2048, 8192, 24, 32),
        "2.1B",
        "arXiv:2311.15786",
    ),
    ("yuan2-m32", YUAN_M32, "40.2B", "arXiv:2405.17976: 40B, of which 3.7B active"),
]


def record_lines(name: str) -> list[dict[str, Any]]:
    with open(os.path.join(directory("huggingface"), name), encoding="utf-8") as file:
        return [record for record in map(json.loads, file) if "model_type" in record]


def test_every_type_has_a_source_and_a_published_total() -> None:
    records = record_lines("remote_types.jsonl")
    names = [record["model_type"] for record in records]
    counted = {read(case.config).model_type for case in CASES}
    counted |= {config["model_type"] for _, config, _, _ in ROUNDED}

    assert names == sorted(names, key=str.lower)
    assert not set(names) & {record["model_type"] for record in record_lines("model_types.jsonl")}
    assert all(record["source"].startswith("huggingface.co/") and record["classes"] for record in records)
    assert set(names) <= counted


def load(case: Case) -> sizer.Model:
    return sizer.load(case.config, cls=case.cls)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_total(case: Case) -> None:
    assert load(case).count().total == case.total


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_formula_and_names(case: Case) -> None:
    model = load(case)
    letters = count(walk(model.symbolic_tree())).total
    assert (letters if isinstance(letters, int) else letters.value(model.symbolic[1])) == case.total

    names = [tensor.name for tensor in model.tensors()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("name", "config", "rounded", "source"), ROUNDED, ids=[r[0] for r in ROUNDED])
def test_rounded_total(name: str, config: dict[str, Any], rounded: str, source: str) -> None:
    assert f"{sizer.load(config).count().total / 1e9:.1f}B" == rounded


def test_active_parameters() -> None:
    """Snowflake's 17B, and Yuan's 3.7B without the embedding."""
    assert round(sizer.load(ARCTIC).count().active / 1e9) == 17
    yuan = sizer.load(YUAN_M32).count()
    assert round((yuan.active - yuan.embedding) / 1e9, 1) == 3.7


def test_mtp_layers_are_named_and_not_counted() -> None:
    model = sizer.load(MIMO)
    counted = sizer.load(MIMO, count_mtp=True)
    left_out = counted.count().total - model.count().total

    assert counted.count().components["other"] == left_out == 210_790_400
    assert any(f"{left_out:,}" in line and "count_mtp" in line for line in model.assumptions)
    assert not any("multi-token" in line for line in counted.assumptions)
    assert not any("mtp" in tensor.name for tensor in model.tensors())


# Names as they stand in the published indexes.
NAMES = [
    (chatglm(28, 65024), "transformer.encoder.layers.27.self_attention.query_key_value.bias"),
    (chatglm(28, 65024), "transformer.rotary_pos_emb.inv_freq"),
    (CASES[5].config, "model.layers.31.self_attn.W_pack.weight"),
    (CASES[6].config, "transformer.h.31.attn.c_attn.bias"),
    (CASES[9].config, "model.layers.31.attention.wqkv.weight"),
    (CASES[11].config, "v_head.weight"),
    (openelm(16, 1280, 64), "transformer.layers.15.ffn.proj_1.weight"),
    (phi("mixformer-sequential", "MixFormerSequentialForCausalLM", 2560, 32), "layers.33.linear.bias"),
    (phi("phi-msft", "PhiForCausalLM", 2560, 32), "lm_head.ln.weight"),
    (PANGU, "model.layers.33.self_attn.rotary_emb.inv_freq"),
    ({**MIMO, "count_mtp": True}, "model.mtp_layers.0.input_proj.weight"),
    (ARCTIC, "model.layers.34.block_sparse_moe.experts.127.w3.weight"),
    (GROK, "model.layers.63.moe_block.experts.7.linear_v.weight"),
    (SANTACODER, "transformer.h.23.attn.kv_attn.bias"),
    (MOLMO, "model.vision_backbone.image_vit.transformer.resblocks.22.attention.wq.bias"),
    (MPT, "transformer.blocks.31.ffn.down_proj.weight"),
    (NOMIC, "encoder.layers.11.mlp.fc12.weight"),
    (JINA, "bert.encoder.layer.11.mlp.gated_layers.weight"),
]


@pytest.mark.parametrize(("config", "name"), NAMES, ids=[name for _, name in NAMES])
def test_names_are_the_published_ones(config: dict[str, Any], name: str) -> None:
    assert name in {tensor.name for tensor in sizer.load(config).tensors()}


LINEAR = nas([(1, 2, 2.0), (1, None, 2.0), (1, 2, None), (1, 2, 2.0)], hidden_size=64, num_attention_heads=4)
LINEAR["block_configs"][3]["attention"] = {"no_op": False, "replace_with_linear": True}


def test_linear_replacements_and_absent_parts() -> None:
    """A layer without attention has no norm for it; a matrix of D×D may stand for it."""
    names = {tensor.name for tensor in sizer.load(LINEAR).tensors()}

    assert "model.layers.3.self_attn.linear_attn.weight" in names
    assert not any(name.startswith("model.layers.3.self_attn.q_proj") for name in names)
    assert "model.layers.1.input_layernorm.weight" not in names
    assert "model.layers.2.post_attention_layernorm.weight" not in names
    assert sizer.load(LINEAR).kv_cache(seq_len=1, dtype="bf16").bytes_per_token == 2 * 2 * 2 * 2 * 16


REFUSED = [
    ({**chatglm(28, 65024), "pre_seq_len": 128}, ["pre_seq_len", "prefix"]),
    ({**CASES[6].config, "intermediate_size": 22017}, ["intermediate_size", "odd"]),
    ({**MPT, "attn_config": {"attn_type": "linear"}}, ["attn_type", "multiquery_attention"]),
    ({**SUPER_49B, "block_configs": [{"attention": {}}]}, ["block_configs", "ffn"]),
    ({**openelm(16, 1280, 64), "ffn_multipliers": [1, 2, 3]}, ["ffn_multipliers", "16 layers"]),
    ({**SANTACODER, "attention_head_type": "multihead"}, ["attention_head_type"]),
    (
        {
            "model_type": "qwen3",
            "architectures": ["DraftModel"],
            "auto_map": {"AutoModel": "draft.DraftModel"},
        },
        ["DraftModel", "own code", "Qwen3ForCausalLM"],
    ),
    (
        {
            **JINA,
            "auto_map": {"AutoConfig": "jinaai/jina-bert-v2-qk-post-norm--configuration_bert.JinaBertConfig"},
        },
        ["norms of queries and keys"],
    ),
]


@pytest.mark.parametrize(("config", "fragments"), REFUSED, ids=[" ".join(f) for _, f in REFUSED])
def test_what_is_not_known_is_refused_by_name(config: dict[str, Any], fragments: list[str]) -> None:
    with pytest.raises(sizer.SizerError) as error:
        sizer.load(config)
    assert all(fragment in str(error.value) for fragment in fragments)
