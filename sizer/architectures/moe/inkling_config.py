"""The sizes that both generations of Inkling have, and how a file gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.pattern import Pattern

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class InklingSizes(Config):
    """Sizes of attention with learned relative positions, and of routed experts.

    `layers`: "full", or "sliding" with sizes of its own (`sliding_…`) and a window.
    `relative_extent`: distances that full attention tells apart.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    n_kv_heads: Dim
    d_head: Dim
    sliding_heads: Dim
    sliding_kv_heads: Dim
    sliding_d_head: Dim
    window: Dim
    layers: Pattern
    d_relative: Dim
    relative_extent: Dim
    d_conv: Dim
    d_ff_expert: Dim
    n_experts: Dim
    top_k: Dim
    vocab_size: Dim
    act: str = "silu"

    letters = {
        "sliding_heads": "Hw",
        "sliding_kv_heads": "Kw",
        "sliding_d_head": "Dw",
        "d_relative": "Dr",
        "relative_extent": "X",
        "d_conv": "Kc",
    }
    meanings = {
        "sliding_heads": "query heads of sliding layers",
        "sliding_kv_heads": "key/value heads of sliding layers",
        "sliding_d_head": "width of one of their heads",
        "d_relative": "width of a head's relative positions",
        "relative_extent": "distances told apart",
        "d_conv": "width of the convolutions",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def sizes_in_file(hf: HFConfig) -> dict[str, Any]:
    """The sizes whose names in a file are those of these two types alone."""
    return {
        "sliding_heads": hf["swa_num_attention_heads"],
        "sliding_kv_heads": hf["swa_num_key_value_heads"],
        "sliding_d_head": hf["swa_head_dim"],
        "window": hf["sliding_window_size"],
        "d_relative": hf["d_rel"],
        "relative_extent": hf["rel_extent"],
        "d_conv": hf["conv_kernel_size"],
    }
