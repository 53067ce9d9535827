"""Qwen2 (arXiv:2407.10671), with biases on queries, keys and values; Qwen3 has norms instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import dense, rotary_width, sliding
from sizer.architectures.decoders.ways import Ways
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


# The mask of layers that see all tokens is made, though there may be none.
WAYS = Ways(core=("full_mask",))


def _qwen2(hf: HFConfig) -> Reading:
    return dense(hf, qkv_bias=True, d_rotary=rotary_width(hf), ways=WAYS, **qwen_windows(hf))


def _qwen3(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    windows = qwen_windows(hf)
    return dense(
        hf, qkv_bias=bias, o_bias=bias, qk_norm="head", d_rotary=rotary_width(hf), ways=WAYS, **windows
    )


def qwen_windows(hf: HFConfig) -> dict[str, Any]:
    """The upper layers slide, from `max_window_layers` on, if the file switches windows on at all."""
    window = hf["sliding_window"] if hf["use_sliding_window"] else None
    first = hf["max_window_layers"]
    return sliding(hf, lambda i: i >= first, window=window)


HF_READERS = {"qwen2": _qwen2, "qwen3": _qwen3}
