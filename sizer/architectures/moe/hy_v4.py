"""Hunyuan V4: DeepSeek's sparse latent attention and experts, over several residual streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.latent import latent_attention, latent_model, rotary_part
from sizer.architectures.heads import with_head
from sizer.architectures.moe.deepseek import DeepseekConfig, dense_and_sparse, kinds_of_mlp, mixture
from sizer.architectures.moe.hyper_connections import hyper_connection
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import gated_mlp, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class HYV4Config(DeepseekConfig):
    """Sizes and switches of a Hunyuan V4. `n_streams`: residual streams."""

    n_streams: Dim

    letters = {**DeepseekConfig.letters, "n_streams": "M"}
    meanings = {**DeepseekConfig.meanings, "n_streams": "residual streams"}


def hy_v4(c: HYV4Config) -> Module:
    """Hunyuan V4, with the tensor names of `HYV4ForCausalLM`.

    Source: transformers `modeling_hy_v4.py`.
    """
    embed = Axis("embed", c.d_model)
    stored = c.layout == "checkpoint"
    dense, sparse = dense_and_sparse(c)
    gate = "linear_gate" if stored else "gate_proj"
    gating = (
        linear(gate, heads_axis("heads", c.n_heads, c.d_value), embed),
        Param("learnable_sink_param" if stored else "sinks", (Axis("heads", c.n_heads),)),
    )
    names = (gate, "up_proj", "down_proj")
    block = Module(
        "layers",
        (
            _streams(c, "hc_pre.hc_attn_layer.hc_" if stored else "attn_hc."),
            rms_norm("input_layernorm", embed),
            latent_attention(c, embed, gating),
            _streams(c, "hc_pre.hc_mlp_layer.hc_" if stored else "ffn_hc."),
            rms_norm("post_attention_layernorm", embed),
            gated_mlp("mlp", Axis("ffn", c.d_ff), embed, act=c.act, names=names)._replace(at=dense),
            mixture(c, embed, stacked=True, names=names)._replace(at=sparse),
        ),
        repeat=c.n_layers,
    )
    return with_head(c, (*latent_model(c, embed, block), _last_mix(c)))


def _streams(c: HYV4Config, prefix: str) -> Module:
    names = (f"{prefix}fn", f"{prefix}base", f"{prefix}scale")
    return hyper_connection(names, 2 * c.n_streams, Axis("streams", c.n_streams * c.d_model), 2)


def _last_mix(c: HYV4Config) -> Module:
    """The streams become one before the head."""
    prefix = "hc_head.hc_"
    if c.layout == "checkpoint":
        prefix = "hc_head.hc_pre.hc_head_" if c.task == "base" else "hc_pre.hc_head.hc_head_"
    names = (f"{prefix}fn", f"{prefix}base", f"{prefix}scale")
    return hyper_connection(names, c.n_streams, Axis("streams", c.n_streams * c.d_model), 1)


ARCHITECTURES = {"hy_v4": Architecture(HYV4Config, hy_v4)}


def _hy_v4(hf: HFConfig) -> Reading:
    n_layers = hf["num_hidden_layers"]
    selecting = hf.per_layer("indexer_types", n_layers) or [
        "full",
        *("shared" if i % 4 else "full" for i in range(n_layers)),
    ]
    return Reading(
        "hy_v4",
        hf.fill(
            HYV4Config,
            **kinds_of_mlp(hf.per_layer("mlp_layer_types", n_layers), n_layers, 1),
            n_streams=hf["hc_mult"],
            n_shared_experts=hf["n_shared_experts"] or None,
            indexers=Pattern(
                tuple("shared" if kind == "shared" else "full" for kind in selecting[:n_layers])
            ),
            d_rotary=rotary_part(hf),
        ),
    )


HF_READERS = {"hy_v4": _hy_v4, "hy_v4_vl_text": _hy_v4}
