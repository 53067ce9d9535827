"""The layers of a BART: what its kin share with it, whatever stands around them.

A configuration `c` here has the fields of `BartConfig` that the function reads.
"""

from __future__ import annotations

from typing import Any

from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Param, heads_axis


def encoder_layer(c: Any, embed: Axis) -> Module:
    """One block of the encoder."""
    second = (
        (layer_norm("global_self_attn_layer_norm", embed),) if c.encoder_attention == "global_local" else ()
    )
    return Module(
        "layers",
        (
            _encoder_attention(c, embed),
            layer_norm("self_attn_layer_norm", embed),
            *second,
            mlp("", Axis("ffn", c.d_ff), embed, bias=c.mlp_bias, act=c.act, names=("fc1", "fc2")),
            layer_norm("final_layer_norm", embed),
        ),
        repeat=c.n_layers,
    )


def decoder_layer(c: Any, embed: Axis) -> Module:
    """One block of the decoder: itself, then the encoder's states, then the MLP."""
    sizes = {"n": c.n_decoder_heads, "d_head": c.d_decoder_head, "bias": c.attention_bias}
    cross = (
        attention("encoder_attn", embed, source=Axis("source", c.d_source), key_bias=c.key_bias, **sizes),
        layer_norm("encoder_attn_layer_norm", embed),
    )
    return Module(
        "layers",
        (
            attention("self_attn", embed, key_bias=c.key_bias, **sizes),
            layer_norm("self_attn_layer_norm", embed),
            *(cross if c.cross_attention else ()),
            mlp("", Axis("ffn", c.d_ff_decoder), embed, bias=c.mlp_bias, act=c.act, names=("fc1", "fc2")),
            layer_norm("final_layer_norm", embed),
        ),
        repeat=c.n_decoder_layers,
    )


def attention(
    name: str,
    embed: Axis,
    *,
    n: Dim,
    d_head: Dim,
    bias: bool = True,
    key_bias: bool = True,
    source: Axis | None = None,
    cached: bool = True,
    window: Dim | None = None,
    names: tuple[str, str, str, str] = ("k_proj", "v_proj", "q_proj", "out_proj"),
) -> Module:
    """Attention of `n` heads; over the states of width `source` where that is given."""
    heads, stream = heads_axis("heads", n, d_head), "encoder" if source else ""
    key, value, query, out = names
    read = source or embed
    return Module(
        name,
        (
            linear(key, heads, read, bias=bias and key_bias)._replace(stream=stream),
            linear(value, heads, read, bias=bias)._replace(stream=stream),
            linear(query, heads, embed, bias=bias),
            *attention_core(n, n, d_head, cached=cached, cross=source is not None, window=window),
            linear(out, embed, heads, bias=bias),
        ),
        component="attention",
    )


def position_table(c: Any, rows: Dim, embed: Axis) -> tuple[Module, ...]:
    """Positions, as the reference stores them."""
    context = Axis("context", rows + c.position_offset)
    if c.positions == "learned":
        return (embedding("embed_positions", context, embed, component="position"),)
    if c.positions == "frozen":
        table = Param("weight", (context, embed), "lookup", trainable=False)
        return (Module("embed_positions", (table,), kind="embedding", component="position"),)
    if c.positions == "buffer" and c.layout == "transformers":
        sinusoids = buffer("weights", context, embed, persistent=False, component="position")
        return (Module("embed_positions", (sinusoids,)),)
    return ()


def final_norm(c: Any, embed: Axis) -> tuple[Module, ...]:
    """The norm after the last layer, where there is one."""
    return (layer_norm("layer_norm", embed),) if c.final_norm else ()


def classification_head(c: Any, embed: Axis, *, name: str = "classification_head") -> Module:
    """A dense layer and a projection to the labels, over the last token."""
    labels = Axis("labels", c.n_labels)
    layers = (linear("dense", embed, embed, bias=True), linear("out_proj", labels, embed, bias=True))
    return Module(name, layers, component="head")


def _encoder_attention(c: Any, embed: Axis) -> Module:
    window = None if c.windows is not None else c.window
    sizes: dict[str, Any] = {"n": c.n_heads, "d_head": c.d_head, "bias": c.attention_bias, "cached": False}
    if c.encoder_attention == "block_sparse":
        names = ("self.key", "self.value", "self.query", "output")
        return attention("self_attn", embed, names=names, window=window, **sizes)
    if c.encoder_attention == "longformer":
        return _longformer_attention(c, embed)
    return attention("self_attn", embed, key_bias=c.key_bias, window=window, **sizes)


def _longformer_attention(c: Any, embed: Axis) -> Module:
    """Attention in a window, with projections of their own for the global tokens."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    names = ("query", "key", "value", "query_global", "key_global", "value_global")
    windows = c.windows.groups() if c.windows is not None else ((c.window, None),)
    cores = (
        Module("", attention_core(c.n_heads, c.n_heads, c.d_head, cached=False, window=window), at=layers)
        for window, layers in windows
    )
    projections = (*(linear(name, heads, embed, bias=True) for name in names), *cores)
    return Module(
        "self_attn",
        (Module("longformer_self_attn", projections), linear("output", embed, heads, bias=True)),
        component="attention",
    )
