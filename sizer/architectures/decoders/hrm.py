"""HRM-Text: two stacks of blocks that take turns, each run many times on the same weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, feed_forward, fused_gated_mlp, rotary_buffers
from sizer.architectures.decoders.reading import dense, rotary_width
from sizer.architectures.decoders.ways import windowed_core
from sizer.architectures.heads import Children, with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class HRMConfig(DecoderConfig):
    """Sizes and switches of an HRM-Text.

    `n_layers`: blocks of each of the two stacks. A pass runs the high stack `h_cycles` times, and
    before each of those the low stack `l_cycles` times.
    """

    h_cycles: Dim = 2
    l_cycles: Dim = 3

    letters = {**DecoderConfig.letters, "h_cycles": "Ch", "l_cycles": "Cl"}
    meanings = {
        **DecoderConfig.meanings,
        "n_layers": "blocks of each stack",
        "h_cycles": "runs of the high stack in a pass",
        "l_cycles": "runs of the low stack for each of the high one",
    }


def hrm_text(c: HRMConfig) -> Module:
    """HRM-Text, after the Hierarchical Reasoning Model (arXiv:2506.21734).

    Norms have no weight, and attention a gate as wide as its heads. The state that the low stack
    starts from is stored and not learned. Source: transformers `modeling_hrm_text.py`.
    """
    embed = Axis("embed", c.d_model)
    layers = Module("layers", (_attention(c, embed), _feed_forward(c)), repeat=c.n_layers)
    model: Children = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        Param("z_L_init", (embed,), trainable=False),
        Op("early_runs", "no_gradient", {}),
        Module("L_module", (layers,), uses=c.h_cycles * c.l_cycles),
        Module("H_module", (layers,), uses=c.h_cycles),
        *rotary_buffers(c.d_rotary, layout=c.layout),
    )
    return with_head(c, model)


def _attention(c: HRMConfig, embed: Axis) -> Module:
    """Gated attention; published files hold gate, queries, keys and values in one matrix."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    names = ("gate_proj", "q_proj", "k_proj", "v_proj")
    core, output = windowed_core(c), linear("o_proj", embed, heads, bias=c.o_bias)
    if c.layout == "transformers":
        gated = (linear(name, heads, embed, bias=c.qkv_bias) for name in names)
        return Module("self_attn", (*gated, *core, output), component="attention")
    biases = (Param(f"{name}.bias", (heads,)) for name in names) if c.qkv_bias else ()
    fused = (linear("gqkv_proj", 4 * heads, embed), *core, output)
    return Module("", (Module("attn", fused), Module("self_attn", tuple(biases))), component="attention")


def _feed_forward(c: HRMConfig) -> Module:
    """A gated MLP; published files hold gate and up in one matrix, and their biases apart."""
    if c.layout == "transformers":
        return feed_forward(c)
    ffn, embed = Axis("ffn", c.d_ff), Axis("embed", c.d_model)
    fused = fused_gated_mlp("mlp", ffn, embed, bias=False, act=c.act, names=("gate_up_proj", "down_proj"))
    if not c.mlp_bias:
        return fused
    widths = {"gate_proj": ffn, "up_proj": ffn, "down_proj": embed}
    biases = (Param(f"{name}.bias", (width,)) for name, width in widths.items())
    return fused._replace(children=(*fused.children, *biases))


ARCHITECTURES = {"hrm_text": Architecture(HRMConfig, hrm_text)}


def _hrm_text(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    per_stack = hf.get("num_layers_per_stack")
    reading = dense(
        hf,
        "hrm_text",
        n_layers=hf["num_hidden_layers"] if per_stack is None else per_stack,
        n_kv_heads=None,
        d_rotary=rotary_width(hf),
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=hf["mlp_bias"],
        norm="none",
    )
    cycles = {"h_cycles": hf["H_cycles"], "l_cycles": hf["L_cycles"]}
    return reading._replace(given={**reading.given, **cycles})


HF_READERS = {"hrm_text": _hrm_text}
