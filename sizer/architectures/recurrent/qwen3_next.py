"""Qwen3-Next, Qwen3.5 and LARA-mini: Gated DeltaNet layers, with attention in every few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import attention, feed_forward, qk_norms, rotary_buffers
from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.decoders.ways import windowed_core
from sizer.architectures.heads import with_head
from sizer.architectures.mtp import fused_inputs, layers_in_file
from sizer.architectures.recurrent.delta import (
    DeltaConfig,
    delta_axes,
    delta_net,
    delta_sizes,
    every_nth,
)
from sizer.architectures.recurrent.parts import (
    check_layers,
    in_layers,
    layer_pattern,
    short_conv,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, gate_op, gated_mlp, linear, rms_norm, routed_experts
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

LARA_LAYERS = (
    "linear_attention",
    "sliding_attention",
    "linear_attention",
    "full_attention",
    "sliding_attention",
)


@configuration
class Qwen3NextConfig(DeltaConfig):
    """Sizes and switches of a Qwen3-Next.

    `paired_inputs`: the mixer has two input projections (q, k, v and gate; decays) rather than four.
    `fused_files`: LARA-mini's checkpoints keep the four as one, and the experts of a layer together.
    `gated_attention`: queries bring a gate of their width.
    `mlps`: "dense" or "sparse"; without it all layers have experts, or none where `n_experts` is
    not given. `shared_gate`: one number scales the shared expert.
    `mtp_layers`: layers for multi-token prediction, in the count where `count_mtp` says so.
    """

    paired_inputs: bool = False
    fused_files: bool = False
    gated_attention: bool = True
    mlps: Pattern | None = None
    n_experts: Dim | None = None
    top_k: Dim | None = None
    d_ff_expert: Dim | None = None
    d_ff_shared: Dim | None = None
    shared_gate: bool = True
    d_ff: Dim | None = None
    qk_norm: str | None = "head"
    mtp_layers: Dim | None = None
    count_mtp: bool = False

    letters = {**DeltaConfig.letters, "mlps": "L", "d_ff_shared": "Fs"}
    meanings = {**DeltaConfig.meanings, "d_ff_shared": "hidden width of the shared expert"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layers(self.n_layers, self.mlps)


def qwen3_next(c: Qwen3NextConfig) -> Module:
    """Qwen3-Next (Qwen 2025), with the tensor names of `Qwen3NextForCausalLM`.

    Source: transformers `modeling_qwen3_next.py`, `modeling_qwen3_5.py`, `modeling_lara_mini.py`.
    """
    embed = Axis("embed", c.d_model)
    attends = _gated_attention(c, embed) if c.gated_attention else attention(c)
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            *in_layers(c.layers, _mixer(c, embed), "linear"),
            *in_layers(c.layers, attends, "full", "window"),
            rms_norm("post_attention_layernorm", embed),
            *_mlps(c, embed),
        ),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        block,
        rms_norm("norm", embed),
        *rotary_buffers(c.d_rotary, layout=c.layout),
    )
    further = (
        rms_norm("input_layernorm", embed),
        attends,
        rms_norm("post_attention_layernorm", embed),
        feed_forward(c) if c.n_experts is None else _experts(c, embed),
    )
    tree = with_head(c, model)
    return tree._replace(children=(*tree.children, *fused_inputs(c, further)))


def _mixer(c: Qwen3NextConfig, embed: Axis) -> Module:
    keys, values, heads = delta_axes(c)
    convolved = 2 * keys + values
    norm = "norm"
    if c.paired_inputs:
        before: tuple[Module, ...] = (
            linear("in_proj_qkvz", convolved + values, embed),
            linear("in_proj_ba", 2 * heads, embed),
        )
    elif c.fused_files and c.layout == "checkpoint":
        norm = "out_norm"
        before = (linear("in_proj", convolved + values + 2 * heads, embed),)
    else:
        before = (
            linear("in_proj_qkv", convolved, embed),
            linear("in_proj_z", values, embed),
            linear("in_proj_b", heads, embed),
            linear("in_proj_a", heads, embed),
        )
    conv = short_conv("conv1d", convolved, c.d_conv, bias=False)
    return delta_net(c, before, (conv,), linear("out_proj", embed, values), norm=norm)


def _gated_attention(c: Qwen3NextConfig, embed: Axis) -> Module:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    return Module(
        "self_attn",
        (
            linear("q_proj", 2 * heads, embed, bias=c.qkv_bias),
            linear("k_proj", kv_heads, embed, bias=c.qkv_bias),
            linear("v_proj", kv_heads, embed, bias=c.qkv_bias),
            *qk_norms(c, heads, kv_heads),
            *windowed_core(c),
            gate_op("sigmoid", heads.size),
            linear("o_proj", embed, heads, bias=c.o_bias),
        ),
        component="attention",
    )


def _mlps(c: Qwen3NextConfig, embed: Axis) -> tuple[Module, ...]:
    if c.n_experts is None:
        return (feed_forward(c),)
    sparse = _experts(c, embed)
    if c.mlps is None:
        return (sparse,)
    return (*in_layers(c.mlps, feed_forward(c), "dense"), *in_layers(c.mlps, sparse, "sparse"))


def _experts(c: Qwen3NextConfig, embed: Axis) -> Module:
    experts, shared = Axis("expert", c.n_experts), Axis("ffn", c.d_ff_shared)
    ffn, one = Axis("expert_ffn", c.d_ff_expert), Axis("one", 1)
    layout = "transformers" if c.fused_files else c.layout
    gate = (linear("shared_expert_gate", one, embed, component="experts"),) if c.shared_gate else ()
    return Module(
        "mlp",
        (
            linear("gate", experts, embed, component="router"),
            routed_experts("experts", experts, c.top_k, ffn, embed, layout=layout, act=c.act),
            gated_mlp("shared_expert", shared, embed, act=c.act, component="experts"),
            *gate,
        ),
    )


ARCHITECTURES = {"qwen3_next": Architecture(Qwen3NextConfig, qwen3_next)}


def _qwen3_next(hf: HFConfig) -> Reading:
    step, dense = hf["decoder_sparse_step"], hf["mlp_only_layers"] or ()
    n_layers, n_experts = hf["num_hidden_layers"], hf["num_experts"]
    mlps = Pattern(
        tuple(
            "sparse" if i not in dense and n_experts > 0 and (i + 1) % step == 0 else "dense"
            for i in range(n_layers)
        )
    )
    routed, mixed = mlps.has("sparse"), mlps.has("sparse") and mlps.has("dense")
    given = hf.fill(
        Qwen3NextConfig,
        **_sizes(hf, routed),
        **delta_sizes(hf),
        layers=every_nth(hf, "linear", "full"),
        paired_inputs=True,
        mlps=mlps if mixed else None,
        d_ff=hf["intermediate_size"] if mlps.has("dense") else None,
    )
    return Reading("qwen3_next", given)


def _qwen3_5(hf: HFConfig) -> Reading:
    """The text model of a Qwen3.5, dense or with experts in every layer."""
    routed = hf.model_type == "qwen3_5_moe_text"
    given = hf.fill(
        Qwen3NextConfig,
        **_sizes(hf, routed),
        **delta_sizes(hf),
        layers=every_nth(hf, "linear", "full"),
        d_ff=None if routed else hf["intermediate_size"],
    )
    return Reading("qwen3_next", given)


def _lara_mini(hf: HFConfig) -> Reading:
    n_layers = hf["num_hidden_layers"]
    kinds = hf["layer_types"] or [LARA_LAYERS[i % len(LARA_LAYERS)] for i in range(n_layers)]
    layers = layer_pattern(hf, kinds, "linear", "full", "window")
    given = hf.fill(
        Qwen3NextConfig,
        **delta_sizes(hf),
        layers=layers,
        window_layers=layers,
        d_rotary=rotary_width(hf, hf["head_dim"]),
        fused_files=True,
        gated_attention=False,
        d_ff=None,
        d_ff_shared=hf["shared_expert_intermediate_size"],
        shared_gate=False,
        mtp_layers=None,
    )
    return Reading("qwen3_next", given)


def _sizes(hf: HFConfig, routed: bool) -> dict[str, Any]:
    """What Qwen3-Next and Qwen3.5 have in common; a quarter of each head is rotated."""
    return {
        "window": None,
        "mtp_layers": layers_in_file(hf),
        "d_rotary": rotary_width(hf, hf["head_dim"], default=0.25),
        "n_experts": hf["num_experts"] if routed else None,
        "top_k": hf["num_experts_per_tok"] if routed else None,
        "d_ff_expert": hf["moe_intermediate_size"] if routed else None,
        "d_ff_shared": hf["shared_expert_intermediate_size"] if routed else None,
    }


HF_READERS = {
    "qwen3_next": _qwen3_next,
    "qwen3_5_text": _qwen3_5,
    "qwen3_5_moe_text": _qwen3_5,
    "lara_mini": _lara_mini,
}
