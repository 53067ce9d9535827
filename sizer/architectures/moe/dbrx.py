"""DBRX: fused attention, and experts laid end to end in three matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import norm, rotary_buffers
from sizer.architectures.decoders.ways import windowed_core
from sizer.architectures.heads import with_head
from sizer.architectures.moe.moe_decoder import MoEConfig
from sizer.architectures.moe.reading import moe_reading
from sizer.architectures.registry import Architecture, Reading
from sizer.core.dims import Dim
from sizer.core.layers import embedding, gate_op, linear
from sizer.core.tree import Axis, Module, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def dbrx(c: MoEConfig) -> Module:
    """DBRX (Databricks 2024), with the tensor names of `DbrxForCausalLM`.

    Source: transformers `modeling_dbrx.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    attn = Module(
        "attn",
        (
            linear("Wqkv", heads + 2 * kv_heads, embed),
            *windowed_core(c),
            linear("out_proj", embed, heads),
        ),
        component="attention",
    )
    block = Module(
        "blocks",
        (
            Module("norm_attn_norm", (norm(c, "norm_1", embed), attn, norm(c, "norm_2", embed))),
            Module("ffn", (_router(c, embed), _experts(c, embed))),
        ),
        repeat=c.n_layers,
    )
    rotary = rotary_buffers(c.d_rotary, layout=c.layout)
    model = (*rotary, embedding("wte", vocab, embed), block, norm(c, "norm_f", embed))
    return with_head(c, model, prefix="transformer", embedding="wte")


def _router(c: MoEConfig, embed: Axis) -> Module:
    return linear("router.layer", Axis("expert", c.n_experts), embed, component="router")


def _experts(c: MoEConfig, embed: Axis) -> Module:
    """Gate, value and output of every expert, the experts' rows one after the other."""
    rows = heads_axis("expert", c.n_experts, c.d_ff_expert)
    visited: Dim = c.top_k * c.d_ff_expert
    gate, up, down = (
        Param(name, (rows, embed), "matmul", active=visited * c.d_model) for name in ("w1", "v1", "w2")
    )
    return Module("experts.mlp", (gate, up, gate_op(c.act, visited), down), component="experts")


ARCHITECTURES = {"dbrx": Architecture(MoEConfig, dbrx)}


def _dbrx(hf: HFConfig) -> Reading:
    attn, ffn = hf.nested("attn_config"), hf.nested("ffn_config")
    return moe_reading(
        hf,
        "dbrx",
        norm="layer_no_bias",
        n_kv_heads=attn["kv_n_heads"],
        d_ff=None,
        d_ff_expert=ffn["ffn_hidden_size"],
        n_experts=ffn["moe_num_experts"],
        top_k=ffn["moe_top_k"],
    )


HF_READERS = {"dbrx": _dbrx}
