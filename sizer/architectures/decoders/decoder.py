"""The pre-norm decoder with rotary positions: LLaMA, and those that differ from it by a switch.

One builder with flags. What a flag cannot say in a line has a family of its own.
The readers of the families that share it stand in files of their own beside this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from sizer.architectures.decoders.decoder_names import LLAMA, WINDOWED, Names
from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide, round_up
from sizer.core.layers import (
    attention_core,
    buffer,
    embedding,
    gate_op,
    gated_mlp,
    layer_norm,
    linear,
    mlp,
    residual,
    rms_norm,
)
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param, heads_axis


@configuration
class DecoderConfig(Config):
    """Sizes and switches of a LLaMA-like decoder.

    `norm`: "rms", "layer", "layer_no_bias", or "none" (a norm without a weight).
    `norms`: names of the norms before and after attention, before and after the MLP; "" for none.
    `qk_norm`: "head" (one weight of Dh for all heads), "full" (a weight for every head's width),
    "heads" (the same weight as a matrix, heads by Dh) or "list" (a norm of its own for each head).
    `gated`: three matrices in the MLP rather than two.
    `window_layers`: "full" or "window" for each layer; without it a `window` holds for all.
    `sinks`: a learned logit for each head, which takes attention from the tokens.
    `square_output`: the output projection is D×D, whatever the width of the heads.
    `embed_scale`: the factor on the embeddings is kept in memory as a buffer.
    `rotary_kinds`: what stands before the names of the frequencies, where kinds of layers differ.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    d_rotary: Dim | None = None
    d_rotary_window: Dim | None = None
    n_ctx: Dim | None = None
    window: Dim | None = None
    window_layers: Pattern | None = None
    tie_embeddings: bool = False
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    token_bias: bool = True
    gated: bool = True
    act: str = "silu"
    norm: str = "rms"
    norms: tuple[str, str, str, str] = ("input_layernorm", "", "post_attention_layernorm", "")
    qk_norm: str | None = None
    qk_norm_names: tuple[str, str] = ("q_norm", "k_norm")
    sinks: bool = False
    square_output: bool = False
    embed_scale: bool = False
    rotary_kinds: tuple[str, ...] = ("",)
    module_names: Names = LLAMA

    # What a layer may be.
    layer_kinds: ClassVar[tuple[str, ...]] = ("full", "window")
    letters = {"d_rotary": "Dr", "d_rotary_window": "Drw", "window_layers": "L"}
    meanings = {
        "d_rotary": "width of the rotary part of a head",
        "d_rotary_window": "the same in layers with a window",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_kv_heads=self.n_heads)
        self.derive_quotient("d_head", "d_model", "n_heads", fix="set d_head")
        # Frequencies turn pairs: an odd width is rounded up.
        self.derive(d_rotary=round_up(self.d_head, 2) if isinstance(self.d_head, int) else self.d_head)
        self.derive(d_rotary_window=self.d_rotary)
        divide(self.n_heads, self.n_kv_heads, names="n_heads / n_kv_heads")
        if self.window_layers is not None and isinstance(self.n_layers, int):
            self.window_layers.check("window_layers", self.n_layers, self.layer_kinds)


def decoder(c: DecoderConfig) -> Module:
    """LLaMA (Touvron et al. 2023), with the tensor names of `LlamaForCausalLM`.

    Source: transformers `modeling_llama.py`.
    """
    embed, names = Axis("embed", c.d_model), c.module_names
    before_attn, after_attn, before_mlp, after_mlp = (norms_named(c, name, embed) for name in c.norms)
    attn = attention(c, names.attention, names=names, sinks=c.sinks, square_output=c.square_output)
    block = Module(
        names.block,
        (
            residual(*before_attn, attn, *after_attn),
            residual(*before_mlp, feed_forward(c, names.feed_forward, names=names), *after_mlp),
        ),
        repeat=c.n_layers,
        flow="block",
    )
    model = (
        _token_embedding(c, embed),
        *_learned_positions(c, embed),
        block,
        *norms_named(c, names.final_norm, embed),
        *_rotary_tables(c),
    )
    return with_head(
        c,
        model,
        prefix=names.model,
        embedding=names.embedding,
        qa_prefix=names.qa,
        head=names.head,
        classifier=names.classifier,
        bias=c.head_bias,
        token_bias=c.token_bias,
    )


def _token_embedding(c: DecoderConfig, embed: Axis) -> Module:
    table = embedding(c.module_names.embedding, Axis("vocab", c.vocab_size), embed)
    if c.embed_scale and c.layout == "transformers":
        return table._replace(children=(*table.children, buffer("embed_scale", persistent=False)))
    return table


def _learned_positions(c: DecoderConfig, embed: Axis) -> tuple[Module, ...]:
    name = c.module_names.positions
    return (embedding(name, Axis("context", c.n_ctx), embed, component="position"),) if name else ()


def attention(
    c: DecoderConfig,
    name: str = "self_attn",
    *,
    names: Names = LLAMA,
    sinks: bool = False,
    square_output: bool = False,
) -> Module:
    """Queries for every head; keys and values for K of them."""
    embed = Axis("embed", c.d_model)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    widths = (heads, kv_heads, kv_heads) if len(names.qkv) > 1 else (heads + 2 * kv_heads,)
    return Module(
        name,
        (
            *(
                linear(qkv, width, embed, bias=c.qkv_bias)
                for qkv, width in zip(names.qkv, widths, strict=True)
            ),
            *qk_norms(c, heads, kv_heads),
            *((Param("sinks", (Axis("heads", c.n_heads),)),) if sinks else ()),
            *windowed_core(c),
            *_stored_rotary(c, names.layer_rotary),
            linear(names.output, embed, embed if square_output else heads, bias=c.o_bias),
        ),
        component="attention",
        flow="attention",
    )


def qk_norms(c: DecoderConfig, heads: Axis, kv_heads: Axis) -> tuple[Module, ...]:
    """The norms of queries and keys, where there are any."""
    if c.qk_norm is None:
        return ()
    q_name, k_name = c.qk_norm_names
    one_head = Axis("head", c.d_head)
    if c.qk_norm in ("heads", "list"):
        per_head = _matrix_norm if c.qk_norm == "heads" else _list_of_norms
        return per_head(q_name, c.n_heads, one_head), per_head(k_name, c.n_kv_heads, one_head)
    q, k = (one_head, one_head) if c.qk_norm == "head" else (heads, kv_heads)
    return norm(c, q_name, q), norm(c, k_name, k)


def _matrix_norm(name: str, count: Dim, head: Axis) -> Module:
    """A LayerNorm over each head whose weights are one matrix, as Cohere's."""
    weight = Param("weight", (Axis("heads", count), head))
    return Module(name, (weight,), kind="layer_norm", component="norm")


def _list_of_norms(name: str, count: Dim, head: Axis) -> Module:
    """A LayerNorm for each head, as StableLM's."""
    return Module(name, (layer_norm("norms", head, bias=False)._replace(repeat=count),), component="norm")


# Queries and keys are turned by their positions, and the softmax is written in fp32.
ROTARY = ("causal", "rotary", "fp32_softmax")


def windowed_core(c: DecoderConfig) -> tuple[Module, ...]:
    """Scores and mixing, over all tokens or the last W, by layer."""
    if c.window_layers is None:
        core = attention_core(c.n_heads, c.n_kv_heads, c.d_head, window=c.window, traits=ROTARY)
        return (Module("", core),)
    heads = c.n_heads, c.n_kv_heads, c.d_head
    full, windowed = c.window_layers.layers("full"), c.window_layers.layers("window")
    return (
        Module("", attention_core(*heads, traits=ROTARY), at=full),
        Module("", attention_core(*heads, window=c.window, traits=ROTARY), at=windowed),
    )


def feed_forward(c: DecoderConfig, name: str = "mlp", *, names: Names = LLAMA) -> Module:
    """The dense MLP of a block."""
    ffn, embed = Axis("ffn", c.d_ff), Axis("embed", c.d_model)
    if not c.gated:
        up, down = names.mlp[-2:]
        return mlp(name, ffn, embed, bias=c.mlp_bias, act=c.act, names=(up, down))
    if len(names.mlp) == 2:
        return fused_gated_mlp(name, ffn, embed, bias=c.mlp_bias, act=c.act, names=names.mlp)
    gate, up, down = names.mlp
    return gated_mlp(name, ffn, embed, bias=c.mlp_bias, act=c.act, names=(gate, up, down))


def fused_gated_mlp(
    name: str, ffn: Axis, embed: Axis, *, bias: bool, act: str, names: tuple[str, ...]
) -> Module:
    """A gated MLP whose gate and up projections are one matrix of 2F rows."""
    gate_up, down = names
    return Module(
        name,
        (
            linear(gate_up, 2 * ffn, embed, bias=bias),
            gate_op(act, ffn.size),
            linear(down, embed, ffn, bias=bias),
        ),
        component="mlp",
        flow="gated",
    )


def norm(c: DecoderConfig, name: str, width: Axis) -> Module:
    """A norm of the configuration's kind."""
    if c.norm == "rms":
        return rms_norm(name, width)
    if c.norm == "none":
        return Module(name, (), kind="layer_norm", component="norm")
    return layer_norm(name, width, bias=c.norm == "layer")


def norms_named(c: DecoderConfig, name: str, width: Axis) -> tuple[Module, ...]:
    """The norm of that name, or nothing where the block has none there."""
    return (norm(c, name, width),) if name else ()


def rotary_buffers(
    d_rotary: Dim, *, layout: str, name: str = "rotary_emb", kind: str = ""
) -> tuple[Module, ...]:
    """The inverse frequencies that transformers keeps beside a model, and saves in no file.

    `kind`: what stands before their names, where kinds of layers have frequencies of their own.
    """
    if layout == "checkpoint":
        return ()
    half = Axis("rotary", divide(d_rotary, 2, names="d_rotary / 2"))
    names = (f"{kind}inv_freq", f"{kind}original_inv_freq")
    return (Module(name, tuple(buffer(n, half, persistent=False) for n in names)),)


def _stored_rotary(c: DecoderConfig, name: str) -> tuple[Module, ...]:
    if not name:
        return ()
    half = Axis("rotary", divide(c.d_rotary, 2, names="d_rotary / 2"))
    return (Module(name, (buffer("inv_freq", half),)),)


def _rotary_tables(c: DecoderConfig) -> Iterator[Module]:
    for name in c.module_names.rotary:
        for kind in c.rotary_kinds:
            width = c.d_rotary_window if kind == WINDOWED else c.d_rotary
            yield from rotary_buffers(width, layout=c.layout, name=name, kind=kind)


ARCHITECTURES = {"llama": Architecture(DecoderConfig, decoder)}
