"""MiMo-V2-Flash: windowed layers with sinks and twice the KV heads, then routed experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.moe.moe_decoder import MoEConfig, moe_decoder, sinks
from sizer.architectures.moe.reading import layer_kinds, layered_rotary, moe_reading, sparse_layers
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, linear
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class MiMoV2Config(MoEConfig):
    """Sizes and switches of a MiMo-V2.

    `window_layers`: "full" or "window" for each layer. `d_value`: width of a value head.
    Windowed layers have twice the KV heads.
    """

    window_layers: Pattern
    d_value: Dim
    n_kv_heads_window: Dim = None

    letters = {**MoEConfig.letters, "d_value": "Dv", "n_kv_heads_window": "Kw"}
    meanings = {
        **MoEConfig.meanings,
        "d_value": "width of a value head",
        "n_kv_heads_window": "key/value heads of windowed layers",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        kv_heads: Dim = self.n_kv_heads
        self.derive(n_kv_heads_window=2 * kv_heads)


def mimo_v2(c: MiMoV2Config) -> Module:
    """MiMo-V2-Flash (Xiaomi 2025), with the tensor names of `MiMoV2FlashForCausalLM`.

    Source: transformers `modeling_mimo_v2_flash.py`.
    """
    return moe_decoder(c, _attention(c))


def _attention(c: MiMoV2Config) -> Module:
    embed = Axis("embed", c.d_model)
    full, windowed = c.window_layers.layers("full"), c.window_layers.layers("window")
    return Module(
        "self_attn",
        (
            linear("q_proj", heads_axis("heads", c.n_heads, c.d_head), embed, bias=c.qkv_bias),
            Module("", _keys_values(c, embed, c.n_kv_heads, None), at=full),
            Module("", (*_keys_values(c, embed, c.n_kv_heads_window, c.window), *sinks(c)), at=windowed),
            linear("o_proj", embed, heads_axis("heads", c.n_heads, c.d_value)),
        ),
        component="attention",
    )


def _keys_values(c: MiMoV2Config, embed: Axis, kv_heads: Dim, window: Dim | None) -> tuple[Module, ...]:
    core = attention_core(c.n_heads, kv_heads, c.d_head, d_value=c.d_value, window=window)
    return (
        linear("k_proj", heads_axis("kv_heads", kv_heads, c.d_head), embed, bias=c.qkv_bias),
        linear("v_proj", heads_axis("kv_heads", kv_heads, c.d_value), embed, bias=c.qkv_bias),
        Module("", core),
    )


ARCHITECTURES = {"mimo_v2_flash": Architecture(MiMoV2Config, mimo_v2)}


def _mimo_v2_flash(hf: HFConfig) -> Reading:
    kinds = layer_kinds(
        hf, "layer_types", lambda i: "full_attention" if i == 0 or (i + 1) % 6 == 0 else "sliding_attention"
    )
    window = hf["sliding_window"]
    if hf.given("sliding_window_size") and hf["sliding_window_size"] is not None:
        window = hf["sliding_window_size"] + 1
    return moe_reading(
        hf,
        "mimo_v2_flash",
        MiMoV2Config,
        naming="mimo_v2_flash",
        correction="buffer",
        mlp_layers=sparse_layers(hf, lambda i: i > 0),
        window=window,
        window_layers=Pattern(tuple("window" if k == "sliding_attention" else "full" for k in kinds)),
        d_value=hf["v_head_dim"],
        qkv_bias=hf["attention_bias"],
        sinks=True,
        **layered_rotary(hf, kinds, {"full_attention": 0.334, "sliding_attention": 0.334}),
    )


HF_READERS = {"mimo_v2_flash": _mimo_v2_flash}
