"""The text models of those that see or hear, where they are a dense decoder under a type of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.qwen import qwen_windows
from sizer.architectures.decoders.reading import dense, rotary_width
from sizer.architectures.moe.mixtral import step_pattern
from sizer.architectures.moe.reading import moe_reading
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def _qwen2_vl(hf: HFConfig) -> Reading:
    """Qwen2-VL and Qwen2.5-VL: Qwen2, whose positions have three axes; heads divide the width."""
    return dense(hf, qkv_bias=True, d_head=None, **qwen_windows(hf))


def _qwen3_vl(hf: HFConfig) -> Reading:
    """Qwen3-VL: Qwen3 without windows."""
    bias = hf["attention_bias"]
    return dense(hf, qkv_bias=bias, o_bias=bias, qk_norm="head")


def _qwen3_vl_moe(hf: HFConfig) -> Reading:
    """Qwen3-VL with experts, all of a layer stacked in two tensors in files too."""
    bias = hf["attention_bias"]
    return moe_reading(
        hf,
        naming="qwen3_vl_moe",
        mlp_layers=step_pattern(hf, hf["mlp_only_layers"] or []),
        qk_norm="head",
        qkv_bias=bias,
        o_bias=bias,
        window=None,
    )


def _emu3(hf: HFConfig) -> Reading:
    """Emu3: a LLaMA over words and images' tokens."""
    bias = bool(hf.get("attention_bias"))
    return dense(
        hf,
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=bool(hf.get("mlp_bias")),
        d_rotary=rotary_width(hf),
    )


HF_READERS = {
    "emu3_text_model": _emu3,
    "qwen2_vl_text": _qwen2_vl,
    "qwen2_5_vl_text": _qwen2_vl,
    "qwen3_vl_text": _qwen3_vl,
    "qwen3_vl_moe_text": _qwen3_vl_moe,
}
