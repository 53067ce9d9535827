"""Models of engines' logs, by the sizes that the logs give."""

from __future__ import annotations

from typing import Any

import sizer
from sizer.model import Model

GIB = 2**30


def llama(**sizes: Any) -> Model:
    return sizer.load({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, **sizes})


def gpt_oss(layers: int) -> Model:
    kinds = ["sliding_attention", "full_attention"] * (layers // 2)
    sizes = {"num_key_value_heads": 8, "head_dim": 64, "num_attention_heads": 64, "sliding_window": 128}
    return sizer.load({"model_type": "gpt_oss", "num_hidden_layers": layers, "layer_types": kinds, **sizes})


QWEN3_4B = {
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 2560,
    "num_attention_heads": 32,
}
QWEN3_235B = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 94,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_attention_heads": 64,
    "hidden_size": 4096,
}
# Qwen3.8-27B as logged: 16 of 64 layers attend, with 4 heads of 256; the others are gated DeltaNet as
# in Qwen3.5-27B's file.
QWEN38_27B = {
    "model_type": "qwen3_5_text",
    "num_hidden_layers": 64,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 16,
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_value_heads": 48,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
