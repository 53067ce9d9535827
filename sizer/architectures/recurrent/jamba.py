"""Jamba: Mamba mixers with an attention layer now and then, and routed experts in some layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, attention, feed_forward
from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.mamba import mamba_mixer, time_step_rank
from sizer.architectures.recurrent.parts import check_layers, in_layers
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear, rms_norm, routed_experts
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class JambaConfig(DecoderConfig):
    """Sizes and switches of a Jamba.

    `layers`: "linear" (a Mamba mixer) or "full" (attention). `mlps`: "dense" or "sparse" (routed
    experts, each as wide as the dense MLP).
    """

    layers: Pattern
    mlps: Pattern
    dt_rank: Dim
    d_inner: Dim | None = None
    d_state: Dim = 16
    d_conv: Dim = 4
    ssm_bias: bool = False
    conv_bias: bool = True
    n_experts: Dim | None = None
    top_k: Dim | None = None

    letters = {
        **DecoderConfig.letters,
        "mlps": "L",
        "d_inner": "Di",
        "d_conv": "Kc",
        "dt_rank": "Rt",
    }
    meanings = {
        **DecoderConfig.meanings,
        "d_inner": "width of the mixer",
        "d_conv": "width of the convolution",
        "dt_rank": "rank of the time step",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.derive(d_inner=2 * self.d_model)
        check_layers(self.n_layers, self.layers, self.mlps)


def jamba(c: JambaConfig) -> Module:
    """Jamba (arXiv:2403.19887), with the tensor names of `JambaForCausalLM`.

    Source: transformers `modeling_jamba.py`. There are no positions: the mixers know the order.
    """
    embed, rank, state = Axis("embed", c.d_model), Axis("dt_rank", c.dt_rank), Axis("state", c.d_state)
    mixer = mamba_mixer(
        "mamba",
        embed,
        Axis("inner", c.d_inner),
        d_state=c.d_state,
        d_conv=c.d_conv,
        dt_rank=c.dt_rank,
        bias=c.ssm_bias,
        conv_bias=c.conv_bias,
        norms=(
            rms_norm("dt_layernorm", rank),
            rms_norm("b_layernorm", state),
            rms_norm("c_layernorm", state),
        ),
    )
    dense = feed_forward(c)._replace(name="feed_forward")
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            *in_layers(c.layers, mixer, "linear"),
            *in_layers(c.layers, attention(c), "full"),
            rms_norm("pre_ff_layernorm", embed),
            *in_layers(c.mlps, dense, "dense"),
            *(in_layers(c.mlps, _experts(c, embed), "sparse") if c.n_experts is not None else ()),
        ),
        repeat=c.n_layers,
    )
    vocab = Axis("vocab", c.vocab_size)
    model = (embedding("embed_tokens", vocab, embed), block, rms_norm("final_layernorm", embed))
    return with_head(c, model)


def _experts(c: JambaConfig, embed: Axis) -> Module:
    experts, ffn = Axis("expert", c.n_experts), Axis("expert_ffn", c.d_ff)
    return Module(
        "feed_forward",
        (
            linear("router", experts, embed, component="router"),
            routed_experts("experts", experts, c.top_k, ffn, embed, layout=c.layout, act=c.act),
        ),
    )


ARCHITECTURES = {"jamba": Architecture(JambaConfig, jamba)}


def _jamba(hf: HFConfig) -> Reading:
    n_layers, n_experts = hf["num_hidden_layers"], hf["num_experts"]

    def every(period: str, offset: str, there: str, elsewhere: str) -> Pattern:
        at = (i % hf[period] == hf[offset] for i in range(n_layers))
        return Pattern(tuple(there if hit else elsewhere for hit in at))

    sparse = "sparse" if n_experts > 1 else "dense"
    mlps = every("expert_layer_period", "expert_layer_offset", sparse, "dense")
    routed = mlps.has("sparse")
    given = hf.fill(
        JambaConfig,
        layers=every("attn_layer_period", "attn_layer_offset", "full", "linear"),
        mlps=mlps,
        d_inner=hf["mamba_expand"] * hf["hidden_size"],
        d_conv=hf["mamba_d_conv"],
        dt_rank=time_step_rank(hf, "mamba_dt_rank"),
        ssm_bias=hf["mamba_proj_bias"],
        conv_bias=hf["mamba_conv_bias"],
        n_experts=n_experts if routed else None,
        top_k=hf["num_experts_per_tok"] if routed else None,
        act=hf["hidden_act"],
        window=None,
    )
    return Reading("jamba", given)


HF_READERS = {"jamba": _jamba}
