"""Files in other tools' words that describe no model, or one that cannot be counted: one line says why."""

from __future__ import annotations

from typing import Any

import pytest

import sizer

MEGATRON = {"num_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 1024}
MEGATRON["padded_vocab_size"] = 128
MOE = {"num_experts": 8, "moe_router_topk": 2, "moe_ffn_hidden_size": 64, "disable_bias_linear": True}
NEOX = {
    "pos_emb": "rotary",
    "num_layers": 12,
    "hidden_size": 768,
    "num_attention_heads": 12,
    "no_weight_tying": True,
    "gpt_j_residual": True,
    "tokenizer_type": "HFTokenizer",
}
LITGPT = {
    "n_layer": 4,
    "n_head": 4,
    "n_embd": 64,
    "padded_vocab_size": 100,
    "block_size": 32,
    "norm_class_name": "RMSNorm",
}
WINDOW = {"sliding_window_size": 16}
LLM_ANALYSIS = {"num_layers": 2, "n_head": 2, "hidden_dim": 64, "ffn_embed_dim": 256}
META = {"dim": 4096, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-6, "vocab_size": 32000}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({**NEOX, "moe_num_experts": 4}, "expert"),
    ({**NEOX, "soft_prompt_tuning": {"enabled": True}}, "a learned prompt"),
    ({**NEOX, "expansion_factor": -1}, "expansion_factor = -1"),
    ({**NEOX, "pos_emb": "rpe"}, "relative positions are learned"),
    ({**NEOX, "pos_emb": "learned"}, "max_position_embeddings is missing"),
    ({**NEOX, "pos_emb": "sometimes"}, "pos_emb"),
    ({**NEOX, "activation": 3}, "activation"),
    ({**NEOX, "attention_config": [[[3], 12]]}, "is no list of attentions"),
    ({**NEOX, "attention_config": [[["gmlp"], 12]]}, "'gmlp'"),
    ({**NEOX, "no_weight_tying": "yes"}, "no_weight_tying"),
    ({**NEOX, "tokenizer_type": "SPMTokenizer"}, "the vocabulary is that of a tokenizer"),
    # megatron/model/transformer.py: into 8 columns, of which the activation gives 4, and out of 3.
    ({**NEOX, "activation": "swiglu", "intermediate_size": 11}, "rounded to 8 before and 3 after"),
    ({**LITGPT, "shared_attention_norm": True, "parallel_residual": False}, "needs parallel_residual"),
    ({**LITGPT, "mlp_class_name": "LLaMAMLP"}, "intermediate_size is missing, which a LLaMAMLP needs"),
    ({**LITGPT, "mlp_class_name": "LLaMAMoE", "intermediate_size": 64}, "n_expert is missing"),
    (
        {**LITGPT, "mlp_class_name": "LLaMAMoE", "n_expert": 4, "first_k_dense_replace": 1, "n_layer": 10**6},
        "n_layer = 1,000,000 is beyond 100,000",
    ),
    ({**LITGPT, "hf_config": "org/name"}, "hf_config = 'org/name' is not a group of settings"),
    ({**LITGPT, "n_embd": 10**16}, "n_embd is beyond 1,000,000,000,000,000"),
    ({**LITGPT, **WINDOW, "sliding_window_indices": [2] * 4}, "not a list of 0 or 1, one a layer"),
    ({**LITGPT, **WINDOW, "sliding_window_indices": "all"}, "not a list of 0 or 1, one a layer"),
    ({**LITGPT, **WINDOW, "sliding_window_indices": [1, 0]}, "lists 2 of 4 layers"),
    (
        {**LITGPT, **WINDOW, "sliding_window_indices": [1], "n_layer": 10**6},
        "1,000,000 layers are more than 100,000",
    ),
    (
        {
            **LITGPT,
            "mlp_class_name": "LLaMAMoE",
            "intermediate_size": 64,
            "n_expert": 4,
            "n_shared_expert": 1,
        },
        "n_shared_expert needs moe_intermediate_size",
    ),
    ({**MEGATRON, "MODEL_ARGS": {"num_layers": 2}}, "num_layers is given twice, once in MODEL_ARGS"),
    ({**MEGATRON, **MOE, "moe_layer_freq": 2, "num_layers": 10**6}, "num_layers = 1,000,000 is beyond"),
    ({**MEGATRON, "position_embedding_type": "relative"}, "relative positions are learned"),
    (
        {**MEGATRON, **MOE, "moe_shared_expert_intermediate_size": 64, "disable_bias_linear": False},
        "have no biases",
    ),
    ({**MEGATRON, **MOE, "moe_layer_freq": "os.system('true')"}, "moe_layer_freq"),
    ({**MEGATRON, **MOE, "moe_layer_freq": "[1]*10**9"}, "moe_layer_freq"),
    ({**MEGATRON, **MOE, "moe_layer_freq": "'a'*3"}, "moe_layer_freq"),
    ({**MEGATRON, **MOE, "moe_layer_freq": True}, "moe_layer_freq"),
    ({**MEGATRON, **MOE, "moe_layer_freq": 0}, "moe_layer_freq"),
    ({**MEGATRON, **MOE, "moe_layer_freq": ["a"]}, "moe_layer_freq"),
    ({**META, "ffn_dim_multiplier": -1, "multiple_of": 256}, "ffn_dim_multiplier = -1"),
    ({"n_layer": 12, "n_head": 12, "n_embd": 768, "n_ctx": 1024}, "n_vocab"),
    ({**LLM_ANALYSIS, "model_type": "opt"}, "those of a gpt2, not of 'opt'"),
    ({"n_layer": 2, "n_head": 2, "hidden_size_" * 6: 64}, "has no model_type"),
    ({**LLM_ANALYSIS, "model_type": "gpt2"}, "max_seq_len is missing"),
    ({"model_type": "gemma3", "text_config": {f"k{i}": 1 for i in range(2_001)}}, "2,001 unknown keys"),
    (
        {"model_type": "glm4_moe_lite", "mlp_layer_types": ["dense"]},
        "must be a list of 47 entries, one a layer",
    ),
    ({"model_type": "nobody_knows", "text_config": {"hidden_size": 64}}, "no model type named"),
    (
        {"model_type": "encoder-decoder", "encoder": {"model_type": "t5"}, "decoder": {"model_type": "vit"}},
        "decoder: the model type 'vit' has no causal class",
    ),
    ({"model_type": 3}, "model_type = 3 is not the name of a model type"),
    ({"architectures": ["Nothing"]}, "has no model_type"),
    (
        {"model_type": "llama", "architectures": ["LlamaForSequenceClassification"], "num_labels": 0},
        "num_labels = 0 is not a positive whole number",
    ),
    ({"model_type": "llava", "text_config": 3}, "text_config = 3 is not an object of settings"),
]


@pytest.mark.parametrize(("config", "words"), REFUSED, ids=lambda x: str(x)[-50:])
def test_what_describes_no_model(config: dict[str, Any], words: str) -> None:
    with pytest.raises(sizer.SizerError) as error:
        sizer.load(config)

    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_layers_with_experts_in_three_ways() -> None:
    # Every second layer from the first on: megatron/core/transformer/transformer_config.py, moe_layer_freq.
    ways = [2, [1, 0] * 6, "[1,0]*6", "6*[1,0]", "([1]+[0])*6"]
    totals = {sizer.load({**MEGATRON, **MOE, "moe_layer_freq": way}).count().total for way in ways}
    every = sizer.load({**MEGATRON, **MOE, "moe_layer_freq": 1}).count()
    none = sizer.load({**MEGATRON, "disable_bias_linear": True}).count()

    assert len(totals) == 1
    assert 2 * totals.pop() == every.total + none.total


def test_the_vocabulary_of_a_named_tokenizer() -> None:
    # Their sizes: openai/gpt-2 50,257; EleutherAI/gpt-neox-20b 50,277 tokens; padded to multiples of 128.
    for tokenizer, rows in (
        ("GPT2BPETokenizer", 50_304),
        ("HFTokenizer", 50_304),
        ("CharLevelTokenizer", 512),
    ):
        found = sizer.load({**NEOX, "tokenizer_type": tokenizer})
        assert found.config.vocab_size == rows
