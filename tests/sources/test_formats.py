"""Configurations in other tools' words: published totals, and what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from repository import FIXTURES

import sizer
from sizer.core.walk import walk
from sizer.loading import from_text
from sizer.measures.count import count

LITGPT = [json.loads(line) for line in (FIXTURES / "litgpt.jsonl").read_text().splitlines()]

GPT2 = {"n_layer": 12, "n_head": 12, "n_embd": 768}
BOOK = {"vocab_size": 50257, "context_length": 1024, "emb_dim": 768, "n_heads": 12, "n_layers": 12}
MEGATRON = {"num_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 1024}
LLAMA = {
    "ffn_hidden_size": 14336,
    "group_query_attention": True,
    "num_query_groups": 8,
    "swiglu": True,
    "untie_embeddings_and_output_weights": True,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "disable_bias_linear": True,
}
LLAMA_8B = {**LLAMA, "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}
DEEPSEEK = {
    **LLAMA,
    "group_query_attention": False,
    "num_layers": 61,
    "hidden_size": 7168,
    "ffn_hidden_size": 18432,
    "num_attention_heads": 128,
    "multi_latent_attention": True,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_layernorm": True,
    "padded_vocab_size": 129280,
    "num_experts": 256,
    "moe_router_topk": 8,
    "moe_ffn_hidden_size": 2048,
    "moe_shared_expert_intermediate_size": 2048,
    "moe_layer_freq": "([0]*3+[1]*58)",
    "moe_router_enable_expert_bias": True,
}
NEOX = {
    "pos_emb": "rotary",
    "rotary_pct": 0.25,
    "no_weight_tying": True,
    "gpt_j_residual": True,
    "tokenizer_type": "HFTokenizer",
}
PARAMS_7B = {"dim": 4096, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-6, "vocab_size": -1}
MISTRAL = {**PARAMS_7B, "head_dim": 128, "hidden_dim": 14336, "n_kv_heads": 8, "vocab_size": 32000}


def dashed(values: dict[str, Any]) -> dict[str, Any]:
    return {"--" + key.replace("_", "-"): value for key, value in values.items()}


# id, configuration, total, where the total is from
TOTALS = [
    ("nanogpt", {**GPT2, "block_size": 1024, "vocab_size": 50257}, 124_439_808, "GPT-2 in transformers"),
    ("nanogpt-no-bias", {**GPT2, "block_size": 1024, "bias": False}, 124_373_760, "nanoGPT: 123.59M and wpe"),
    ("hparams", {**GPT2, "n_ctx": 1024, "n_vocab": 50257}, 124_439_808, "GPT-2 in transformers"),
    ("book-gpt", {**BOOK, "drop_rate": 0.1, "qkv_bias": False}, 163_009_536, "the book, chapter 4"),
    (
        "book-llama2",
        {**BOOK, "vocab_size": 32000, "emb_dim": 4096, "n_heads": 32, "n_layers": 32, "hidden_dim": 11008},
        6_738_415_616,
        "the book, chapter 5",
    ),
    (
        "book-qwen3",
        {
            **BOOK,
            "vocab_size": 151_936,
            "emb_dim": 1024,
            "n_heads": 16,
            "n_layers": 28,
            "hidden_dim": 3072,
            "head_dim": 128,
            "qk_norm": True,
            "n_kv_groups": 8,
        },
        751_632_384,
        "the book, chapter 5",
    ),
    (
        "book-qwen3-moe",
        {
            **BOOK,
            "vocab_size": 151_936,
            "emb_dim": 2048,
            "n_heads": 32,
            "n_layers": 48,
            "head_dim": 128,
            "qk_norm": True,
            "n_kv_groups": 4,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
        },
        30_532_122_624,
        "Qwen3-30B-A3B in transformers",
    ),
    ("llama-7b", {**PARAMS_7B, "multiple_of": 256}, 6_738_415_616, "LLaMA in transformers"),
    (
        "llama-2-70b",
        {
            **PARAMS_7B,
            "dim": 8192,
            "multiple_of": 4096,
            "ffn_dim_multiplier": 1.3,
            "n_heads": 64,
            "n_kv_heads": 8,
            "n_layers": 80,
        },
        68_976_648_192,
        "Llama-2-70b in litgpt",
    ),
    (
        "llama-3-8b",
        {
            **PARAMS_7B,
            "n_kv_heads": 8,
            "vocab_size": 128256,
            "multiple_of": 1024,
            "ffn_dim_multiplier": 1.3,
        },
        8_030_261_248,
        "Llama 3 in transformers",
    ),
    ("mistral-7b", {**MISTRAL, "sliding_window": 4096}, 7_241_732_096, "Mistral in transformers"),
    (
        "mixtral-8x7b",
        {**MISTRAL, "moe": {"num_experts": 8, "num_experts_per_tok": 2}},
        46_702_792_704,
        "Mixtral in transformers",
    ),
    (
        "megatron-gpt2",
        {**dashed(MEGATRON), "--vocab-size": 50257, "--make-vocab-size-divisible-by": 1},
        124_439_808,
        "GPT-2 in transformers",
    ),
    (
        "megatron-padded",
        {**MEGATRON, "vocab_size": 50257, "micro_batch_size": 4},
        124_439_808 + 47 * 768,
        "GPT-2, and 47 rows of padding",
    ),
    (
        "megatron-padded-tp8",
        {**MEGATRON, "vocab_size": 50257, "tensor_model_parallel_size": 8},
        124_439_808 + 943 * 768,
        "GPT-2, and 943 rows of padding to a multiple of 1024",
    ),
    (
        "megatron-llama",
        {key.replace("_", "-"): v for key, v in {**LLAMA_8B, "padded_vocab_size": 128256}.items()},
        8_030_261_248,
        "Llama 3 in transformers",
    ),
    (
        "megatron-mixtral",
        {**LLAMA_8B, "vocab_size": 32000, "tensor_model_parallel_size": 2, "num_experts": 8},
        46_702_792_704,
        "Mixtral in transformers",
    ),
    (
        "megatron-groups",
        {"MODEL_ARGS": dashed({**MEGATRON, "padded_vocab_size": 50257})},
        124_439_808,
        "GPT-2",
    ),
    ("megatron-deepseek", DEEPSEEK, 671_026_404_352, "DeepSeek-V3 in transformers"),
    (
        "neox-20b",
        {
            **NEOX,
            "num-layers": 44,
            "hidden-size": 6144,
            "num-attention-heads": 64,
            "model-parallel-size": 2,
        },
        20_554_567_680,
        "GPT-NeoX-20B in transformers",
    ),
    (
        "pythia-12b",
        {**NEOX, "num_layers": 36, "hidden_size": 5120, "num_attention_heads": 40, "model_parallel_size": 4},
        11_846_072_320,
        "litgpt, transformers",
    ),
    (
        "neox-llama",
        {
            "num_layers": 32,
            "hidden_size": 4096,
            "intermediate_size": 32768,
            "num_attention_heads": 32,
            "pos_emb": "rotary",
            "no_weight_tying": True,
            "norm": "rmsnorm",
            "use_bias_in_mlp": False,
            "use_bias_in_attn_linear": False,
            "activation": "swiglu",
            "mlp_multiple_of": 256,
            "vocab_size": 32000,
            "make_vocab_size_divisible_by": 1,
        },
        6_738_415_616,
        "LLaMA in transformers",
    ),
    (
        "llm-analysis",
        {
            "name": "gpt2-xl",
            "num_layers": 48,
            "n_head": 25,
            "hidden_dim": 1600,
            "vocab_size": 50257,
            "max_seq_len": 1024,
            "ffn_embed_dim": 6400,
            "model_type": "gpt2",
        },
        1_557_611_200,
        "GPT-2 XL in transformers",
    ),
    (
        "deepseek-671b",
        json.loads((FIXTURES / "configs" / "config_671B.json").read_text()),
        671_026_419_200,
        "DeepSeek-V3 in transformers, and 58 biases of 256, which this code has as parameters",
    ),
]


@pytest.mark.parametrize(("config", "total"), [row[1:3] for row in TOTALS], ids=[row[0] for row in TOTALS])
def test_total(config: dict[str, Any], total: int) -> None:
    assert sizer.load(config).count().total == total


@pytest.mark.parametrize("config", [row[1] for row in TOTALS], ids=[row[0] for row in TOTALS])
def test_symbols(config: dict[str, Any]) -> None:
    model = sizer.load(config)
    letters = count(walk(model.symbolic_tree())).total
    assert letters.subs(model.symbolic[1]) == model.count().total


@pytest.mark.parametrize("row", LITGPT, ids=[row["config"]["name"] for row in LITGPT])
def test_litgpt(row: dict[str, Any]) -> None:
    model = sizer.load(row["config"])
    assert model.count().total == row["total"]
    own = [t for t in model.tensors(layout="transformers") if t.kind == "param"]
    lines = sorted(f"{t.name} {t.shape}" for t in own)
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] == row["tensors"]


def test_litgpt_writes_the_names_of_transformers() -> None:
    by_name = {row["config"]["name"]: row["config"] for row in LITGPT}
    names = {t.name for t in sizer.load(by_name["Mixtral-8x7B-v0.1"]).tensors()}
    assert "model.layers.0.block_sparse_moe.experts.7.w1.weight" in names
    assert "model.layers.0.self_attn.q_proj.weight" in names
    names = {t.name for t in sizer.load(by_name["pythia-14m"]).tensors()}
    assert "gpt_neox.layers.0.attention.query_key_value.bias" in names


def test_megatron_names() -> None:
    """The tensors of one layer of megatron-core 0.16.1's `GPTModel`, local layers, on one rank."""
    config = {**LLAMA, "num_layers": 4, "hidden_size": 256, "num_attention_heads": 8, "num_query_groups": 2}
    model = sizer.load({**config, "ffn_hidden_size": 704, "padded_vocab_size": 1024})
    assert model.count().total == 3_344_640
    assert {
        t.name: t.shape for t in model.tensors() if ".layers." not in t.name or ".layers.0." in t.name
    } == {
        "embedding.word_embeddings.weight": (1024, 256),
        "decoder.layers.0.input_layernorm.weight": (256,),
        "decoder.layers.0.self_attention.linear_proj.weight": (256, 256),
        "decoder.layers.0.self_attention.linear_qkv.weight": (384, 256),
        "decoder.layers.0.pre_mlp_layernorm.weight": (256,),
        "decoder.layers.0.mlp.linear_fc1.weight": (1408, 256),
        "decoder.layers.0.mlp.linear_fc2.weight": (256, 704),
        "decoder.final_layernorm.weight": (256,),
        "output_layer.weight": (1024, 256),
    }


def test_yaml() -> None:
    text = "# sizes\nn_layer: 12\nn_head: 12\nn_embd: 768\nblock_size: 1_024\nvocab_size: 50257\n"
    assert from_text(text, name="standard input").count().total == 124_439_808


def test_yaml_on_the_command_line(sizer_cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "model_config.yaml"
    path.write_text("hf_config: {org: EleutherAI, name: pythia-14m}\nn_layer: 6\nn_embd: 128\nn_head: 4\n")
    assert sizer_cli("count", str(path), "-q")[0] == 0
    assert sizer_cli("count", str(tmp_path), "-q")[0] == 0


def test_overrides_follow_the_rules_of_the_format() -> None:
    config = {**GPT2, "block_size": 1024, "vocab_size": 50257}
    assert sizer.load(config, d_model=1536).tensors()[-1].shape == (50257, 1536)
    mlp = next(t for t in sizer.load(config, n_embd=1536).tensors() if t.name.endswith("c_fc.weight"))
    assert mlp.shape == (6144, 1536)
    assert sizer.load(config, tie_embeddings=False).count().total == 124_439_808 + 50257 * 768


def test_an_override_under_two_names_of_one_size_is_refused() -> None:
    config = {**GPT2, "block_size": 1024, "vocab_size": 50257}
    with pytest.raises(sizer.SizerError, match="n_layer is set twice"):
        sizer.load(config, n_layer=3, n_layers=3)


SMALL = {**NEOX, "num_layers": 2, "hidden_size": 96, "num_attention_heads": 4, "padded_vocab_size": 100}
# By hand: two tables, two layers of four matrices with biases and an MLP of 4·96 with biases, norms.
SMALL_TOTAL = 2 * 100 * 96 + 2 * (4 * 96**2 + 4 * 96 + 8 * 96**2 + 5 * 96 + 4 * 96) + 2 * 96
NEOX_ROWS: list[tuple[str, dict[str, Any], int]] = [
    ("plain", {}, 0),
    ("learned positions", {"pos_emb": "learned", "max_position_embeddings": 64}, 64 * 96),
    ("kinds of attention", {"attention_config": [[["global", "local"], 1]]}, 0),
    ("one kind of attention", {"attention_config": ["flash"]}, 0),
    # 2·4·96/3 = 256: three matrices without biases in place of two of 384 with.
    ("LLaMA's first MLP", {"mlp_type": "llama"}, 2 * (3 * 96 * 256 - 8 * 96**2 - 5 * 96)),
]


@pytest.mark.parametrize(("more", "difference"), [r[1:] for r in NEOX_ROWS], ids=[r[0] for r in NEOX_ROWS])
def test_what_changes_a_gpt_neox(more: dict[str, Any], difference: int) -> None:
    assert sizer.load({**SMALL, **more}).count().total == SMALL_TOTAL + difference


LIT = {
    "n_layer": 2, "n_head": 4, "n_embd": 64, "padded_vocab_size": 100, "block_size": 32, "bias": False,
    "norm_class_name": "RMSNorm", "mlp_class_name": "LLaMAMLP", "intermediate_size": 128,
}  # fmt: skip
LIT_TOTAL = 2 * 100 * 64 + 2 * (4 * 64**2 + 3 * 64 * 128 + 2 * 64) + 64
LATENT = {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 10,
}
# litgpt/model.py, MultiheadLatentAttention: q down, norm, q up; kv down, norm, kv up; out.
LATENT_LAYER = 64 * 24 + 24 + 24 * 4 * 20 + 64 * 24 + 16 + 16 * 4 * 22 + 4 * 10 * 64
MOE = {"mlp_class_name": "LLaMAMoE", "n_expert": 4, "n_expert_per_token": 2, "moe_intermediate_size": 32}
# A router, and four experts in place of one MLP.
MOE_LAYER = 4 * 64 + 4 * 3 * 64 * 32 - 3 * 64 * 128
LIT_ROWS: list[tuple[str, dict[str, Any], int]] = [
    ("plain", {}, 0),
    ("a window in no layer", {"sliding_window_size": 8, "sliding_window_indices": [0, 0]}, 0),
    ("a window in one layer", {"sliding_window_size": 8, "sliding_window_indices": [True, False, True]}, 0),
    ("a window in all layers", {"sliding_window_size": 8, "sliding_window_indices": [1, 1]}, 0),
    ("no rotary positions", {"rotary_percentage": 0.0}, 0),
    # litgpt/model.py, CausalSelfAttention: norms of a head, or of all heads for OLMo 2.
    ("norms of a head", {"norm_qk": True}, 2 * 2 * 16),
    ("norms of all heads", {"norm_qk": True, "norm_qk_type": "olmo2"}, 2 * 2 * 64),
    ("latent attention", {"latent_attention": LATENT}, 2 * (LATENT_LAYER - 4 * 64**2)),
    ("no latent attention", {"latent_attention": {}}, 0),
    ("experts", MOE, 2 * MOE_LAYER),
    ("experts behind a dense layer", {**MOE, "first_k_dense_replace": 1}, MOE_LAYER),
    ("experts behind all layers", {**MOE, "first_k_dense_replace": 2}, 0),
]


@pytest.mark.parametrize(("more", "difference"), [r[1:] for r in LIT_ROWS], ids=[r[0] for r in LIT_ROWS])
def test_what_changes_a_model_of_litgpt(more: dict[str, Any], difference: int) -> None:
    assert sizer.load({**LIT, **more}).count().total == LIT_TOTAL + difference


def test_a_layer_of_no_known_kind_is_refused() -> None:
    with pytest.raises(sizer.SizerError, match="moe_layers has 'mo'; a layer is dense or moe"):
        sizer.load({**LIT, **MOE}, moe_layers=["moe", "mo"])


SMALL_GPT2 = 124_439_808
MEGATRON_ROWS: list[tuple[str, dict[str, Any], int, str]] = [
    ("rotary", {"use_rotary_position_embeddings": True}, -1024 * 768, ""),
    ("no positions", {"no_position_embedding": True}, -1024 * 768, ""),
    ("a head of its own", {"share_embeddings_and_output_weights": False}, 50257 * 768, ""),
    ("a tied head", {"share_embeddings_and_output_weights": True}, 0, ""),
    ("groups", {"num_query_groups": 4}, -12 * 2 * 8 * 64 * 769, "num_query_groups is taken at its word"),
    ("groups that are off", {"group_query_attention": False, "num_query_groups": 4}, 0, ""),
    ("one group", {"group_query_attention": True}, -12 * 2 * 11 * 64 * 769, ""),
    ("more tokens than one", {"mtp_num_layers": 1}, 0, "(mtp_num_layers) are not counted"),
]


@pytest.mark.parametrize(
    ("more", "difference", "said"), [r[1:] for r in MEGATRON_ROWS], ids=[r[0] for r in MEGATRON_ROWS]
)
def test_what_changes_a_gpt_of_megatron(more: dict[str, Any], difference: int, said: str) -> None:
    model = sizer.load({**MEGATRON, "padded_vocab_size": 50257, **more})

    assert model.count().total == SMALL_GPT2 + difference
    assert said in " ".join(model.assumptions)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sliding_window": [None, 4096]}, ""),
        ({"vision_encoder": {"hidden_size": 8}}, "the vision encoder is not counted"),
        ({"vision_chunk_size": 448}, "the vision encoder is not counted"),
    ],
    ids=["windows", "encoder", "chunks"],
)
def test_what_changes_no_parameter_of_a_mistral(more: dict[str, Any], said: str) -> None:
    model = sizer.load({**MISTRAL, **more})

    assert model.count().total == 7_241_732_096
    assert said in " ".join(model.assumptions)


# id, configuration, fragments of the message
REFUSED = [
    ("nothing", {}, ["no model_type", "no configuration of litgpt", "Megatron"]),
    ("two", {**GPT2, "block_size": 8, "n_ctx": 8}, ["nanoGPT (block_size", "hparams.json (n_ctx"]),
    ("two-hyphens", {**MEGATRON, "swiglu": True, "pos_emb": "rotary"}, ["Megatron", "GPT-NeoX"]),
    ("misspelt", {**GPT2, "block_size": 8, "vocab_sizee": 9}, ["'vocab_sizee'", "'vocab_size'"]),
    ("misspelt-needed", {"n_layer": 2, "n_heed": 2, "n_embd": 8, "block_size": 8}, ["'n_heed'", "'n_head'"]),
    ("text", {**GPT2, "block_size": "1024"}, ["block_size = '1024'", "whole number"]),
    ("float", {**GPT2, "n_embd": 768.0, "block_size": 8}, ["n_embd = 768.0", "whole number"]),
    ("bool", {**GPT2, "n_embd": True, "block_size": 8}, ["n_embd = True"]),
    ("zero", {**GPT2, "n_layer": 0, "block_size": 8}, ["n_layer = 0", "at least 1"]),
    ("huge", {**GPT2, "n_layer": 10**5000, "block_size": 8}, ["n_layer is beyond"]),
    ("factor", {**PARAMS_7B, "multiple_of": 256, "ffn_dim_multiplier": 10**400}, ["ffn_dim_multiplier"]),
    ("not-divisible", {**GPT2, "n_embd": 100, "block_size": 8}, ["d_model = 100", "n_heads = 12"]),
    ("no-vocabulary", {**MEGATRON, "swiglu": True}, ["vocab_size", "tokenizer"]),
    (
        "no-positions",
        {"num_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "swiglu": True, "padded_vocab_size": 8},
        ["max_position_embeddings is missing"],
    ),
    ("expression", {**DEEPSEEK, "moe_layer_freq": "__import__('os')"}, ["moe_layer_freq"]),
    ("expression-long", {**DEEPSEEK, "moe_layer_freq": "[0]*999999999999"}, ["moe_layer_freq"]),
    (
        "hybrid",
        {**MEGATRON, "swiglu": True, "padded_vocab_size": 8, "hybrid_layer_pattern": "M*"},
        ["hybrid"],
    ),
    ("mamba", {**MEGATRON, "vocab_size": 8, "attention_config": [[["mamba"], 12]]}, ["'mamba'"]),
    ("llama4", {**PARAMS_7B, "moe_args": {"num_experts": 16}}, ["moe_args", "Llama 4"]),
    ("twice", {"--num-layers": 2, "num_layers": 2}, ["num_layers is given twice"]),
    ("book-mixed", {**BOOK, "qkv_bias": True, "n_kv_groups": 4}, ["qkv_bias", "n_kv_groups"]),
    ("quantization", {"producer": {"name": "modelopt"}, "quantization": {}}, ["quantization", "config.json"]),
    ("index", {"metadata": {"total_size": 1}, "weight_map": {}}, ["index of a checkpoint"]),
]


@pytest.mark.parametrize(
    ("config", "fragments"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_refused(config: dict[str, Any], fragments: list[str]) -> None:
    with pytest.raises(sizer.SizerError) as caught:
        sizer.load(config).count()
    assert "\n" not in str(caught.value)
    for fragment in fragments:
        assert fragment in str(caught.value)
