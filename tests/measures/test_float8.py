"""Training in 8 bits against steps of torchao's Float8Linear.

Measured 2026-11-30 with torchao 0.18, torch 2.13, transformers 5.24 on a CPU: `LlamaForCausalLM` in bf16,
`convert_to_float8_training` with the recipe "tensorwise", `emulate=True`, all linear layers but `lm_head`;
the bytes that `saved_tensors_hooks` sees (without checkpointing) and the peaks of a step of AdamW.
"""

from __future__ import annotations

from typing import Any

import pytest

import sizer
from sizer.errors import SizerError

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 64,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 64,
}
BIASED = {"attention_bias": True, "num_hidden_layers": 5}
WIDE = {"intermediate_size": 320, "tie_word_embeddings": True}
ONE_LAYER = {"hidden_size": 128, "num_key_value_heads": 4, "num_hidden_layers": 1, "mlp_bias": True}
# What differs, the kernel, sequences, tokens, checkpointing, bytes kept, peaks forward, backward, step.
ROWS = [
    ({}, "sdpa", 2, 16, False, 237_444, (888_256, 902_600, 843_704)),
    (BIASED, "eager", 1, 32, False, 520_076, (1_549_144, 1_561_312, 1_345_104)),
    (WIDE, "sdpa", 3, 16, True, 613_700, (1_617_212, 2_079_812, 1_929_268)),
    (ONE_LAYER, "eager", 2, 32, True, 382_724, (996_420, 1_235_396, 1_054_908)),
]


@pytest.mark.parametrize("row", ROWS, ids=["plain", "biased", "wide", "one-layer"])
def test_a_step_of_float8_linear_layers(row: tuple[Any, ...]) -> None:
    over, attention, batch_size, seq_len, checkpointing, kept, peaks = row
    model = sizer.load({**LLAMA, **over})
    how = {"precision": "fp8", "attention": attention, "batch_size": batch_size, "seq_len": seq_len}

    found = model.memory(checkpointing=checkpointing, **how)
    assert model.activations(**how).total == kept
    assert tuple(found.peaks.values()) == peaks
    # The ops were emulated: a GPU's own product may lay its operands out anew.
    assert found.label == "estimate"


def test_adapters_are_not_trained_in_8_bits() -> None:
    with pytest.raises(SizerError, match="beside adapters is not followed; take bf16"):
        sizer.load(LLAMA).memory(precision="fp8", lora="r=4,target=q_proj")
