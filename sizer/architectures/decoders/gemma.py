"""Gemma 1 to 3 and VaultGemma: a wide gated MLP, and from Gemma 2 on norms around each part.

Sources: arXiv:2403.08295, arXiv:2408.00118, arXiv:2503.19786, arXiv:2510.15001.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import dense, layer_types, rotary_width, sliding, whole
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

SANDWICH = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def gemma(hf: HFConfig, **given: Any) -> Reading:
    """What all of them share: scaled embeddings, and one switch for the biases of attention."""
    bias = hf["attention_bias"]
    return dense(hf, embed_scale=True, qkv_bias=bias, o_bias=bias, d_rotary=rotary_width(hf), **given)


def _gemma2(hf: HFConfig) -> Reading:
    return gemma(hf, norms=SANDWICH, **_alternating(hf))


def _gemma3(hf: HFConfig) -> Reading:
    """Five layers in six slide; those have rotary frequencies of their own."""
    pattern = whole(hf, "sliding_window_pattern") if hf.given("sliding_window_pattern") else 6

    def slides(i: int) -> bool:
        return (i + 1) % pattern != 0

    window = hf["sliding_window"]
    if hf["use_bidirectional_attention"] and window is not None:
        # An encoder (EmbeddingGemma) sees half of the window on either side.
        window = whole(hf, "sliding_window") // 2 + 1
    kinds = tuple(f"{kind}_" for kind in sorted(set(layer_types(hf, slides))))
    return gemma(hf, norms=SANDWICH, qk_norm="head", rotary_kinds=kinds, **sliding(hf, slides, window=window))


def _vaultgemma(hf: HFConfig) -> Reading:
    return gemma(hf, norms=("input_layernorm", "", "pre_feedforward_layernorm", ""), **_alternating(hf))


def _alternating(hf: HFConfig) -> dict[str, Any]:
    """Every other layer slides, the first one too."""
    return sliding(hf, lambda i: i % 2 == 0, window=hf["sliding_window"])


HF_READERS = {"gemma": gemma, "gemma2": _gemma2, "gemma3_text": _gemma3, "vaultgemma": _vaultgemma}
