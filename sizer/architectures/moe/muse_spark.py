"""Muse Spark's text: experts narrower than the model around them, and gates on the residual stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import norm, norms_named
from sizer.architectures.heads import with_head
from sizer.architectures.moe.deepseek import router
from sizer.architectures.moe.moe_decoder import MoEConfig, dense_mlp, moe_attention, rotaries
from sizer.architectures.moe.reading import moe_reading, sparse_layers, windows
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, gate_op, linear, rms_norm, stacked
from sizer.core.tree import Axis, Leaf, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class MuseSparkConfig(MoEConfig):
    """Sizes of a Muse Spark. `d_expert`: width that its experts read and give."""

    d_expert: Dim

    letters = {**MoEConfig.letters, "d_expert": "De"}
    meanings = {**MoEConfig.meanings, "d_expert": "width that the experts read and give"}


def muse_spark(c: MuseSparkConfig) -> Module:
    """Muse Spark, with the names of `MuseSparkTextModel`. Source: transformers `modeling_muse_spark.py`."""
    embed = Axis("embed", c.d_model)
    before_attn, _, before_mlp, after_mlp = (norms_named(c, name, embed) for name in c.norms)
    mlps: tuple[Module, ...] = (_mixture(c, embed),)
    if c.mlp_layers is not None:
        mlps = (mlps[0]._replace(at=c.mlp_layers.layers("sparse")),) if c.mlp_layers.has("sparse") else ()
        if c.mlp_layers.has("dense"):
            mlps = (dense_mlp(c, embed, at=c.mlp_layers.layers("dense")), *mlps)
    block: tuple[Module | Leaf, ...] = (
        *before_attn,
        moe_attention(c),
        Param("post_attention_residual_gate.gate", (embed,)),
        *before_mlp,
        *mlps,
        *after_mlp,
        Param("post_feedforward_residual_gate.gate", (embed,)),
    )
    model = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        Module("layers", block, repeat=c.n_layers),
        norm(c, "norm", embed),
        *rotaries(c),
    )
    return with_head(c, model)


def _mixture(c: MuseSparkConfig, embed: Axis) -> Module:
    experts, ffn, narrow = (
        Axis("expert", c.n_experts),
        Axis("expert_ffn", c.d_ff_expert),
        Axis("narrow", c.d_expert),
    )
    parts = (
        stacked("gate_up_proj", experts, c.top_k, 2 * ffn, narrow),
        gate_op(c.act, c.top_k * c.d_ff_expert),
        stacked("down_proj", experts, c.top_k, narrow, ffn),
        rms_norm("post_expert_norm", narrow),
    )
    return Module(
        "mlp",
        (
            router("gate", experts, embed),
            linear("pre_expert_proj", narrow, embed, component="experts"),
            rms_norm("pre_expert_norm", narrow),
            Module("experts", parts, component="experts"),
            linear("post_expert_proj", embed, narrow, component="experts"),
        ),
    )


ARCHITECTURES = {"muse_spark_text": Architecture(MuseSparkConfig, muse_spark)}


def _text(hf: HFConfig) -> Reading:
    n_layers, bias = hf["num_hidden_layers"], bool(hf["attention_bias"])
    return moe_reading(
        hf,
        "muse_spark_text",
        MuseSparkConfig,
        d_expert=hf["moe_hidden_size"],
        mlp_layers=sparse_layers(hf, lambda i: True),
        qkv_bias=bias,
        o_bias=bias,
        output_gate="gate_proj",
        norms=("input_layernorm", "", "pre_feedforward_layernorm", "post_feedforward_layernorm"),
        **windows(hf, lambda i: (n_layers - 1 - i) % 4 != 0),
    )


HF_READERS = {"muse_spark_text": _text}
