"""Layers for multi-token prediction, against the totals of published files."""

from __future__ import annotations

import pytest

import sizer

# preset, elements of the published BF16 files (or weights and biases of the FP8 ones), whether the
# files repeat the embedding and the head, where the total is from
PUBLISHED = [
    (
        "deepseek-v3",
        684_531_386_000 - 41_540_496,
        True,
        "hub: BF16 3,918,786,560 + F8_E4M3 680,571,043,840 + F32 41,555,600, without the scales of FP8",
    ),
    ("glm-4.5", 358_337_791_296, True, "hub: safetensors total of zai-org/GLM-4.5"),
    ("glm-4.5-air", 110_468_824_832, True, "hub: safetensors total of zai-org/GLM-4.5-Air"),
    ("glm-5", 753_864_139_008, False, "hub: safetensors total of zai-org/GLM-5"),
    ("qwen3-next-80b-a3b", 81_324_862_720, False, "hub: safetensors total of Qwen3-Next-80B-A3B-Instruct"),
]


@pytest.mark.parametrize(("preset", "published", "repeated", "source"), PUBLISHED)
def test_what_the_files_hold(preset: str, published: int, repeated: bool, source: str) -> None:
    count = sizer.load(preset, count_mtp=True).count()

    assert count.total + count.buffers + (count.tied if repeated else 0) == published


# Layer 61 of DeepSeek-V3, as its index lists it: README_WEIGHTS.md of deepseek-ai/DeepSeek-V3.
LAYER_61 = {
    "embed_tokens.weight": (129280, 7168),
    "enorm.weight": (7168,),
    "hnorm.weight": (7168,),
    "eh_proj.weight": (7168, 14336),
    "input_layernorm.weight": (7168,),
    "self_attn.q_a_proj.weight": (1536, 7168),
    "self_attn.kv_b_proj.weight": (32768, 512),
    "post_attention_layernorm.weight": (7168,),
    "mlp.gate.weight": (256, 7168),
    "mlp.gate.e_score_correction_bias": (256,),
    "mlp.experts.255.down_proj.weight": (7168, 2048),
    "mlp.shared_experts.gate_proj.weight": (2048, 7168),
    "shared_head.norm.weight": (7168,),
    "shared_head.head.weight": (129280, 7168),
}


def test_the_names_of_deepseek_v3() -> None:
    tensors = {t.name: t for t in sizer.load("deepseek-v3", count_mtp=True).tensors()}

    found = {name: tensors[f"model.layers.61.{name}"].shape for name in LAYER_61}
    assert found == LAYER_61
    assert tensors["model.layers.61.embed_tokens.weight"].tied_to == "model.embed_tokens.weight"
    assert not any(name.startswith("model.layers.62.") for name in tensors)


def test_the_names_of_qwen3_next() -> None:
    """As vLLM loads them from the files of Qwen3-Next."""
    names = {t.name for t in sizer.load("qwen3-next-80b-a3b", count_mtp=True).tensors()}

    assert {
        "mtp.fc.weight",
        "mtp.norm.weight",
        "mtp.pre_fc_norm_embedding.weight",
        "mtp.pre_fc_norm_hidden.weight",
        "mtp.layers.0.self_attn.q_proj.weight",
        "mtp.layers.0.mlp.experts.511.down_proj.weight",
        "mtp.layers.0.mlp.shared_expert_gate.weight",
    } <= names


@pytest.mark.parametrize("preset", [row[0] for row in PUBLISHED])
def test_they_are_off_by_default(preset: str) -> None:
    model = sizer.load(preset)

    assert model.mtp_params > 0
    assert not any("mtp." in t.name or "eh_proj" in t.name for t in model.tensors())
    assert any("count_mtp=true" in line for line in model.assumptions)


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_the_number_of_layers_is_the_files(layers: int) -> None:
    config = {
        "model_type": "deepseek_v3",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 128,
        "moe_intermediate_size": 32,
        "n_routed_experts": 4,
        "first_k_dense_replace": 1,
        "vocab_size": 100,
        "num_nextn_predict_layers": layers,
    }
    names = {
        t.name.split(".")[2] for t in sizer.load(config, count_mtp=True).tensors() if ".layers." in t.name
    }

    assert names == {str(i) for i in range(2 + layers)}


LONGCAT = {
    "model_type": "longcat_flash",
    "architectures": ["LongcatFlashForCausalLM"],
    "hidden_size": 6144,
    "num_layers": 28,
    "vocab_size": 131072,
    "num_attention_heads": 64,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048,
    "n_routed_experts": 512,
    "zero_expert_num": 256,
    "moe_topk": 12,
    "num_nextn_predict_layers": 1,
}


def test_longcat_flash() -> None:
    """561,862,880,256: hub, safetensors total of LongCat-Flash-Chat; one copy of the table."""
    model = sizer.load(LONGCAT, count_mtp=True)
    count = model.count()
    names = {t.name for t in model.tensors()}

    assert count.total + count.buffers + count.tied == 561_862_880_256
    assert {
        "model.mtp.embed_tokens.weight",
        "model.mtp.layers.0.eh_proj.weight",
        "model.mtp.layers.0.enorm.m.weight",
        "model.mtp.layers.0.self_attn.kv_b_proj.weight",
        "model.mtp.layers.0.transformer_layer.mlp.gate_proj.weight",
        "model.mtp.norm.weight",
    } <= names


def test_ernie() -> None:
    """The twelve tensors that vLLM's `ernie_mtp.py` loads: a block without experts, norms, a matrix."""
    config = {
        "model_type": "ernie4_5_moe",
        "hidden_size": 64,
        "intermediate_size": 128,
        "moe_intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "moe_num_experts": 4,
        "vocab_size": 100,
        "num_nextn_predict_layers": 1,
    }
    found = {t.name: t.shape for t in sizer.load(config, count_mtp=True).tensors() if ".mtp_" in t.name}

    assert found == {
        "model.mtp_emb_norm.0.weight": (64,),
        "model.mtp_hidden_norm.0.weight": (64,),
        "model.mtp_linear_proj.0.weight": (64, 128),
        "model.mtp_block.0.input_layernorm.weight": (64,),
        "model.mtp_block.0.self_attn.q_proj.weight": (64, 64),
        "model.mtp_block.0.self_attn.k_proj.weight": (32, 64),
        "model.mtp_block.0.self_attn.v_proj.weight": (32, 64),
        "model.mtp_block.0.self_attn.o_proj.weight": (64, 64),
        "model.mtp_block.0.post_attention_layernorm.weight": (64,),
        "model.mtp_block.0.mlp.gate_proj.weight": (128, 64),
        "model.mtp_block.0.mlp.up_proj.weight": (128, 64),
        "model.mtp_block.0.mlp.down_proj.weight": (64, 128),
    }


@pytest.mark.parametrize(
    "source",
    [LONGCAT, "deepseek-v3", "glm-4.5", "qwen3-next-80b-a3b"],
    ids=lambda x: x if isinstance(x, str) else "longcat",
)
def test_the_formula_with_numbers_is_the_count(source: dict[str, object] | str) -> None:
    model = sizer.load(source, count_mtp=True)

    assert int(model.formula().total.subs(model.symbolic[1])) == model.count().total
