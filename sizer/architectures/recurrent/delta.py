"""Gated DeltaNet: linear attention whose state is corrected, not only added to, and the mixer's sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import DecoderConfig
from sizer.architectures.recurrent.parts import check_layers, layer_pattern
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Op, Param, State, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class DeltaConfig(DecoderConfig):
    """Sizes of a decoder with Gated DeltaNet layers.

    `layers`: "linear" (Gated DeltaNet), "full" or "window" (attention).
    """

    layers: Pattern
    n_key_heads: Dim
    n_value_heads: Dim
    d_key_head: Dim
    d_value_head: Dim
    d_conv: Dim = 4

    layer_kinds = ("linear", *DecoderConfig.layer_kinds)
    letters = {
        **DecoderConfig.letters,
        "n_key_heads": "Hk",
        "n_value_heads": "Hv",
        "d_key_head": "Dk",
        "d_value_head": "Dv",
        "d_conv": "Kc",
    }
    meanings = {
        **DecoderConfig.meanings,
        "n_key_heads": "key heads of linear attention",
        "n_value_heads": "value heads of linear attention",
        "d_key_head": "width of a key head of linear attention",
        "d_value_head": "width of a value head of linear attention",
        "d_conv": "width of the convolution",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layers(self.n_layers, self.layers)


def delta_axes(c: DeltaConfig) -> tuple[Axis, Axis, Axis]:
    """The axes of keys (queries too), of values (and their gate), and of value heads."""
    keys = heads_axis("key_heads", c.n_key_heads, c.d_key_head)
    values = heads_axis("value_heads", c.n_value_heads, c.d_value_head)
    return keys, values, Axis("value_heads", c.n_value_heads)


def delta_net(
    c: DeltaConfig,
    before: tuple[Module, ...],
    convolutions: tuple[Module, ...],
    after: Module,
    *,
    norm: str = "norm",
) -> Module:
    """Gated DeltaNet (arXiv:2412.06464): projections, convolutions, the delta rule, a gated norm.

    Decoding keeps the last inputs of the convolutions and a state `[value heads, key, value]` in fp32.
    """
    _, values, heads = delta_axes(c)
    state = values.size * c.d_key_head
    return Module(
        "linear_attn",
        (
            Param("dt_bias", (heads,)),
            Param("A_log", (heads,)),
            *before,
            *convolutions,
            Op("scan", "delta_rule", {"width": values.size, "d_state": c.d_key_head}),
            State("ssm", per_sequence=state, dtype="fp32"),
            rms_norm(norm, Axis("value_head", c.d_value_head)),
            after,
        ),
        component="mixer",
    )


def every_nth(hf: HFConfig, *allowed: str) -> Pattern:
    """The layers of a file, or attention in every fourth (`full_attention_interval`)."""
    kinds = hf["layer_types"]
    if kinds is None:
        interval = hf.in_file("full_attention_interval", 4)
        kinds = [
            "linear_attention" if (i + 1) % interval else "full_attention"
            for i in range(hf["num_hidden_layers"])
        ]
    return layer_pattern(hf, kinds, *allowed)


def delta_sizes(hf: HFConfig) -> dict[str, Any]:
    """The sizes of the mixer, and the switches of attention that go with them."""
    bias = hf["attention_bias"]
    return {
        "n_key_heads": hf["linear_num_key_heads"],
        "n_value_heads": hf["linear_num_value_heads"],
        "d_key_head": hf["linear_key_head_dim"],
        "d_value_head": hf["linear_value_head_dim"],
        "d_conv": hf["linear_conv_kernel_dim"],
        "qkv_bias": bias,
        "o_bias": bias,
        "act": hf["hidden_act"],
    }
