"""Zaya: convolved, compressed attention, and experts behind a router that is an MLP itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import after_first, attention_core, buffer, embedding, linear, rms_norm, routed_experts
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Leaf, Module, Op, Param, State, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class ZayaConfig(Config):
    """Sizes and switches of a Zaya.

    `layers`: "hybrid" or "hybrid_sliding". `d_conv`, `d_conv_grouped`: widths of the convolution
    over each channel and of the one over each head's channels. `head_bias`: the language-model
    head has a bias.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    n_kv_heads: Dim
    d_head: Dim
    vocab_size: Dim
    n_experts: Dim
    top_k: Dim = 1
    d_ff_expert: Dim
    d_router: Dim
    d_conv: Dim = 2
    d_conv_grouped: Dim = 2
    d_half_value: Dim | None = None
    layers: Pattern
    window: Dim | None = None
    d_rotary: Dim
    d_rotary_sliding: Dim
    attention_bias: bool = False
    head_bias: bool = False
    tie_embeddings: bool = True
    act: str = "silu"

    letters = {
        "d_router": "R",
        "d_conv": "Kc",
        "d_conv_grouped": "Kg",
        "d_half_value": "Vh",
        "d_rotary": "Dr",
        "d_rotary_sliding": "Drw",
    }
    meanings = {
        "d_router": "width of the router",
        "d_conv": "width of the convolution over channels",
        "d_conv_grouped": "width of the convolution over heads",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        width = self.n_kv_heads * self.d_head
        self.derive(d_half_value=divide(width, 2, names="n_kv_heads·d_head / 2"))


def zaya(c: ZayaConfig) -> Module:
    """Zaya, with the tensor names of `ZayaForCausalLM`.

    Source: transformers `modeling_zaya.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            _attention(c, embed),
            _residual_scale("post_attention_residual_scale", embed),
            rms_norm("post_attention_layernorm", embed),
            _experts(c, embed),
            _residual_scale("post_mlp_residual_scale", embed),
        ),
        repeat=c.n_layers,
    )
    model: tuple[Module | Leaf, ...] = (
        embedding("embed_tokens", vocab, embed),
        Param("input_hidden_states_scale", (embed,)),
        Param("input_hidden_states_bias", (embed,)),
        block,
        rms_norm("norm", embed),
        *_rotary(c),
    )
    if c.task == "base":
        return Module("", model)
    tied_to = "model.embed_tokens.weight" if c.tie_embeddings else None
    head = linear("lm_head", vocab, embed, bias=c.head_bias, tied_to=tied_to, component="head")
    return Module("", (Module("model", model), head))


def _attention(c: ZayaConfig, embed: Axis) -> Module:
    """Queries and keys pass two short convolutions; half of each value is the token before's."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    half = Axis("kv_heads", c.d_half_value)
    channels, one = heads + kv_heads, Axis("one", 1)
    projections = Module(
        "qkv_proj",
        (
            linear("q_proj", heads, embed, bias=c.attention_bias),
            linear("k_proj", kv_heads, embed, bias=c.attention_bias),
            linear("v_proj_current", half, embed, bias=c.attention_bias),
            linear("v_proj_delayed", half, embed, bias=c.attention_bias),
            _convolution("conv_qk_depthwise", channels, one, c.d_conv),
            _convolution("conv_qk_grouped", channels, Axis("head", c.d_head), c.d_conv_grouped),
            State("conv", per_sequence=channels.size * (c.d_conv + c.d_conv_grouped - 2)),
            State("delayed_value", per_sequence=c.d_half_value),
        ),
    )
    whole, sliding = (
        attention_core(c.n_heads, c.n_kv_heads, c.d_head),
        attention_core(c.n_heads, c.n_kv_heads, c.d_head, window=c.window),
    )
    cores = (
        Module("", whole, at=c.layers.layers("hybrid")),
        Module("", sliding, at=c.layers.layers("hybrid_sliding")),
    )
    temperature = Module("qk_norm", (Param("temp", (Axis("kv_heads", c.n_kv_heads),)),), component="norm")
    output = linear("o_proj", embed, heads, bias=c.attention_bias)
    return Module("self_attn", (projections, temperature, *cores, output), component="attention")


def _convolution(name: str, channels: Axis, inputs: Axis, width: Dim) -> Module:
    sizes = {"channels": channels.size * inputs.size, "kernel": width}
    weight = Param("weight", (channels, inputs, Axis("kernel", width)))
    return Module(name, (weight, Param("bias", (channels,)), Op("conv", "conv", sizes)))


def _residual_scale(name: str, embed: Axis) -> Module:
    """A scale and a shift of the block's output and of the residual stream."""
    names = ("hidden_states_scale", "hidden_states_bias", "residual_scale", "residual_bias")
    return Module(name, tuple(Param(part, (embed,)) for part in names))


def _experts(c: ZayaConfig, embed: Axis) -> Module:
    """E experts, one of which a token visits, or none: the router has one choice more."""
    experts, ffn = Axis("expert", c.n_experts), Axis("expert_ffn", c.d_ff_expert)
    width, choices = Axis("router", c.d_router), Axis("choices", c.n_experts + 1)
    gate = Module(
        "gate",
        (
            linear("down_proj", width, embed, bias=True),
            # Every router but the first adds the states of the one before.
            Module("", (Param("router_states_scale", (width,)),), at=after_first(c.n_layers)),
            Module(
                "router_mlp",
                (
                    rms_norm("norm", width),
                    linear("fc1", width, width, bias=True),
                    linear("fc2", width, width, bias=True),
                    linear("out_proj", choices, width),
                ),
            ),
            buffer("balancing_biases", choices),
        ),
        component="router",
    )
    # Its checkpoints, too, have all experts of a layer in one tensor.
    routed = routed_experts("experts", experts, c.top_k, ffn, embed, layout="transformers", act=c.act)
    return Module("mlp", (gate, routed))


def _rotary(c: ZayaConfig) -> tuple[Module, ...]:
    if c.layout == "checkpoint":
        return ()
    widths = {"hybrid": c.d_rotary, "hybrid_sliding": c.d_rotary_sliding}
    buffers = (
        buffer(f"{kind}_{name}", Axis("rotary", divide(width, 2, names="d_rotary / 2")), persistent=False)
        for kind, width in widths.items()
        if c.layers.has(kind)
        for name in ("inv_freq", "original_inv_freq")
    )
    return (Module("rotary_emb", tuple(buffers)),)


ARCHITECTURES = {"zaya": Architecture(ZayaConfig, zaya)}


def _zaya(hf: HFConfig) -> Reading:
    n_layers = hf["num_hidden_layers"]
    kinds = (hf.per_layer("layer_types", n_layers) or ["hybrid"] * n_layers)[:n_layers]
    rope = hf.get("rope_parameters")

    def rotary(kind: str) -> int:
        factor = 0.5 if rope is None else (rope.get(kind) or {}).get("partial_rotary_factor", 1.0)
        return int(hf["head_dim"] * factor)

    return Reading(
        "zaya",
        hf.fill(
            ZayaConfig,
            layers=Pattern(tuple(kinds)),
            d_router=hf["router_hidden_size"],
            d_conv=hf["cca_time0"],
            d_conv_grouped=hf["cca_time1"],
            head_bias=hf["lm_head_bias"],
            d_rotary=rotary("hybrid"),
            d_rotary_sliding=rotary("hybrid_sliding"),
        ),
    )


HF_READERS = {"zaya": _zaya}
