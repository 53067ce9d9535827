"""Random small configurations of the families whose real modules tests run."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import sizer
from sizer.model import Model

Family = tuple[str, str, Callable[[random.Random], dict[str, Any]]]


def decoder(draw: random.Random) -> dict[str, Any]:
    kv_heads = draw.choice((1, 2))
    return {
        "vocab_size": draw.randrange(50, 200),
        "hidden_size": 24 * draw.randrange(1, 4),
        "intermediate_size": draw.randrange(20, 90),
        "num_hidden_layers": draw.randrange(1, 4),
        "num_attention_heads": kv_heads * draw.choice((2, 3)),
        "num_key_value_heads": kv_heads,
        "head_dim": 2 * draw.randrange(2, 9),
    }


def experts(draw: random.Random) -> dict[str, Any]:
    return {
        "num_experts_per_tok": draw.choice((1, 2)),
        "moe_intermediate_size": draw.randrange(9, 40),
    }


def latent(draw: random.Random) -> dict[str, Any]:
    sizes = decoder(draw)
    sizes["num_key_value_heads"] = sizes["num_attention_heads"]
    return {
        **sizes,
        **experts(draw),
        "n_routed_experts": 4,
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "num_hidden_layers": 3,
        "kv_lora_rank": 2 * draw.randrange(4, 12),
        "q_lora_rank": draw.choice((None, 20)),
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": draw.randrange(3, 12),
        "v_head_dim": draw.randrange(3, 12),
        "head_dim": 4,
    }


def gpt2(draw: random.Random) -> dict[str, Any]:
    heads = draw.choice((2, 3))
    return {
        "vocab_size": 61,
        "n_embd": heads * 8,
        "n_head": heads,
        "n_layer": 2,
        "n_inner": draw.randrange(20, 90),
    }


def bert(draw: random.Random) -> dict[str, Any]:
    keys = ("vocab_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    sizes = decoder(draw)
    return {**{key: sizes[key] for key in keys}, "hidden_size": sizes["num_attention_heads"] * 8}


def t5(draw: random.Random) -> dict[str, Any]:
    return {
        "vocab_size": 70,
        "d_model": draw.randrange(10, 40),
        "d_kv": draw.randrange(3, 9),
        "d_ff": draw.randrange(20, 90),
        "num_layers": 2,
        "num_decoder_layers": draw.choice((1, 3)),
        "num_heads": draw.choice((2, 3)),
        "feed_forward_proj": draw.choice(("relu", "gated-gelu")),
        "decoder_start_token_id": 0,
    }


def windowed(draw: random.Random) -> dict[str, Any]:
    return {**decoder(draw), "sliding_window": draw.choice((4, 9, 30))}


def mixed(draw: random.Random) -> dict[str, Any]:
    """Full and windowed layers, in any order."""
    sizes = windowed(draw)
    kinds = ("sliding_attention", "full_attention")
    return {**sizes, "layer_types": [draw.choice(kinds) for _ in range(sizes["num_hidden_layers"])]}


def falcon(draw: random.Random) -> dict[str, Any]:
    """With the new block: keys and values are repeated, and then kept."""
    return {
        "vocab_size": 60,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_kv_heads": draw.choice((1, 2)),
        "num_hidden_layers": draw.choice((1, 2)),
        "new_decoder_architecture": True,
    }


def opt(draw: random.Random) -> dict[str, Any]:
    return {
        "vocab_size": 60,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "num_hidden_layers": draw.choice((1, 3)),
        "word_embed_proj_dim": draw.choice((10, 16)),
        "ffn_dim": draw.randrange(20, 90),
        "max_position_embeddings": 64,
    }


FAMILIES: list[Family] = [
    ("gpt2", "GPT2LMHeadModel", gpt2),
    ("llama", "LlamaForCausalLM", decoder),
    ("mistral", "MistralForCausalLM", windowed),
    ("gemma2", "Gemma2ForCausalLM", windowed),
    ("qwen3", "Qwen3ForCausalLM", decoder),
    (
        "mixtral",
        "MixtralForCausalLM",
        lambda draw: {**decoder(draw), **experts(draw), "num_local_experts": 5},
    ),
    ("qwen3_moe", "Qwen3MoeForCausalLM", lambda draw: {**decoder(draw), **experts(draw), "num_experts": 6}),
    ("deepseek_v3", "DeepseekV3ForCausalLM", latent),
    ("bert", "BertForMaskedLM", bert),
    ("t5", "T5ForConditionalGeneration", t5),
]
# Beside them, those that keep or read something in another way.
MORE: list[Family] = [
    (
        "deepseek_v2",
        "DeepseekV2ForCausalLM",
        lambda draw: {**latent(draw), "topk_method": "greedy", "qk_nope_head_dim": 6},
    ),
    ("gemma3_text", "Gemma3ForCausalLM", mixed),
    (
        "gpt_oss",
        "GptOssForCausalLM",
        lambda draw: {**mixed(draw), "num_experts_per_tok": 2, "num_local_experts": 4},
    ),
    ("opt", "OPTForCausalLM", opt),
    ("falcon", "FalconForCausalLM", falcon),
]


def drawn(family: Family, seed: int) -> tuple[Model, dict[str, Any]]:
    """A model of a family, and the lengths of a run of it."""
    kind, cls, sizes = family
    draw = random.Random(f"{kind} {seed}")
    model = sizer.load({"model_type": kind, **sizes(draw)}, cls=cls)
    lengths = {"batch_size": draw.randrange(1, 4), "seq_len": draw.randrange(5, 30)}
    return model, {**lengths, "encoder_len": draw.randrange(3, 20) if kind == "t5" else None}
