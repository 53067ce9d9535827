"""Keys of models whose code is in their repositories, one at a time: what each adds, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from test_remote_code import JINA, NOMIC, YUAN_M32, chatglm, llama_like, nas, openelm, phi

import sizer

YUAN = llama_like("yuan", "YuanForCausalLM", 135040, 2048, 8192, 24, 32)
MINICPM = llama_like("minicpm", "MiniCPMForCausalLM", 122753, 2304, 5760, 40, 36, 36)
PHI = phi("phi-msft", "PhiForCausalLM", 2560, 32)
NAS = nas([(1, 8, 5.25), (1, 4, 1.0)], hidden_size=8192, num_attention_heads=64)


def of(config: dict[str, Any], cls: str) -> dict[str, Any]:
    return {**config, "architectures": [cls]}


# without, with, what that adds, the file that says so
SWITCHES = [
    (
        chatglm(28, 65024),
        of(chatglm(28, 65024), "ChatGLMForSequenceClassification"),
        4096 * 2 + 2,
        "chatglm3-6b/modeling_chatglm.py: classifier_head beside the output layer",
    ),
    (
        of(JINA, "JinaBertModel"),
        of(JINA, "JinaBertForSequenceClassification"),
        768 * 2 + 2,
        "jina-bert-implementation/modeling_bert.py: a pooler in both, and classifier",
    ),
    (NOMIC, {**NOMIC, "type_vocab_size": 0}, -2 * 768, "nomic-bert-2048: no token_type_embeddings"),
    # A norm with its bias, and the head with one.
    (PHI, of(PHI, "PhiModel"), -(2 * 2560 + 51200 * 2560 + 51200), "phi-2/modeling_phi.py: CausalLMHead"),
    # One matrix, two scales and two shifts; without them two matrices, the two convolutions of two tokens
    # to D/2 and back, with biases, and a norm.
    (
        YUAN,
        {**YUAN, "use_shareqk": True},
        24 * ((2048**2 + 4 * 2048) - (2 * 2048**2 + 2 * (2 * 2048 * 1024) + 1024 + 2048 + 2048)),
        "Yuan2-2B/yuan_hf_model.py: use_shareqk",
    ),
    # A gate in place of the queries, keys and values of 32 experts.
    (
        YUAN_M32,
        {**YUAN_M32, "moe_config": {**YUAN_M32["moe_config"], "router_type": "top_k"}},
        -24 * 2 * 32 * 2048,
        "Yuan2-M32/yuan_hf_model.py: router_type",
    ),
    (
        MINICPM,
        {**MINICPM, "num_experts": 8, "num_experts_per_tok": 2},
        40 * (7 * 3 * 2304 * 5760 + 8 * 2304),
        "MiniCPM-MoE-8x2B/modeling_minicpm.py: MiniCPMMoE",
    ),
]


@pytest.mark.parametrize(
    ("without", "with_", "added", "source"), SWITCHES, ids=[row[3].partition(":")[0] for row in SWITCHES]
)
def test_what_a_key_adds(without: dict[str, Any], with_: dict[str, Any], added: int, source: str) -> None:
    assert sizer.load(with_).count().total - sizer.load(without).count().total == added, source


def test_blocks_in_numbers_are_those_in_ratios() -> None:
    """64 heads in groups of 8 and of 4; 5.25 and 1 times two thirds of the width, in steps of 256."""
    sizes = [(8, 28672), (16, 5632)]
    blocks = [
        {"attention": {"num_key_value_heads": heads}, "ffn": {"intermediate_size": width}}
        for heads, width in sizes
    ]
    named = {tensor.name: tensor.shape for tensor in sizer.load({**NAS, "model_type": "deci"}).tensors()}

    assert named["model.layers.0.self_attn.k_proj.weight"] == (8 * 128, 8192)
    assert named["model.layers.1.mlp.up_proj.weight"] == (5632, 8192)
    for model_type in ("deci", "nemotron-nas"):
        numbers = sizer.load({**NAS, "model_type": model_type, "block_configs": blocks})
        assert {tensor.name: tensor.shape for tensor in numbers.tensors()} == named


def test_a_model_without_attention_has_no_norm_for_it() -> None:
    bare = sizer.load(nas([(2, None, 1.0)], hidden_size=768, num_attention_heads=12))
    names = {tensor.name for tensor in bare.tensors()}

    assert {name for name in names if ".1." in name} == {
        f"model.layers.1.{name}.weight"
        for name in ("post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    }
    assert bare.kv_cache(seq_len=100, dtype="bf16").bytes == 0


NO_GROUP = {"attention": {"n_heads_in_group": 0}, "ffn": {"ffn_mult": 1.0}}
REFUSED = [
    (of(NOMIC, "NomicBertForSequenceClassification"), "only the encoder and its masked model are known"),
    ({**openelm(16, 1280, 64), "ffn_multipliers": [0.5, -4.0]}, "is not a list of positive numbers"),
    ({**NAS, "block_configs": [NO_GROUP] * 2}, "n_heads_in_group = 0 is not a positive number"),
    ({**NAS, "num_hidden_layers": 3}, "2 layers and n_layers = 3"),
]


@pytest.mark.parametrize(("config", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_is_wrong_is_said(config: dict[str, Any], words: str) -> None:
    with pytest.raises(sizer.SizerError, match=words):
        sizer.load(config)
