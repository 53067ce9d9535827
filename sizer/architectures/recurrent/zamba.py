"""Zamba: Mamba layers with several heads, and one transformer block that many layers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.mamba import selective_scan, time_step_rank
from sizer.architectures.recurrent.parts import (
    check_layers,
    in_layers,
    layer_pattern,
    short_conv,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, embedding, gated_mlp, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class ZambaConfig(Config):
    """Sizes and switches of a Zamba.

    `layers`: "linear", or "hybrid" for a layer that runs the shared block before its Mamba mixer.
    `shared`: that block is one for all, rather than one a layer.
    """

    d_model: Dim
    n_layers: Dim
    vocab_size: Dim
    n_heads: Dim
    d_ff: Dim
    layers: Pattern
    dt_rank: Dim
    n_ssm_heads: Dim = 2
    d_state: Dim = 16
    d_conv: Dim = 4
    d_inner: Dim | None = None
    d_ssm_head: Dim | None = None
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    d_attn: Dim | None = None
    bias: bool = False
    conv_bias: bool = True
    act: str = "gelu"
    tie_embeddings: bool = True
    shared: bool = True

    letters = {
        "n_ssm_heads": "Hs",
        "d_ssm_head": "Ds",
        "d_inner": "Di",
        "d_conv": "Kc",
        "dt_rank": "Rt",
        "d_attn": "Da",
    }
    meanings = {
        "n_ssm_heads": "heads of the mixer",
        "d_ssm_head": "width of a head of the mixer",
        "d_inner": "width of the mixer",
        "d_conv": "width of the convolution",
        "dt_rank": "rank of the time step",
        "d_attn": "width of the input of the transformer block",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_kv_heads=self.n_heads, d_inner=2 * self.d_model, d_attn=2 * self.d_model)
        if self.d_head is None:
            self.derive(d_head=divide(2 * self.d_model, self.n_heads, names="2·d_model / n_heads"))
        self.derive_quotient("d_ssm_head", "d_inner", "n_ssm_heads")
        check_layers(self.n_layers, self.layers)


def zamba(c: ZambaConfig) -> Module:
    """Zamba (arXiv:2405.16712), with the tensor names of `ZambaForCausalLM`.

    Source: transformers `modeling_zamba.py`. There are no positions: the mixers know the order.
    """
    embed = Axis("embed", c.d_model)
    mamba_layer = (_mixer(c, embed), rms_norm("input_layernorm", embed))
    layer = Module(
        "layers",
        (
            *in_layers(c.layers, Module("", mamba_layer), "linear"),
            *in_layers(c.layers, _shared_block(c, embed), "hybrid"),
            *in_layers(c.layers, linear("linear", embed, embed, component="mlp"), "hybrid"),
            *in_layers(c.layers, Module("mamba_decoder", mamba_layer), "hybrid"),
        ),
        repeat=c.n_layers,
    )
    vocab = Axis("vocab", c.vocab_size)
    model = (embedding("embed_tokens", vocab, embed), layer, rms_norm("final_layernorm", embed))
    return with_head(c, model)


def _mixer(c: ZambaConfig, embed: Axis) -> Module:
    """Mamba's mixer, in which each head has projections of its own to Δ, B and C."""
    inner, heads, head = (
        Axis("inner", c.d_inner),
        Axis("ssm_heads", c.n_ssm_heads),
        Axis("head", c.d_ssm_head),
    )
    rank, state = Axis("dt_rank", c.dt_rank), Axis("state", c.d_state)
    return Module(
        "mamba",
        (
            linear("in_proj", 2 * inner, embed, bias=c.bias),
            short_conv("conv1d", inner, c.d_conv, bias=c.conv_bias),
            Param("x_proj_weight", (heads, rank + 2 * state, head), "matmul"),
            Param("dt_proj_weight", (heads, head, rank), "matmul"),
            Param("dt_proj_bias", (heads, head)),
            Param("A_log", (heads, head, state)),
            Param("D", (heads, head)),
            *selective_scan(inner.size, c.d_state),
            linear("out_proj", embed, inner, bias=c.bias),
        ),
        component="mixer",
    )


def _shared_block(c: ZambaConfig, embed: Axis) -> Module:
    """The transformer block, over the layer's input and the embeddings side by side (width 2D)."""
    double = Axis("embed", c.d_attn)
    return Module(
        "shared_transf",
        (
            rms_norm("input_layernorm", double),
            wide_attention(c, embed),
            rms_norm("pre_ff_layernorm", embed),
            gated_mlp("feed_forward", Axis("ffn", c.d_ff), embed, act=c.act),
        ),
        shared=c.shared,
    )


def wide_attention(c: Any, embed: Axis, adapters: tuple[Module, ...] = ()) -> Module:
    """Attention over the layer's input and the embeddings side by side, back to the layer's width."""
    double = Axis("embed", c.d_attn)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    return Module(
        "self_attn",
        (
            linear("q_proj", heads, double),
            linear("k_proj", kv_heads, double),
            linear("v_proj", kv_heads, double),
            *adapters,
            *attention_core(c.n_heads, c.n_kv_heads, c.d_head),
            linear("o_proj", embed, heads),
        ),
        component="attention",
    )


ARCHITECTURES = {"zamba": Architecture(ZambaConfig, zamba)}


def _zamba(hf: HFConfig) -> Reading:
    n_layers, period, offset = hf["num_hidden_layers"], hf["attn_layer_period"], hf["attn_layer_offset"]
    kinds = hf["layers_block_type"]
    if kinds is None:
        later = ("hybrid" if i % period == offset else "mamba" for i in range(n_layers - 3))
        kinds = ["mamba", "mamba", "hybrid", *later]
    given = hf.fill(
        ZambaConfig,
        layers=layer_pattern(hf, kinds, "linear", "hybrid"),
        d_inner=hf["mamba_expand"] * hf["hidden_size"],
        d_head=hf["attention_head_dim"] or None,
        d_attn=hf["attention_hidden_size"] or None,
        n_ssm_heads=hf["n_mamba_heads"],
        d_conv=hf["mamba_d_conv"],
        # transformers 5 ties either everything that can be tied or nothing.
        shared=hf["tie_word_embeddings"],
        dt_rank=time_step_rank(hf, "mamba_dt_rank"),
        bias=hf["mamba_proj_bias"],
        conv_bias=hf["mamba_conv_bias"],
        act=hf["hidden_act"],
    )
    return Reading("zamba", given)


HF_READERS = {"zamba": _zamba}
