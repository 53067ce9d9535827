"""Cohere's Command R and its successors: attention and MLP side by side, after one LayerNorm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import (
    dense,
    layer_types,
    rope_parameters,
    rotary_width,
    sliding,
    whole,
)
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def _cohere(hf: HFConfig) -> Reading:
    return parallel(hf, qk_norm="heads" if hf["use_qk_norm"] else None)


def _cohere2(hf: HFConfig) -> Reading:
    """Command A (arXiv:2504.00698): three layers in four slide."""
    pattern = whole(hf, "sliding_window_pattern") if hf.given("sliding_window_pattern") else 4
    return parallel(hf, **sliding(hf, lambda i: (i + 1) % pattern != 0, window=hf["sliding_window"]))


def _compass(hf: HFConfig) -> Reading:
    """The text model of Compass; each kind of layer has frequencies of its own, or none."""

    def slides(i: int) -> bool:
        return False

    rope = rope_parameters(hf)
    kinds = sorted({kind for kind in layer_types(hf, slides) if rope.get(kind, rope) is not None})
    return parallel(
        hf,
        rotary_kinds=tuple(f"{kind}_" for kind in kinds),
        **sliding(hf, slides, window=hf["sliding_window"]),
    )


def parallel(hf: HFConfig, **given: Any) -> Reading:
    """What all of them share."""
    bias = hf["attention_bias"]
    return dense(
        hf,
        norm="layer_no_bias",
        norms=("input_layernorm", "", "", ""),
        qkv_bias=bias,
        o_bias=bias,
        d_rotary=rotary_width(hf),
        **given,
    )


HF_READERS = {"cohere": _cohere, "cohere2": _cohere2, "cohere_compass_text": _compass}
