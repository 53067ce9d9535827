"""Gemma 1 to 3 and VaultGemma: a wide gated MLP, and from Gemma 2 on norms around each part.

Sources: arXiv:2403.08295, arXiv:2408.00118, arXiv:2503.19786, arXiv:2510.15001.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import (
    dense,
    layer_types,
    rotary_by_kind,
    rotary_width,
    sliding,
    whole,
)
from sizer.architectures.decoders.ways import SOFT_CAP, Ways
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# Its RMSNorms multiply with one more than their weights, all in fp32.
WAYS = Ways(norm="offset_rms_norm")
SANDWICH = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def gemma(hf: HFConfig, **given: Any) -> Reading:
    """What all of them share: scaled embeddings, and one switch for the biases of attention."""
    bias = hf["attention_bias"]
    given.setdefault("d_rotary", rotary_width(hf))
    given.setdefault("ways", WAYS)
    return dense(hf, embed_scale=True, qkv_bias=bias, o_bias=bias, **given)


def _gemma2(hf: HFConfig) -> Reading:
    capped = ("capped",) if hf.get("attn_logit_softcapping") is not None else ()
    return gemma(hf, norms=SANDWICH, ways=_with_windows(hf, *capped), **_alternating(hf))


def _with_windows(hf: HFConfig, *core: str) -> Ways:
    """Both masks are made, whatever the layers are; logits may have a soft cap."""
    capped = hf.get("final_logit_softcapping") is not None
    window = hf["sliding_window"]
    return WAYS._replace(
        core=("full_mask", *core), mask_window=window or None, logits=SOFT_CAP if capped else ()
    )


def _gemma3(hf: HFConfig) -> Reading:
    """Five layers in six slide; those have rotary frequencies of their own."""
    pattern = whole(hf, "sliding_window_pattern") if hf.given("sliding_window_pattern") else 6

    def slides(i: int) -> bool:
        return (i + 1) % pattern != 0

    window = hf["sliding_window"]
    if hf["use_bidirectional_attention"] and window is not None:
        # An encoder (EmbeddingGemma) sees half of the window on either side.
        window = whole(hf, "sliding_window") // 2 + 1
    rotary = rotary_by_kind(hf, layer_types(hf, slides))
    windows = sliding(hf, slides, window=window)
    ways = _with_windows(hf, "late_norms", "norms_by_head", "turned_by_kind")
    return gemma(hf, norms=SANDWICH, qk_norm="head", ways=ways, **rotary, **windows)


def _vaultgemma(hf: HFConfig) -> Reading:
    return gemma(hf, norms=("input_layernorm", "", "pre_feedforward_layernorm", ""), **_alternating(hf))


def _alternating(hf: HFConfig) -> dict[str, Any]:
    """Every other layer slides, the first one too."""
    return sliding(hf, lambda i: i % 2 == 0, window=hf["sliding_window"])


HF_READERS = {"gemma": gemma, "gemma2": _gemma2, "gemma3_text": _gemma3, "vaultgemma": _vaultgemma}
