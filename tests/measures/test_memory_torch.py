"""Real training steps of small models drawn at random; needs the torch extra."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sizer  # noqa: E402
from sizer.oracles.memory import DTYPES, measure  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
NAMES = {"fp32": "float32", "bf16": "bfloat16", "int64": "int64"}


def gpt2(draw: random.Random) -> dict[str, Any]:
    heads = draw.choice([1, 2, 4])
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": draw.choice([50, 333]),
        "n_positions": 64,
        "n_embd": heads * draw.choice([8, 20]),
        "n_layer": draw.choice([1, 2, 5]),
        "n_head": heads,
        "n_inner": draw.choice([None, 100]),
        "activation_function": draw.choice(["gelu_new", "gelu", "relu", "silu"]),
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": draw.random() < 0.5,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


def llama(draw: random.Random) -> dict[str, Any]:
    heads = draw.choice([1, 2, 4])
    qwen = draw.random() < 0.3
    return {
        "model_type": "qwen3" if qwen else "llama",
        "architectures": ["Qwen3ForCausalLM" if qwen else "LlamaForCausalLM"],
        "vocab_size": draw.choice([50, 333]),
        "hidden_size": 48,
        "num_hidden_layers": draw.choice([1, 2, 5]),
        "num_attention_heads": heads,
        "num_key_value_heads": draw.choice([k for k in (1, 2, 4) if heads % k == 0]),
        "head_dim": draw.choice([8, 20]),
        "intermediate_size": draw.choice([40, 100]),
        "max_position_embeddings": 64,
        "attention_bias": draw.random() < 0.3,
        "hidden_act": draw.choice(["silu", "gelu"]),
        "tie_word_embeddings": draw.random() < 0.5,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


def bert(draw: random.Random) -> dict[str, Any]:
    return {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "vocab_size": draw.choice([50, 333]),
        "hidden_size": 32,
        "num_hidden_layers": draw.choice([1, 5]),
        "num_attention_heads": draw.choice([2, 4]),
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }


def t5(draw: random.Random) -> dict[str, Any]:
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "vocab_size": draw.choice([50, 333]),
        "d_model": draw.choice([16, 40]),
        "d_kv": draw.choice([4, 10]),
        "d_ff": draw.choice([20, 64]),
        "num_layers": draw.choice([1, 2, 5]),
        "num_decoder_layers": draw.choice([1, 3, 5]),
        "num_heads": draw.choice([2, 4]),
        "feed_forward_proj": draw.choice(["relu", "gated-gelu"]),
        "dropout_rate": 0.0,
        "decoder_start_token_id": 0,
        "tie_word_embeddings": draw.random() < 0.5,
        "use_cache": False,
    }


def windowed(draw: random.Random) -> dict[str, Any]:
    kind = draw.choice(["mistral", "qwen2"])
    only = {"use_sliding_window": True, "max_window_layers": 1} if kind == "qwen2" else {}
    return {
        **llama(random.Random(draw.random())),
        "model_type": kind,
        "architectures": [{"mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM"}[kind]],
        "sliding_window": draw.choice([3, 7, 50]),
        **only,
    }


@pytest.mark.parametrize("seed", range(36))
def test_a_step_drawn_at_random(seed: int) -> None:
    draw = random.Random(seed)
    kind = [gpt2, llama, bert, t5, windowed][seed % 5]
    config = kind(draw)
    precision = draw.choice(["fp32", "bf16", "autocast"])
    attention, checkpointing = draw.choice(["eager", "sdpa"]), kind is not t5 and draw.random() < 0.4
    sizes = {"batch_size": draw.choice([1, 3]), "seq_len": draw.choice([2, 7, 33])}
    foreach = draw.random() < 0.3
    own = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    made = transformers.AutoConfig.for_model(config["model_type"], **own)
    build = getattr(transformers, config["architectures"][0])._from_config
    module = build(made, attn_implementation=attention, dtype=getattr(torch, DTYPES[precision]))
    if checkpointing:
        module.gradient_checkpointing_enable()

    real = measure(module, precision=precision, foreach=foreach, **sizes)
    model = sizer.load(config)
    how = {"precision": precision, "attention": attention, "checkpointing": checkpointing, **sizes}
    found = model.memory(foreach=foreach, **how)

    # A step makes a scalar here and there that is not followed; its peak has to the byte all else.
    off = {phase: found.peaks[phase] - real.peaks[phase] for phase in real.peaks}
    assert all(abs(n_bytes) < 16 for n_bytes in off.values()), off
    if not checkpointing:
        ledger = model.activations(**how)
        assert ledger.total == real.saved_bytes
        assert ledger.n_tensors == sum(real.saved.values())
    assert found.label == "exact"


def mixtral(draw: random.Random) -> dict[str, Any]:
    kv_heads = draw.choice([1, 2])
    return {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": draw.choice([1, 5]),
        "num_attention_heads": 2 * kv_heads,
        "num_key_value_heads": kv_heads,
        "head_dim": draw.choice([8, 20]),
        "intermediate_size": draw.choice([40, 96]),
        "num_local_experts": draw.choice([3, 8]),
        "num_experts_per_tok": draw.choice([1, 2]),
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


def qwen3_moe(draw: random.Random) -> dict[str, Any]:
    """Layers of experts between dense ones, so that parameters of two kinds follow each other."""
    kind = draw.choice(["qwen3_moe", "olmoe"])
    sizes = mixtral(draw)
    heads = sizes["num_attention_heads"]
    own = {
        "hidden_size": heads * 16,
        "num_hidden_layers": draw.choice([2, 5]),
        "moe_intermediate_size": draw.choice([8, 40]),
        "num_experts": 6,
        "norm_topk_prob": draw.random() < 0.5,
        "decoder_sparse_step": draw.choice([1, 2, 3]),
        "tie_word_embeddings": draw.random() < 0.5,
    }
    if kind == "olmoe":
        own = {k: v for k, v in own.items() if k not in ("moe_intermediate_size", "decoder_sparse_step")}
        sizes = {k: v for k, v in sizes.items() if k != "head_dim"}
    name = {"qwen3_moe": "Qwen3MoeForCausalLM", "olmoe": "OlmoeForCausalLM"}[kind]
    sizes = {k: v for k, v in sizes.items() if k != "num_local_experts"}
    return {**sizes, **own, "model_type": kind, "architectures": [name]}


def deepseek(draw: random.Random) -> dict[str, Any]:
    heads = draw.choice([2, 4])
    return {
        "model_type": "deepseek_v3",
        "architectures": ["DeepseekV3ForCausalLM"],
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": draw.choice([2, 5]),
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "intermediate_size": 40,
        "moe_intermediate_size": draw.choice([8, 40]),
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "n_group": draw.choice([1, 2]),
        "topk_group": 1,
        "first_k_dense_replace": draw.choice([0, 1, 2]),
        "kv_lora_rank": draw.choice([8, 20]),
        "q_lora_rank": draw.choice([None, 24]),
        "qk_rope_head_dim": draw.choice([4, 8]),
        "qk_nope_head_dim": draw.choice([4, 12]),
        "v_head_dim": draw.choice([8, 12, 16]),
        "n_shared_experts": 1,
        "norm_topk_prob": draw.random() < 0.7,
        "rope_interleave": draw.random() < 0.6,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", [mixtral, qwen3_moe, deepseek])
def test_a_step_of_experts_drawn_at_random(kind: Any, seed: int) -> None:
    draw = random.Random(seed)
    config = kind(draw)
    precision, attention = draw.choice(["fp32", "bf16", "autocast"]), draw.choice(["eager", "sdpa"])
    sizes = {"batch_size": draw.choice([1, 3]), "seq_len": draw.choice([2, 7, 33])}
    experts = draw.choice(["grouped_mm", "batched_mm"]) if precision == "fp32" else "grouped_mm"
    own = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    made = transformers.AutoConfig.for_model(config["model_type"], **own)
    module = getattr(transformers, config["architectures"][0])._from_config(
        made,
        attn_implementation=attention,
        experts_implementation=experts,
        dtype=getattr(torch, DTYPES[precision]),
    )
    real = measure(module, precision=precision, **sizes)
    how = {"precision": precision, "attention": attention, "experts": experts, **sizes}
    model = sizer.load(config)
    found, ledger = model.memory(**how), model.activations(**how)

    assert (ledger.total, ledger.n_tensors) == (real.saved_bytes, sum(real.saved.values()))
    off = {phase: found.peaks[phase] - real.peaks[phase] for phase in real.peaks}
    assert all(abs(n_bytes) < 16 for n_bytes in off.values()), off


def test_latent_heads_of_one_width_are_mixed_in_the_order_of_their_queries() -> None:
    """Queries put together head by head: the kernel's output is too, and is copied token by token."""
    same = {"qk_nope_head_dim": 4, "qk_rope_head_dim": 8, "v_head_dim": 12, "q_lora_rank": None}
    config = {**deepseek(random.Random(1)), **same}
    own = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    module = transformers.DeepseekV3ForCausalLM._from_config(
        transformers.DeepseekV3Config(**own), attn_implementation="sdpa", experts_implementation="grouped_mm"
    )
    real = measure(module, batch_size=3, seq_len=7)
    found = sizer.load(config).memory(precision="fp32", attention="sdpa", batch_size=3, seq_len=7)

    assert found.peaks == real.peaks


# Sizes under every name that the types below have for them.
SMALL = {
    "vocab_size": 56,
    "hidden_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "intermediate_size": 40,
    "moe_intermediate_size": 24,
    "num_experts": 6,
    "max_position_embeddings": 64,
    "sliding_window": 5,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "attention_dropout": 0.0,
    "residual_dropout": 0.0,
    "embedding_dropout": 0.0,
}


@pytest.mark.parametrize(
    "name", ["arcee", "granite", "seed_oss", "starcoder2", "jais2", "ministral", "mellum"]
)
def test_kin_of_llama(name: str) -> None:
    draw = random.Random(name)
    known = transformers.AutoConfig.for_model(name).to_dict()
    layers = {"num_hidden_layers": draw.choice([1, 4]), "tie_word_embeddings": draw.random() < 0.5}
    own = {key: value for key, value in {**SMALL, **layers}.items() if key in known}
    made = transformers.AutoConfig.for_model(name, **own)
    build = transformers.AutoModelForCausalLM.from_config
    precision, attention = draw.choice(["fp32", "bf16", "autocast"]), draw.choice(["eager", "sdpa"])
    module = build(made, attn_implementation=attention, dtype=getattr(torch, DTYPES[precision]))

    real = measure(module, precision=precision, batch_size=2, seq_len=9)
    model = sizer.load(made.to_dict(), cls=type(module).__name__)
    how = {"precision": precision, "attention": attention, "batch_size": 2, "seq_len": 9}
    found, ledger = model.memory(**how), model.activations(**how)
    assert (ledger.total, ledger.n_tensors) == (real.saved_bytes, sum(real.saved.values()))
    assert found.peaks == real.peaks
    assert found.label == "exact"


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize(("batch_size", "seq_len"), [(1, 65), (3, 40)])
def test_a_cast_gradient_is_let_go_before_the_next_is_cast(
    attention: str, batch_size: int, seq_len: int
) -> None:
    """Few words, so that the peak is among the experts, where two gradients are cast one after another."""
    made = transformers.MixtralConfig(
        hidden_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=96,
        num_hidden_layers=1,
        vocab_size=20,
        num_local_experts=4,
    )
    module = transformers.MixtralForCausalLM._from_config(
        made, attn_implementation=attention, experts_implementation="grouped_mm", dtype=torch.bfloat16
    )
    real = measure(module, precision="bf16", batch_size=batch_size, seq_len=seq_len)
    model = sizer.load(made.to_dict(), cls="MixtralForCausalLM")
    found = model.memory(precision="bf16", attention=attention, batch_size=batch_size, seq_len=seq_len)

    assert found.peaks == real.peaks


@pytest.mark.parametrize("what", ["activations", "peak"])
@pytest.mark.parametrize("name", ["gpt2-small", "llama-3.2-1b"])
def test_verify_runs_a_small_model_of_the_kind(sizer_cli: Any, name: str, what: str) -> None:
    small = ("-D", "64", "-H", "4", "--set", "d_ff=96")
    more = () if name == "gpt2-small" else ("-K", "2", "--set", "d_head=16")
    code, out, err = sizer_cli("verify", name, "--what", what, "-q", *small, *more)

    assert (code, out.strip(), err) == (0, "equal", "")
