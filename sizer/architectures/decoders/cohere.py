"""Cohere's Command R and its successors: attention and MLP side by side, after one LayerNorm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import (
    SLIDING,
    dense,
    layer_types,
    rope_parameters,
    rotary_by_kind,
    rotary_width,
    sliding,
    whole,
)
from sizer.architectures.decoders.ways import SCALED, Ways
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


# LayerNorms are written op by op, and pairs are turned in fp32.
WAYS = Ways(
    norm="written_layer_norm",
    core=("pairs", "turned_in_fp32", "late_norms"),
    block="parallel",
    logits=SCALED,
)


def _cohere(hf: HFConfig) -> Reading:
    return parallel(hf, qk_norm="heads" if hf["use_qk_norm"] else None)


def _cohere2(hf: HFConfig) -> Reading:
    """Command A (arXiv:2504.00698): three layers in four slide."""
    pattern = whole(hf, "sliding_window_pattern") if hf.given("sliding_window_pattern") else 4

    def slides(i: int) -> bool:
        return (i + 1) % pattern != 0

    # Positions turn queries and keys where a layer slides, and nowhere else.
    full = tuple(i for i, kind in enumerate(layer_types(hf, slides)) if kind not in SLIDING)
    window = hf["sliding_window"]
    ways = WAYS._replace(core=(*WAYS.core, "full_mask"), mask_window=window or None, unturned=full)
    return parallel(hf, ways=ways, **sliding(hf, slides, window=window))


def _compass(hf: HFConfig) -> Reading:
    """The text model of Compass; each kind of layer has frequencies of its own, or none."""

    def slides(i: int) -> bool:
        return False

    rope = rope_parameters(hf)
    rotated = {kind for kind in layer_types(hf, slides) if rope.get(kind, rope) is not None}
    windows = sliding(hf, slides, window=hf["sliding_window"])
    return parallel(hf, **rotary_by_kind(hf, rotated), **windows)


def parallel(hf: HFConfig, **given: Any) -> Reading:
    """What all of them share."""
    bias = hf["attention_bias"]
    given.setdefault("d_rotary", rotary_width(hf))
    given.setdefault("ways", WAYS)
    return dense(
        hf,
        norm="layer_no_bias",
        norms=("input_layernorm", "", "", ""),
        qkv_bias=bias,
        o_bias=bias,
        **given,
    )


HF_READERS = {"cohere": _cohere, "cohere2": _cohere2, "cohere_compass_text": _compass}
