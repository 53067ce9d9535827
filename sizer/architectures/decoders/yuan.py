"""Yuan 2: queries and keys see the two tokens before, by two small convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, feed_forward, norm
from sizer.architectures.decoders.decoder_names import LLAMA
from sizer.architectures.decoders.reading import activation
from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, embedding, gate_op, linear, rms_norm
from sizer.core.tree import EACH, Axis, Module, Param, State, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class YuanConfig(DecoderConfig):
    """Sizes and switches of a Yuan.

    `shared_qk`: one projection for queries and keys, each with a scale and a bias of its own, in
    place of the convolutions. `n_experts`: the MLP is one of experts, `d_ff` wide each.
    `routing_attention`: a small attention among the experts chooses from them, not one matrix.
    """

    d_half: Dim | None = None
    n_experts: Dim | None = None
    top_k: Dim | None = None
    shared_qk: bool = False
    routing_attention: bool = True

    letters = {**DecoderConfig.letters, "d_half": "Dl"}
    meanings = {**DecoderConfig.meanings, "d_half": "width between the two convolutions"}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.derive(d_half=divide(self.d_model, 2, names="d_model / 2"))


def yuan(c: YuanConfig) -> Module:
    """Yuan 2.0 and 2.0-M32 (arXiv:2311.15786, 2405.17976), with the names of `YuanForCausalLM`.

    Source: IEITYuan/Yuan2-2B-hf `yuan_hf_model.py`, Yuan2-M32-hf `modeling_yuanmoe_hf.py`.
    """
    embed = Axis("embed", c.d_model)
    mlp = feed_forward(c) if c.n_experts is None else _experts(c, embed, c.n_experts)
    block = Module(
        "layers",
        (
            norm(c, "input_layernorm", embed),
            _attention(c, embed),
            norm(c, "post_attention_layernorm", embed),
            mlp,
        ),
        repeat=c.n_layers,
    )
    model = (embedding("embed_tokens", Axis("vocab", c.vocab_size), embed), block, norm(c, "norm", embed))
    return with_head(c, model)


def _attention(c: YuanConfig, embed: Axis) -> Module:
    heads, two = heads_axis("heads", c.n_heads, c.d_head), Axis("two", 2)
    core = (*attention_core(c.n_heads, c.n_heads, c.d_head), linear("o_proj", embed, heads))
    value = linear("v_proj", heads, embed)
    if c.shared_qk:
        scales = tuple(Param(name, (two, embed)) for name in ("qk_weight", "qk_bias"))
        parts = (value, linear("qk_proj", heads, embed), *scales, *core)
    else:
        parts = (
            value,
            _filter(c, embed),
            linear("q_proj", heads, embed),
            linear("k_proj", heads, embed),
            *core,
        )
    return Module("self_attn", parts, component="attention")


def _filter(c: YuanConfig, embed: Axis) -> Module:
    """Two causal convolutions over a token and the one before, D to D/2 and back.

    Decoding keeps the inputs of the last two tokens.
    """
    half, kernel, one = Axis("half", c.d_half), Axis("kernel", 2), Axis("one", 1)
    convolutions = (
        Module(
            name,
            (Param("weight", (out, inp, kernel, one), "matmul"), Param("bias", (out,))),
            kind="conv",
            places=EACH,
        )
        for name, out, inp in (("conv1", half, embed), ("conv2", embed, half))
    )
    state = State("conv", per_sequence=2 * c.d_model)
    return Module("lf_gate", (*convolutions, rms_norm("output_layernorm", embed), state))


def _experts(c: YuanConfig, embed: Axis, count: Dim) -> Module:
    """Experts of two matrices, gate and value in one, and the attention that routes to them."""
    experts, ffn = Axis("expert", count), Axis("ffn", c.d_ff)
    router = linear("gate", experts, embed, component="router")
    if c.routing_attention:
        queries_keys_values = (linear(name, experts, embed) for name in ("query", "key", "value"))
        router = Module("gate", tuple(queries_keys_values), component="router")
    expert = Module(
        "experts",
        (linear("w1", 2 * ffn, embed), gate_op(c.act, c.d_ff), linear("w2", embed, ffn)),
        repeat=count,
        active=c.top_k,
        component="experts",
    )
    return Module("mlp", (router, expert))


ARCHITECTURES = {"yuan": Architecture(YuanConfig, yuan)}


def _yuan(hf: HFConfig) -> Reading:
    moe = hf.nested("moe_config")
    projected = hf.get("attention_projection_size") or hf["hidden_size"]
    experts = hf["use_moe"]
    return Reading(
        "yuan",
        hf.fill(
            YuanConfig,
            module_names=LLAMA._replace(rotary=()),
            n_kv_heads=None,
            d_head=divide(projected, hf["num_attention_heads"], names="attention_projection_size / n_heads"),
            d_ff=moe["ffn_hidden_size"] if experts else hf["intermediate_size"],
            n_experts=moe["moe_num_experts"] if experts else None,
            top_k=moe["moe_top_k"] if experts else None,
            shared_qk=bool(hf["use_shareqk"]),
            routing_attention=moe["router_type"] == "attn_router",
            act=activation(hf),
        ),
    )


HF_READERS = {"yuan": _yuan}
