"""Inkling 2: attention over the outputs of earlier blocks in place of residual sums; may loop."""

from __future__ import annotations

from sizer.architectures.moe.deepseek import router
from sizer.architectures.moe.inkling import convolution
from sizer.architectures.moe.inkling2_config import Inkling2Config
from sizer.architectures.registry import Architecture
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, linear, renamed, rms_norm, routed_experts
from sizer.core.tree import Axis, Layers, Module, Op, Param, State, heads_axis


def inkling2(c: Inkling2Config) -> Module:
    """Inkling 2, with the tensor names of `Inkling2ForCausalLM` and `Inkling2LoopForCausalLM`.

    Source: transformers `modeling_inkling2.py`, `modeling_inkling2_loop.py`.
    """
    embed, stored = Axis("embed", c.d_model), c.layout == "checkpoint"
    queries = _depth_queries(c, embed)
    full, sliding = _layer(c, embed, "full"), _layer(c, embed, "sliding")
    gates = tuple(_message_gate(c, embed, name) for name in ("q", "k", "v", "mlp"))
    block = Module("layers", (*full, *sliding, *(() if stored else queries)), repeat=c.n_layers)
    looped = _at(c, "full_loop", "sliding_loop")
    if c.gate_rank is not None:
        gated = Module("", gates, at=looped, uses=c.n_passes)
        block = block._replace(children=(*block.children, gated))
    table = embedding("embed_tokens", Axis("vocab", c.vocab_size), embed)
    last = Module("final_input", (Param("query", (embed,)),))
    model: tuple[Module, ...] = (
        table._replace(children=(*table.children, rms_norm("embed_norm", embed))),
        block,
        rms_norm("norm", embed),
        last,
        *_message_queries(c, embed),
    )
    if stored:
        output = Module("attn_res", (Param("output_query", (embed,)), *queries))
        words, blocks = (renamed(part, _NAMES) for part in model[:2])
        model = (*_stored_embedding(words), blocks, model[2], output, *model[4:])
    if c.task == "base":
        return Module("", model)
    padded = Axis("vocab", c.n_vocab, padded=c.vocab_size if stored else None)
    head = linear("model.llm.unembed" if stored else "lm_head", padded, embed, component="head")
    return Module("", (Module("model.llm" if stored else "model", model), head))


def _at(c: Inkling2Config, *kinds: str) -> Layers:
    return c.layers.layers(*kinds)


def _layer(c: Inkling2Config, embed: Axis, kind: str) -> tuple[Module, ...]:
    """The layers of a kind: those that run once, and those that run in every pass."""
    parts = (
        *_input_norms(embed, kind),
        _attention(c, embed, kind),
        convolution("post_attention_convolution.conv1d", embed, c.d_conv),
        rms_norm("post_attention_layernorm", embed),
        _experts(c, embed),
        convolution("post_mlp_convolution.conv1d", embed, c.d_conv),
    )
    return (
        Module("", parts, at=_at(c, kind, f"{kind}_first")),
        Module("", parts, at=_at(c, f"{kind}_loop"), uses=c.n_passes),
    )


def _input_norms(embed: Axis, kind: str) -> tuple[Module, ...]:
    """Full attention has an input, and so a norm, for each of queries, keys and values."""
    if kind == "sliding":
        return (rms_norm("input_layernorm", embed),)
    return tuple(rms_norm(f"{x}_input_layernorm", embed) for x in "qkv")


def _attention(c: Inkling2Config, embed: Axis, kind: str) -> Module:
    full = kind == "full"
    n_heads, n_kv_heads = (c.n_heads, c.n_kv_heads) if full else (c.sliding_heads, c.sliding_kv_heads)
    d_head = c.d_head if full else c.sliding_d_head
    window, extent = (None, c.relative_extent) if full else (c.window, c.window)
    heads, kv_heads = heads_axis("heads", n_heads, d_head), heads_axis("kv_heads", n_kv_heads, d_head)
    per_head, relative = Axis("heads", n_heads), Axis("relative", c.d_relative)
    convolution = _dynamic_convolution(c, kv_heads, n_kv_heads, embed) if full else _convolution(c, kv_heads)

    def scale(width: Axis) -> Module:
        return Module("norm", (Param("scale", (per_head, width)),), component="norm")

    queries = (linear("linear", heads, embed), scale(Axis("head", d_head)))
    positions = (
        linear("linear", heads_axis("heads", n_heads, c.d_relative), embed),
        scale(relative),
        Param("proj", (relative, Axis("distance", extent)), "matmul", component="position"),
    )
    whole = Module(
        "self_attn",
        (
            Module("q_proj", queries),
            Module("k_proj", (linear("linear", kv_heads, embed), convolution)),
            Module("v_proj", (linear("linear", kv_heads, embed), convolution)),
            Module("relative_position_bias", positions),
            linear("sink_proj", per_head, embed),
            *attention_core(n_heads, n_kv_heads, d_head, window=window),
            Module("o_proj", (linear("gate_proj", heads, embed), linear("linear", embed, heads))),
        ),
        component="attention",
    )
    return _stored_attention(whole) if c.layout == "checkpoint" else whole


def _convolution(c: Inkling2Config, channels: Axis) -> Module:
    return convolution("sconv.conv1d", channels, c.d_conv)


def _dynamic_convolution(c: Inkling2Config, channels: Axis, n_heads: Dim, embed: Axis) -> Module:
    """A convolution whose kernel has a fixed part and one that each token computes for each head."""
    kernel, weights = Axis("kernel", c.d_conv), heads_axis("kv_heads", n_heads, c.d_conv)
    stored = c.layout == "checkpoint"
    return Module(
        "sconv",
        (
            Param("static_w" if stored else "static_weight", (kernel, channels)),
            Param("weight_proj" if stored else "weight_proj.weight", (weights, embed), "matmul"),
            Op("conv", "conv", {"channels": channels.size, "kernel": c.d_conv}),
            State("conv", per_sequence=channels.size * c.d_conv, dtype="fp32"),
        ),
        component="mixer",
    )


def _experts(c: Inkling2Config, embed: Axis) -> Module:
    experts, ffn = Axis("expert", c.n_experts), Axis("expert_ffn", c.d_ff_expert)
    routed = routed_experts("experts", experts, c.top_k, ffn, embed, layout="transformers", act=c.act)
    return Module("mlp", (router("gate", experts, embed), routed))


def _depth_queries(c: Inkling2Config, embed: Axis) -> tuple[Module, ...]:
    """What reads the outputs of earlier blocks: a query for each input of a layer.

    A file has them apart, and counts those of attention from the second layer.
    """
    wide = (Axis("inputs", 3), embed)
    full, sliding = _at(c, "full", "full_loop"), _at(c, "sliding", "sliding_loop")
    if c.layout == "checkpoint":
        lists = (
            ("mlp_queries", (embed,), Layers(c.n_layers)),
            ("attn_queries", wide, _one_before(full)),
            ("attn_queries", (embed,), _one_before(sliding)),
        )
        return tuple(Module(name, (Param("", axes),), repeat=layers) for name, axes, layers in lists)
    return (
        Module("mlp_input", (Param("query", (embed,)),)),
        Module("attention_input", (Param("query", wide),), at=full),
        Module("attention_input", (Param("query", (embed,)),), at=sliding),
    )


def _one_before(layers: Layers) -> Layers:
    return Layers(layers.count, None if layers.indices is None else [i - 1 for i in layers.indices])


def _message_gate(c: Inkling2Config, embed: Axis, name: str) -> Module:
    """How much of a message from the pass before a looped layer takes, and forgets."""
    rank = Axis("rank", c.gate_rank)
    if c.layout == "checkpoint":
        names = ("down_weight", "gain_weight", "forget_weight")
        down, gain, forget = (
            Param(part, axes, "matmul")
            for part, axes in zip(names, ((rank, 2 * embed), (embed, rank), (embed, rank)), strict=True)
        )
        return Module(f"controllers.{'attn' if name == 'q' else name}", (down, gain, forget))
    return Module(
        f"{name}_message_gate",
        (
            linear("down_proj", rank, 2 * embed),
            linear("message_gate_proj", embed, rank),
            linear("forget_gate_proj", embed, rank),
        ),
    )


def _message_queries(c: Inkling2Config, embed: Axis) -> tuple[Module, ...]:
    """Four queries a looped layer: for queries, keys, values and MLP; two tensors in a file."""
    if c.n_loop_layers is None:
        return ()
    if c.layout == "checkpoint":
        pairs = Axis("queries", 2 * c.n_loop_layers)
        names = ("middle_cycle_cross_pass_queries", "middle_cycle_cross_pass_kv_queries")
        return (Module("", tuple(Param(name, (pairs, embed)) for name in names)),)
    axes = (Axis("layers", c.n_loop_layers), Axis("queries", 4), embed)
    return (Module("message_input", (Param("query", axes),)),)


# Names of a block in the published files.
_NAMES = {
    "self_attn": "attn",
    "input_layernorm": "attn_norm",
    "q_input_layernorm": "q_input_norm",
    "k_input_layernorm": "k_input_norm",
    "v_input_layernorm": "v_input_norm",
    "post_attention_layernorm": "mlp_norm",
    "post_attention_convolution.conv1d": "attn_sconv",
    "post_mlp_convolution.conv1d": "mlp_sconv",
    "gate_up_proj": "w13_weight",
    "down_proj": "w2_weight",
    "e_score_correction_bias": "bias",
    "embed_tokens": "embed",
}


# Names of what stands in a projection, by the projection; "" is the attention itself.
_PROJECTIONS = {
    "q_proj": {"linear": "wq_du", "norm": "q_l2_clip"},
    "k_proj": {"linear": "wk_dv", "sconv": "k_sconv", "sconv.conv1d": "k_sconv"},
    "v_proj": {"linear": "wv_dv", "sconv": "v_sconv", "sconv.conv1d": "v_sconv"},
    "o_proj": {"linear": "wo_ud", "gate_proj": "gate_attn"},
    "relative_position_bias": {"linear": "wr_du", "norm": "rel_l2_clip", "proj": "rel_logits_proj.proj"},
    "sink_proj": {"sink_proj": "attn_sink_proj"},
}


def _stored_attention(attention: Module) -> Module:
    """In a file the parts of a projection stand in the attention itself."""
    children = []
    for part in attention.children:
        names = _PROJECTIONS.get(part.name, {})
        if isinstance(part, Module):
            part = renamed(part, names)
            if part.name in _PROJECTIONS:
                part = part._replace(name="")
        children.append(part)
    return attention._replace(children=tuple(children))


def _stored_embedding(table: Module) -> tuple[Module, Module]:
    """In a file the norm of the embeddings stands beside them."""
    *weight, normed = table.children
    assert isinstance(normed, Module)
    return table._replace(children=tuple(weight)), normed


ARCHITECTURES = {"inkling2": Architecture(Inkling2Config, inkling2)}
