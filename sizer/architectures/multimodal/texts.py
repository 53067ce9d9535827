"""The text models of those that see or hear, where they are a dense decoder under a type of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder_names import LLAMA
from sizer.architectures.decoders.glm import GLM, NORMS
from sizer.architectures.decoders.qwen import qwen_windows
from sizer.architectures.decoders.reading import dense, listed_layers, rotary_width
from sizer.architectures.moe.mixtral import step_pattern
from sizer.architectures.moe.reading import moe_reading, sparse_layers, windows
from sizer.architectures.registry import Reading
from sizer.core.pattern import Pattern

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


SANDWICH = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def qwen2_vl_text(hf: HFConfig) -> Reading:
    """Qwen2-VL and Qwen2.5-VL: Qwen2, whose positions have three axes; heads divide the width."""
    return dense(hf, qkv_bias=True, d_head=None, **qwen_windows(hf))


def _qwen2_5_omni(hf: HFConfig) -> Reading:
    """The thinker of Qwen2.5-Omni: the same, with heads of a width that a file may give."""
    return dense(hf, qkv_bias=True, **qwen_windows(hf))


def _qwen3_vl(hf: HFConfig) -> Reading:
    """Qwen3-VL: Qwen3 without windows."""
    bias = hf["attention_bias"]
    return dense(hf, qkv_bias=bias, o_bias=bias, qk_norm="head")


def _qwen3_vl_moe(hf: HFConfig, naming: str = "qwen3_vl_moe") -> Reading:
    """Qwen3-VL with experts, all of a layer stacked in two tensors in files too."""
    bias = hf["attention_bias"]
    return moe_reading(
        hf,
        naming=naming,
        mlp_layers=step_pattern(hf, hf["mlp_only_layers"] or []),
        qk_norm="head",
        qkv_bias=bias,
        o_bias=bias,
        window=None,
    )


def _qwen3_omni_moe(hf: HFConfig) -> Reading:
    """The thinker of Qwen3-Omni, each expert of which is by itself in files."""
    return _qwen3_vl_moe(hf, "qwen2_moe")


def _glm4v(hf: HFConfig) -> Reading:
    """GLM-4.1V: GLM-4 with biases; heads divide the width."""
    rotary = rotary_width(hf, default=1.0)
    return dense(hf, module_names=GLM, norms=NORMS, qkv_bias=True, d_rotary=rotary, d_head=None)


def _glm_ocr(hf: HFConfig) -> Reading:
    return dense(hf, module_names=GLM, norms=NORMS, d_rotary=rotary_width(hf, default=1.0))


def _glm4v_moe(hf: HFConfig) -> Reading:
    """GLM-4.5V: GLM-4.5 without norms of queries and keys."""
    return moe_reading(
        hf,
        naming="deepseek",
        correction="buffer",
        mlp_layers=sparse_layers(hf, lambda i: i >= hf["first_k_dense_replace"]),
        d_rotary=rotary_width(hf, default=0.5),
        qkv_bias=hf["attention_bias"],
        window=None,
    )


def _paddleocr(hf: HFConfig) -> Reading:
    """PaddleOCR-VL: ERNIE 4.5, whose positions have three axes."""
    bias = bool(hf["use_bias"])
    return dense(hf, qkv_bias=bias, o_bias=bias, mlp_bias=bias, d_rotary=rotary_width(hf))


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


def _cosmos3_edge(hf: HFConfig) -> Reading:
    """Cosmos 3 Edge: an MLP of two matrices."""
    bias = bool(hf["attention_bias"])
    return dense(
        hf,
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=bool(hf["mlp_bias"]),
        gated=False,
        d_rotary=rotary_width(hf),
        module_names=LLAMA._replace(mlp=("fc1", "fc2")),
    )


def _muse_glimmer(hf: HFConfig) -> Reading:
    """Muse Glimmer: norms on both sides of each part, and a gate on what attention returns."""
    n_layers, bias = listed_layers(hf), bool(hf["attention_bias"])
    return moe_reading(
        hf,
        mlp_layers=Pattern(("dense",) * n_layers),
        qkv_bias=bias,
        o_bias=bias,
        output_gate="gate_proj",
        norms=SANDWICH,
        **windows(hf, lambda i: (n_layers - 1 - i) % 4 != 0),
    )


HF_READERS = {
    "cosmos3_edge_text": _cosmos3_edge,
    "muse_glimmer_text": _muse_glimmer,
    "emu3_text_model": _emu3,
    "glm4v_moe_text": _glm4v_moe,
    "glm4v_text": _glm4v,
    "glm_ocr_text": _glm_ocr,
    "paddleocr_vl_text": _paddleocr,
    "qwen2_5_omni_text": _qwen2_5_omni,
    "qwen2_vl_text": qwen2_vl_text,
    "qwen2_5_vl_text": qwen2_vl_text,
    "qwen3_omni_moe_text": _qwen3_omni_moe,
    "qwen3_vl_text": _qwen3_vl,
    "qwen3_vl_moe_text": _qwen3_vl_moe,
}
