"""Real training steps of every family whose step is exact, small and drawn at random; needs torch."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sizer  # noqa: E402
from sizer.oracles.memory import DTYPES, measure  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
# Products this small take longer on two threads than on one.
torch.set_num_threads(1)

WINDOWED = ("qwen2", "qwen3", "gemma2", "gemma3_text", "olmo3", "cohere2", "smollm3")
CAUSAL = (*WINDOWED, "gemma", "olmo2", "phi", "phi3", "stablelm", "glm", "glm4", "cohere", "granite")
CLASSES = {
    "gemma3_text": "Gemma3ForCausalLM",
    "roberta": "RobertaForMaskedLM",
    "xlm-roberta": "XLMRobertaForMaskedLM",
    "mt5": "MT5ForConditionalGeneration",
}


def config_of(kind: str, draw: random.Random) -> Any:
    """A configuration under every key that the type knows; few words, so that peaks are inside of layers."""
    layers, kv_heads, width = draw.choice([1, 2, 4]), draw.choice([1, 2]), draw.choice([8, 16])
    heads = kv_heads * draw.choice([1, 2])
    two = ("full_attention", "sliding_attention")
    kinds = draw.choice([two[:1], two[1:], two])
    rotated = draw.choice([0.25, 0.5, 1.0])
    sizes = {
        "vocab_size": draw.choice([3, 50]),
        "hidden_size": heads * width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": width,
        "intermediate_size": draw.choice([24, 60]),
        "max_position_embeddings": 64,
        "tie_word_embeddings": draw.random() < 0.5,
        "attention_bias": draw.random() < 0.3,
        "sliding_window": draw.choice([3, 7, 50]),
        "max_window_layers": 1,
        "final_logit_softcapping": draw.choice([None, 30.0]),
        "qk_layernorm": draw.random() < 0.5,
        "use_qk_norm": draw.random() < 0.5,
        "use_parallel_residual": draw.random() < 0.5,
        "no_rope_layers": [draw.choice([0, 1]) for _ in range(layers)],
        "d_model": 8 * heads,
        "d_kv": width,
        "d_ff": 24,
        "num_heads": heads,
        "num_layers": layers,
        "num_decoder_layers": draw.choice([1, 3]),
        "decoder_start_token_id": 0,
        "use_cache": False,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 0),
        **dict.fromkeys(("resid_pdrop", "hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0),
        "dropout_rate": 0.0,
    }
    if kind in WINDOWED:
        sizes["layer_types"] = [draw.choice(kinds) for _ in range(layers)]
        sizes["use_sliding_window"] = True
    known = transformers.AutoConfig.for_model(kind).to_dict()
    own = {key: value for key, value in sizes.items() if key in known}
    if kind in ("phi", "phi3", "stablelm", "glm", "glm4"):
        own["rope_parameters"] = {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": rotated,
        }
    return transformers.AutoConfig.for_model(kind, **own)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [*CAUSAL, *list(CLASSES)[1:]])
def test_a_step_of_each_family(kind: str, seed: int) -> None:
    draw = random.Random(f"{kind} {seed}")
    made = config_of(kind, draw)
    precision, attention = draw.choice(["fp32", "bf16", "autocast"]), draw.choice(["eager", "sdpa"])
    # transformers 5.24 has no fused kernel for Gemma 2, whose scores are capped.
    attention = "eager" if kind == "gemma2" else attention
    checkpointing = kind != "mt5" and draw.random() < 0.4
    sizes = {"batch_size": draw.choice([1, 3]), "seq_len": draw.choice([2, 7, 17])}
    name = CLASSES.get(kind) or transformers.AutoModelForCausalLM._model_mapping[type(made)].__name__
    build = getattr(transformers, name)._from_config
    module = build(made, attn_implementation=attention, dtype=getattr(torch, DTYPES[precision]))
    if checkpointing:
        module.gradient_checkpointing_enable()

    real = measure(module, precision=precision, **sizes)
    model = sizer.load(made.to_dict(), cls=name)
    how = {"precision": precision, "attention": attention, "checkpointing": checkpointing, **sizes}
    found = model.memory(**how)

    assert (found.peaks, found.label) == (real.peaks, "exact")
    if not checkpointing:
        ledger = model.activations(**how)
        assert (ledger.total, ledger.n_tensors) == (real.saved_bytes, sum(real.saved.values()))


ESTIMATES = [
    # No kernel caps the scores, and a decoder that sees both ways makes masks of its own.
    ({"model_type": "gemma2"}, "sdpa"),
    ({"model_type": "gemma3_text", "use_bidirectional_attention": True}, "eager"),
]


@pytest.mark.parametrize(("config", "attention"), ESTIMATES, ids=["capped", "both-ways"])
def test_what_was_not_measured_is_an_estimate(config: dict[str, Any], attention: str) -> None:
    model = sizer.load({**config, "num_hidden_layers": 2, "vocab_size": 50})

    assert model.memory(seq_len=8, attention=attention).label == "estimate"
