"""MiniMax-01: lightning (linear) attention, softmax attention in some layers, and experts in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, attention, rotary_buffers
from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.parts import (
    check_layers,
    in_layers,
    layer_pattern,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, gate_op, linear, rms_norm, routed_experts
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Op, State, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class MiniMaxConfig(DecoderConfig):
    """Sizes and switches of a MiniMax.

    `layers`: "linear" (lightning attention) or "full". `d_block`: tokens of a block of it, whose
    decays are stored. `d_ff` is the width of an expert.
    """

    layers: Pattern
    n_experts: Dim
    top_k: Dim
    d_block: Dim = 256

    letters = {**DecoderConfig.letters, "d_block": "Tb"}
    meanings = {**DecoderConfig.meanings, "d_block": "tokens of a block of lightning attention"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layers(self.n_layers, self.layers)


def minimax(c: MiniMaxConfig) -> Module:
    """MiniMax-01 (arXiv:2501.08313), with the tensor names of `MiniMaxForCausalLM`.

    Source: transformers `modeling_minimax.py`.
    """
    embed = Axis("embed", c.d_model)
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            *in_layers(c.layers, _lightning(c, embed), "linear"),
            *in_layers(c.layers, attention(c), "full"),
            rms_norm("post_attention_layernorm", embed),
            _experts(c, embed),
        ),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        block,
        rms_norm("norm", embed),
        *rotary_buffers(c.d_rotary, layout=c.layout),
    )
    return with_head(c, model, qa_prefix="model")


def _lightning(c: MiniMaxConfig, embed: Axis) -> Module:
    """Linear attention with a decay a head: a state of `Dh·Dh` for each, and no keys or values."""
    heads, one = heads_axis("heads", c.n_heads, c.d_head), Axis("one", 1)
    per_head, tokens = Axis("heads", c.n_heads), Axis("block", c.d_block)
    return Module(
        "self_attn",
        (
            buffer("slope_rate", per_head, one, one),
            buffer("query_decay", per_head, tokens, one),
            buffer("key_decay", per_head, tokens, one),
            buffer("diagonal_decay", one, per_head, tokens, tokens),
            linear("qkv_proj", 3 * heads, embed),
            Op("scan", "linear_attention", {"width": heads.size, "d_state": c.d_head}),
            State("ssm", per_sequence=heads.size * c.d_head),
            rms_norm("norm", heads),
            linear("output_gate", heads, embed),
            gate_op("sigmoid", heads.size),
            linear("out_proj", embed, heads),
        ),
        component="attention",
    )


def _experts(c: MiniMaxConfig, embed: Axis) -> Module:
    experts, ffn = Axis("expert", c.n_experts), Axis("expert_ffn", c.d_ff)
    return Module(
        "block_sparse_moe" if c.layout == "checkpoint" else "mlp",
        (
            linear("gate", experts, embed, component="router"),
            routed_experts(
                "experts",
                experts,
                c.top_k,
                ffn,
                embed,
                layout=c.layout,
                names=("w1", "w3", "w2"),
                act=c.act,
            ),
        ),
    )


ARCHITECTURES = {"minimax": Architecture(MiniMaxConfig, minimax)}


def _minimax(hf: HFConfig) -> Reading:
    kinds = hf["layer_types"] or [
        "linear_attention" if i % 2 else "full_attention" for i in range(hf["num_hidden_layers"])
    ]
    d_head = hf.in_file("head_dim") or hf["hidden_size"] // hf["num_attention_heads"]
    given = hf.fill(
        MiniMaxConfig,
        layers=layer_pattern(hf, kinds, "linear", "full"),
        d_block=hf["block_size"],
        d_rotary=rotary_width(hf, d_head),
        act=hf["hidden_act"],
    )
    return Reading("minimax", given)


HF_READERS = {"minimax": _minimax}
