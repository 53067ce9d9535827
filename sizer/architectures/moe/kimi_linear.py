"""Kimi Linear and Ling 3: Kimi delta attention in most layers, latent attention in the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.latent import latent_attention, latent_model, rotary_part
from sizer.architectures.heads import with_head
from sizer.architectures.moe.deepseek import DeepseekConfig, dense_and_sparse, kinds_of_mlp, mixture
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import gated_mlp, linear, renamed, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Op, Param, State, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class KimiLinearConfig(DeepseekConfig):
    """Sizes and switches of a Kimi Linear.

    `layers`: "linear" (delta attention) or "full" (latent attention).
    `low_rank_gates`: forget and output gates pass through the width of one head.
    `head_gate`: latent attention has a gate for each head. `positions`: and rotary positions.
    `checkpoint_names`: whose names a checkpoint has, "kimi", "ling" or "" for those in memory.
    `flat_decay`: the decays of the heads have one axis.
    """

    layers: Pattern
    n_linear_heads: Dim
    d_linear_head: Dim
    d_conv: Dim
    low_rank_gates: bool = True
    head_gate: bool = False
    positions: bool = False
    checkpoint_names: str = "kimi"
    flat_decay: bool = False

    letters = {
        **DeepseekConfig.letters,
        "n_linear_heads": "Hl",
        "d_linear_head": "Dl",
        "d_conv": "Kc",
    }
    meanings = {
        **DeepseekConfig.meanings,
        "n_linear_heads": "heads of delta attention",
        "d_linear_head": "width of one of its heads",
        "d_conv": "width of its convolution",
    }


def kimi_linear(c: KimiLinearConfig) -> Module:
    """Kimi Linear (arXiv:2510.26692), with the tensor names of `KimiLinearForCausalLM`.

    Source: transformers `modeling_kimi_linear.py`, `modeling_bailing_hybrid.py`.
    """
    embed = Axis("embed", c.d_model)
    dense, sparse = dense_and_sparse(c)
    gate = (linear("g_proj", Axis("heads", c.n_heads), embed),) if c.head_gate else ()
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            delta_attention(c, embed)._replace(at=c.layers.layers("linear")),
            latent_attention(c, embed, gate)._replace(at=c.layers.layers("full")),
            rms_norm("post_attention_layernorm", embed),
            gated_mlp("mlp", Axis("ffn", c.d_ff), embed, act=c.act)._replace(at=dense),
            mixture(c, embed)._replace(at=sparse),
        ),
        repeat=c.n_layers,
    )
    model = latent_model(c, embed, _stored(c, block))
    if not c.positions:
        model = model[:3]
    if c.checkpoint_names == "ling" and c.layout == "checkpoint" and c.task != "base":
        model = (model[0]._replace(name="word_embeddings"), *model[1:])
    return with_head(c, model)


def delta_attention(c: KimiLinearConfig, embed: Axis) -> Module:
    """Kimi delta attention: a recurrence whose state is a matrix a head, decayed by channel."""
    heads, per_head = heads_axis("heads", c.n_linear_heads, c.d_linear_head), Axis("heads", c.n_linear_heads)
    head, stored = Axis("head", c.d_linear_head), c.layout == "checkpoint"
    return Module(
        "self_attn",
        (
            linear("q_proj", heads, embed),
            linear("k_proj", heads, embed),
            linear("v_proj", heads, embed),
            *_convolutions(c, heads),
            Module("" if stored else "forget_gate", _forget_gate(c, heads, per_head, embed)),
            linear("b_proj", per_head, embed),
            Op("scan", "delta", {"width": heads.size, "d_state": c.d_linear_head}),
            State("delta", per_sequence=heads.size * c.d_linear_head, dtype="fp32"),
            *_low_rank(c, "g", heads, embed),
            rms_norm("o_norm", head),
            linear("o_proj", embed, heads),
        ),
        component="mixer",
    )


def _convolutions(c: KimiLinearConfig, heads: Axis) -> tuple[Module, ...]:
    """A short convolution over queries, keys and values: one tensor in memory, three in a file."""
    one, kernel = Axis("one", 1), Axis("kernel", c.d_conv)

    def convolution(name: str, channels: Axis) -> Module:
        weight = Param("weight", (channels, one, kernel))
        op = Op("conv", "conv", {"channels": channels.size, "kernel": c.d_conv})
        return Module(name, (weight, op, State("conv", per_sequence=channels.size * c.d_conv)))

    if c.layout == "checkpoint":
        return tuple(convolution(f"{x}_conv1d", heads) for x in "qkv")
    return (convolution("conv1d", 3 * heads),)


def _forget_gate(c: KimiLinearConfig, heads: Axis, per_head: Axis, embed: Axis) -> tuple[Module | Param, ...]:
    one = Axis("one", 1)
    decay = (per_head,) if c.flat_decay or not c.low_rank_gates else (one, one, per_head, one)
    return (Param("A_log", decay), Param("dt_bias", (heads,)), *_low_rank(c, "f", heads, embed))


def _low_rank(c: KimiLinearConfig, name: str, heads: Axis, embed: Axis) -> tuple[Module, ...]:
    if not c.low_rank_gates:
        return (linear(f"{name}_proj", heads, embed),)
    head = Axis("head", c.d_linear_head)
    return (linear(f"{name}_a_proj", head, embed), linear(f"{name}_b_proj", heads, head))


def _stored(c: KimiLinearConfig, block: Module) -> Module:
    """The block as a checkpoint names it."""
    if c.layout != "checkpoint":
        return block
    if c.checkpoint_names == "ling":
        names = {"self_attn": "attention", "o_proj": "dense", "e_score_correction_bias": "expert_bias"}
        return renamed(block, names)
    parts = [
        renamed(part, {"mlp": "block_sparse_moe"}) for part in block.children if isinstance(part, Module)
    ]
    *others, experts = parts
    weights = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
    inside = tuple(
        renamed(child, weights) if isinstance(child, Module) and child.name == "experts" else child
        for child in experts.children
    )
    return block._replace(children=(*others, experts._replace(children=inside)))


ARCHITECTURES = {"kimi_linear": Architecture(KimiLinearConfig, kimi_linear)}


def _read(hf: HFConfig, layer_types: list[str], first_dense: int, **given: Any) -> Reading:
    n_layers = hf["num_hidden_layers"]
    types = hf.per_layer("mlp_layer_types", n_layers)
    kinds = tuple("full" if kind == "full_attention" else "linear" for kind in layer_types[:n_layers])
    return Reading(
        "kimi_linear",
        hf.fill(
            KimiLinearConfig,
            **kinds_of_mlp(types, n_layers, first_dense),
            layers=Pattern(kinds),
            n_shared_experts=hf["n_shared_experts"] or None,
            # The classes declare no tie, whatever a file says.
            tie_embeddings=False,
            **given,
        ),
    )


def _kimi_linear(hf: HFConfig) -> Reading:
    nested = hf.get("linear_attn_config") or {}
    n_layers = hf["num_hidden_layers"]
    types = hf.per_layer("layer_types", n_layers)
    if types is None and "full_attn_layers" in nested and "kda_layers" in nested:
        # These count from one.
        full = set(nested["full_attn_layers"])
        types = ["full_attention" if i + 1 in full else "linear_attention" for i in range(n_layers)]
    if types is None:
        types = ["linear_attention" if i % 4 or not i else "full_attention" for i in range(n_layers)]
    return _read(
        hf,
        types,
        hf.get("first_k_dense_replace", 1),
        n_linear_heads=nested.get("num_heads", hf["linear_num_heads"]),
        d_linear_head=nested.get("head_dim", hf["linear_head_dim"]),
        d_conv=nested.get("short_conv_kernel_size", hf["linear_conv_kernel_dim"]),
    )


def _bailing_hybrid(hf: HFConfig) -> Reading:
    n_layers, group = hf["num_hidden_layers"], hf["layer_group_size"]
    types = hf.per_layer("layer_types", n_layers) or [
        "linear_attention" if (i + 1) % group else "full_attention" for i in range(n_layers)
    ]
    # A file of transformers has the sizes of delta attention under names of their own; in one of
    # the original, they are those of attention.
    heads = hf["linear_num_heads"] if "linear_num_heads" in hf else hf["num_attention_heads"]
    width = hf["linear_head_dim"] if "linear_head_dim" in hf else hf["head_dim"]
    kernel = hf["linear_conv_kernel_dim"] if "linear_conv_kernel_dim" in hf else hf["short_conv_kernel_size"]
    rotary = rotary_part(hf) if "linear_head_dim" in hf else hf["qk_rope_head_dim"]
    return _read(
        hf,
        types,
        hf["first_k_dense_replace"],
        n_linear_heads=heads,
        d_linear_head=width,
        d_conv=kernel,
        low_rank_gates=False,
        head_gate=True,
        positions=True,
        checkpoint_names="ling",
        d_rotary=rotary,
    )


HF_READERS = {"bailing_hybrid": _bailing_hybrid, "kimi_linear": _kimi_linear}
