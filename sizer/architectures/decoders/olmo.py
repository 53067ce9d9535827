"""OLMo 1 to 3: norms without weights at first, then norms after each part, then windows.

Sources: arXiv:2402.00838, arXiv:2501.00656, arXiv:2512.13961.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import dense, layer_types, rotary_by_kind, rotary_width, sliding
from sizer.architectures.decoders.ways import Ways
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# Weights of norms are multiplied in fp32, and so are cosines and sines.
WAYS = Ways(norm="fp32_rms_norm", core=("fp32_angles",))
POST_NORMS = ("", "post_attention_layernorm", "", "post_feedforward_layernorm")


def _olmo(hf: HFConfig) -> Reading:
    return _biased(hf, norm="none", d_rotary=rotary_width(hf))


def _olmo2(hf: HFConfig) -> Reading:
    return _biased(hf, norms=POST_NORMS, qk_norm="full", ways=WAYS, d_rotary=rotary_width(hf))


def _olmo3(hf: HFConfig) -> Reading:
    """Three layers in four slide; those have rotary frequencies of their own."""

    def slides(i: int) -> bool:
        return (i + 1) % 4 != 0

    rotary = rotary_by_kind(hf, layer_types(hf, slides))
    windows = sliding(hf, slides, window=hf["sliding_window"])
    ways = WAYS._replace(
        core=(*WAYS.core, "turned_by_kind", "full_mask"), mask_window=hf["sliding_window"] or None
    )
    return _biased(hf, norms=POST_NORMS, qk_norm="full", ways=ways, **rotary, **windows)


def _biased(hf: HFConfig, **given: Any) -> Reading:
    bias = hf["attention_bias"]
    return dense(hf, qkv_bias=bias, o_bias=bias, **given)


HF_READERS = {"olmo": _olmo, "olmo2": _olmo2, "olmo3": _olmo3}
