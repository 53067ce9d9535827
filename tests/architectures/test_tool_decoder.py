"""Switches of the training tools whose models no hub has: what a switch adds, by hand."""

from __future__ import annotations

from typing import Any

import pytest

import sizer

NEOX = {
    "pos_emb": "rotary",
    "rotary_pct": 0.25,
    "no_weight_tying": True,
    "gpt_j_residual": True,
    "num_layers": 44,
    "hidden_size": 6144,
    "num_attention_heads": 64,
    "model_parallel_size": 2,
}
MEGATRON = {
    "num_layers": 4,
    "hidden_size": 2048,
    "ffn_hidden_size": 10944,
    "num_attention_heads": 16,
    "multi_latent_attention": True,
    "q_lora_rank": 768,
    "kv_lora_rank": 512,
    "swiglu": True,
    "untie_embeddings_and_output_weights": True,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "disable_bias_linear": True,
    "qk_layernorm": True,
    "padded_vocab_size": 102400,
}
DEEPSEEK = {"dim": 2048, "n_layers": 27, "n_heads": 16, "inter_dim": 10944, "moe_inter_dim": 1408}
# configuration, what is said besides, what that adds, its source
SWITCHES = [
    # Two norms in each of 44 layers and one at the end: a number in place of a weight and a bias.
    (NEOX, {"norm": "scalenorm"}, 89 * (1 - 2 * 6144), "gpt-neox: megatron/model/norms.py, ScaleNorm"),
    # One norm over heads x width, for queries and keys alike.
    (NEOX, {"use_qk_layernorm": True}, 44 * 2 * 6144, "gpt-neox: megatron/model/transformer.py"),
    # One matrix to the queries (16 heads of 128 + 64) in place of two and a norm between them.
    (
        MEGATRON,
        {"q_lora_rank": None},
        4 * (2048 * 16 * 192 - (2048 * 768 + 768 + 768 * 16 * 192)),
        "megatron-core: transformer/multi_latent_attention.py",
    ),
    # Two shared experts of three matrices, in all layers but the first.
    (DEEPSEEK, {"n_shared_experts": 0}, -26 * 3 * 2048 * 2 * 1408, "DeepSeek-V3: inference/model.py, MoE"),
]


@pytest.mark.parametrize(
    ("config", "said", "added", "source"), SWITCHES, ids=[str(row[1]) for row in SWITCHES]
)
def test_what_a_switch_adds(config: dict[str, Any], said: dict[str, Any], added: int, source: str) -> None:
    without, with_ = sizer.load(config).count().total, sizer.load({**config, **said}).count().total

    assert with_ - without == added, source
