"""LFM2 and LFM3: gated short convolutions, with an attention layer now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import DecoderConfig, rotary_buffers, windowed_core
from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.parts import (
    check_layers,
    in_layers,
    layer_pattern,
    short_conv,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim, round_up
from sizer.core.layers import buffer, embedding, gate_op, gated_mlp, linear, rms_norm, routed_experts
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Leaf, Module, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

MLP_NAMES = ("w1", "w3", "w2")


@configuration
class Lfm2Config(DecoderConfig):
    """Sizes and switches of an LFM2.

    `layers`: "conv", "full" or "window". `mlps`: "dense" or "sparse", for a model with experts;
    `router_bias`: the buffer that balances them.
    `attention_names`: the norms of queries and keys, and the last projection.
    `head_gate`: LFM3's gate, one number a head. `rotary_by_kind`: its rotation differs by layer kind.
    """

    layers: Pattern
    mlps: Pattern | None = None
    d_conv: Dim = 3
    conv_bias: bool = False
    n_experts: Dim | None = None
    top_k: Dim | None = None
    d_ff_expert: Dim | None = None
    router_bias: bool = True
    head_gate: bool = False
    attention_names: tuple[str, str, str] = ("q_layernorm", "k_layernorm", "out_proj")
    norms: tuple[str, str, str, str] = ("operator_norm", "", "ffn_norm", "")
    rotary_name: str = "rotary_emb"
    rotary_by_kind: bool = False
    tie_embeddings: bool = True

    layer_kinds = ("conv", *DecoderConfig.layer_kinds)
    letters = {**DecoderConfig.letters, "mlps": "L", "d_conv": "Kc"}
    meanings = {**DecoderConfig.meanings, "d_conv": "width of the convolution"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layers(self.n_layers, self.layers, self.mlps)


def lfm2(c: Lfm2Config) -> Module:
    """LFM2 (Liquid AI 2025), with the tensor names of `Lfm2ForCausalLM`.

    Source: transformers `modeling_lfm2.py`, `modeling_lfm2_moe.py`, `modeling_lfm3.py`.
    """
    embed = Axis("embed", c.d_model)
    before, after, before_mlp, after_mlp = (tuple(rms_norm(n, embed) for n in (x,) if n) for x in c.norms)
    block = Module(
        "layers",
        (
            *before,
            *in_layers(c.layers, _conv(c, embed), "conv"),
            *in_layers(c.layers, _attention(c, embed), "full", "window"),
            *after,
            *before_mlp,
            *_mlps(c, embed),
            *after_mlp,
        ),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        block,
        rms_norm("embedding_norm", embed),
        *_rotary(c),
    )
    return with_head(c, model)


def _conv(c: Lfm2Config, embed: Axis) -> Module:
    """`out(C · conv(B · x))`, with B, C and x from one projection."""
    return Module(
        "conv",
        (
            linear("in_proj", 3 * embed, embed, bias=c.conv_bias),
            short_conv("conv", embed, c.d_conv, bias=c.conv_bias),
            gate_op("identity", 2 * c.d_model),
            linear("out_proj", embed, embed, bias=c.conv_bias),
        ),
        component="mixer",
    )


def _attention(c: Lfm2Config, embed: Axis) -> Module:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    one_head = Axis("head", c.d_head)
    q_norm, k_norm, out = c.attention_names
    gate: tuple[Module | Leaf, ...] = ()
    if c.head_gate:
        name = "gate_proj" if c.layout == "checkpoint" else "g_proj"
        gate = (linear(name, Axis("heads", c.n_heads), embed), gate_op("sigmoid", heads.size))
    return Module(
        "self_attn",
        (
            linear("q_proj", heads, embed, bias=c.qkv_bias),
            linear("k_proj", kv_heads, embed, bias=c.qkv_bias),
            linear("v_proj", kv_heads, embed, bias=c.qkv_bias),
            rms_norm(q_norm, one_head),
            rms_norm(k_norm, one_head),
            *windowed_core(c),
            *gate,
            linear(out, embed, heads, bias=c.o_bias),
        ),
        component="attention",
    )


def _mlps(c: Lfm2Config, embed: Axis) -> tuple[Module, ...]:
    dense = gated_mlp("feed_forward", Axis("ffn", c.d_ff), embed, names=MLP_NAMES)
    if c.mlps is None:
        return (dense,)
    experts = Axis("expert", c.n_experts)
    balance = (buffer("expert_bias", experts, component="router"),) if c.router_bias else ()
    sparse = Module(
        "feed_forward",
        (
            linear("gate", experts, embed, component="router"),
            *balance,
            routed_experts(
                "experts",
                experts,
                c.top_k,
                Axis("expert_ffn", c.d_ff_expert),
                embed,
                layout=c.layout,
                names=MLP_NAMES,
            ),
        ),
    )
    return (*in_layers(c.mlps, dense, "dense"), *in_layers(c.mlps, sparse, "sparse"))


def _rotary(c: Lfm2Config) -> tuple[Module, ...]:
    if not c.rotary_by_kind:
        return rotary_buffers(c.d_rotary, layout=c.layout, name=c.rotary_name)
    words = {"full": "full_attention", "window": "sliding_attention"}
    return tuple(
        module._replace(
            children=tuple(leaf._replace(name=f"{word}_{leaf.name}") for leaf in module.children),
        )
        for kind, word in words.items()
        if c.layers.has(kind)
        for module in rotary_buffers(c.d_rotary, layout=c.layout, name=c.rotary_name)
    )


ARCHITECTURES = {"lfm2": Architecture(Lfm2Config, lfm2)}


def _common(hf: HFConfig) -> dict[str, Any]:
    d_head = hf.in_file("head_dim") or hf["hidden_size"] // hf["num_attention_heads"]
    return {
        "d_conv": hf["conv_L_cache"],
        "conv_bias": hf["conv_bias"],
        "d_rotary": rotary_width(hf, d_head),
        # An older name of the key wins, as in transformers.
        "tie_embeddings": hf.in_file("tie_embedding", hf["tie_word_embeddings"]),
    }


def _lfm2(hf: HFConfig) -> Reading:
    n_layers, attends = hf["num_hidden_layers"], hf["full_attn_idxs"]
    kinds = hf["layer_types"] or [
        "full_attention" if attends is None or i in attends else "conv" for i in range(n_layers)
    ]
    width = hf.in_file("block_ff_dim", hf["intermediate_size"])
    if hf["block_auto_adjust_ff_dim"]:
        width = int(2 * width / 3)
        if hf["block_ffn_dim_multiplier"] is not None:
            width = round_up(int(hf["block_ffn_dim_multiplier"] * width), hf["block_multiple_of"])
    given = hf.fill(
        Lfm2Config, **_common(hf), layers=layer_pattern(hf, kinds, "full", "conv"), d_ff=width, window=None
    )
    return Reading("lfm2", given)


def _lfm2_moe(hf: HFConfig) -> Reading:
    n_layers, n_dense = hf["num_hidden_layers"], hf["num_dense_layers"]
    if hf["layer_types"] is None:
        raise InvalidConfig(f"{hf.name}: an lfm2_moe configuration needs 'layer_types'")
    given = hf.fill(
        Lfm2Config,
        **_common(hf),
        layers=layer_pattern(hf, hf["layer_types"], "full", "conv"),
        mlps=Pattern(tuple("dense" if i < n_dense else "sparse" for i in range(n_layers))),
        router_bias=hf["use_expert_bias"],
        rotary_name="pos_emb",
        window=None,
    )
    return Reading("lfm2", given)


def _lfm3(hf: HFConfig) -> Reading:
    kinds = hf["layer_types"] or [
        "full_attention" if i % 4 == 2 else "sliding_attention" if i % 4 == 0 and i else "conv"
        for i in range(hf["num_hidden_layers"])
    ]
    layers = layer_pattern(hf, kinds, "full", "window", "conv")
    sandwich = hf["use_sandwich_norm"]
    bias = hf["attention_bias"]
    given = hf.fill(
        Lfm2Config,
        **{**_common(hf), "d_rotary": None, "tie_embeddings": hf["tie_word_embeddings"]},
        layers=layers,
        window_layers=layers,
        attention_names=("q_norm", "k_norm", "o_proj"),
        head_gate=hf["use_attention_gate"],
        norms=(
            "operator_norm",
            "post_operator_norm" if sandwich else "",
            "ffn_norm",
            "post_ffn_norm" if sandwich else "",
        ),
        rotary_by_kind=True,
        qkv_bias=bias,
        o_bias=bias,
    )
    return Reading("lfm2", given)


HF_READERS = {"lfm2": _lfm2, "lfm2_moe": _lfm2_moe, "lfm3": _lfm3}
