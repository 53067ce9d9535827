"""The decoders of the GPT-3 years: LayerNorm, a two-matrix MLP, one builder under many names.

GPT-NeoX, BLOOM, Falcon, MPT, GPT-J, CodeGen, GPT-Neo, CTRL, OPT, XGLM and BioGPT differ in what they
call their parts, in how they know positions, and in a few switches.
"""

from __future__ import annotations

from typing import NamedTuple

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.heads import with_named_head
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, round_up
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, mlp
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Layers, Leaf, Module, Param, heads_axis


@configuration
class ClassicConfig(Config):
    """Sizes and switches of a decoder of these years.

    `norms`: names of the norms before attention and before the MLP, where they are not the usual
    ones; "" for none. `norm`: "layer", "layer_no_bias", or "none" (a norm without a weight).
    `d_embed`: width of the embedding, where it is projected to and from `d_model`.
    `window_layers`: "full" or "window" for each layer. `parallel`: the MLP reads what attention reads.
    `repeats_kv`: transformers repeats keys and values for all heads, and then keeps them.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    vocab_size: Dim
    d_ff: Dim | None = None
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    d_rotary: Dim | None = None
    d_embed: Dim | None = None
    n_ctx: Dim = 2048
    window: Dim | None = None
    window_layers: Pattern | None = None
    tie_embeddings: bool = True
    qkv_bias: bool = True
    o_bias: bool = True
    mlp_bias: bool = True
    act: str = "gelu"
    norm: str = "layer"
    norms: tuple[str, ...] | None = None
    final_norm: bool = True
    cross_attention: bool = False
    parallel: bool = False
    repeats_kv: bool = False

    letters = {"d_rotary": "Dr", "d_embed": "De", "window_layers": "L"}
    meanings = {
        "d_rotary": "width of the rotary part of a head",
        "d_embed": "width of the embedding, before its projection",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model, n_kv_heads=self.n_heads)
        self.derive_quotient("d_head", "d_model", "n_heads")
        if self.d_rotary is None:
            # Frequencies turn pairs: an odd width is rounded up.
            self.derive(d_rotary=round_up(self.d_head, 2) if isinstance(self.d_head, int) else self.d_head)


class Style(NamedTuple):
    """What a family calls its parts, and what all its models have.

    `qkv`: one name for a fused projection, three for separate ones. `inner`: a level between the
    model's prefix and its parts. `positions`: "learned" or "sinusoids" (with `position_offset` rows
    more than the context), "table" (the angles of rotary positions), "rotary" (their frequencies),
    or "" (ALiBi). `masks`: each layer holds its causal mask in memory.
    """

    prefix: str
    embedding: str
    block: str
    norms: tuple[str, str]
    attention: str
    qkv: tuple[str, ...]
    out: str
    mlp: str
    ffn: tuple[str, str]
    final_norm: str
    positions: str = ""
    position_name: str = ""
    position_offset: int = 0
    inner: str = ""
    embedding_norm: str = ""
    head: str = "lm_head"
    published_head: str = ""
    head_bias: bool = False
    classifier: str = "score"
    masks: bool = False
    last_out_bias: str = ""


def classic(c: ClassicConfig, style: Style) -> Module:
    """A decoder of the given style, with the tensor names of its class in transformers."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    before_attn, before_mlp = (_norm(c, name, embed) for name in c.norms or style.norms)
    # Side by side, both read the stream as it was before either.
    early, late = (before_mlp, ()) if c.parallel else ((), before_mlp)
    block = Module(
        style.block,
        (
            *before_attn,
            *early,
            attention(c, style),
            *cross_attention(c, style),
            *late,
            mlp(style.mlp, Axis("ffn", c.d_ff), embed, bias=c.mlp_bias, act=c.act, names=style.ffn),
        ),
        repeat=c.n_layers,
    )
    width = embed if c.d_embed is None else Axis("embed", c.d_embed)
    model: tuple[Module | Leaf, ...] = (
        embedding(style.embedding, vocab, width),
        *(() if c.d_embed is None else (linear("project_in", embed, width, component="embedding"),)),
        *positions(c, style),
        *_norm(c, style.embedding_norm, embed),
        block,
        *(_norm(c, style.final_norm, embed) if c.final_norm else ()),
        *(() if c.d_embed is None else (linear("project_out", width, embed, component="other"),)),
    )
    published = c.layout == "checkpoint" and style.published_head
    return with_named_head(
        c,
        (Module(style.inner, model),),
        prefix=style.prefix,
        embedding=f"{style.inner}.{style.embedding}" if style.inner else style.embedding,
        head=published or style.head,
        bias=style.head_bias,
        classifier=style.classifier,
        width=width,
    )


def attention(c: ClassicConfig, style: Style) -> Module:
    """Causal self-attention, its projections fused or apart."""
    embed, context, one = Axis("embed", c.d_model), Axis("context", c.n_ctx), Axis("one", 1)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    outs = (heads, kv_heads, kv_heads) if len(style.qkv) == 3 else (heads + 2 * kv_heads,)
    masks = style.masks and c.layout == "transformers"
    last = Layers(1, (c.n_layers - 1,) if isinstance(c.n_layers, int) else None)
    return Module(
        style.attention,
        (
            *((buffer("bias", one, one, context, context, persistent=False),) if masks else ()),
            *(linear(name, out, embed, bias=c.qkv_bias) for name, out in zip(style.qkv, outs, strict=True)),
            *_core(c),
            linear(style.out, embed, heads, bias=c.o_bias),
            *((Module("", (Param(style.last_out_bias, (embed,)),), at=last),) if style.last_out_bias else ()),
        ),
        component="attention",
    )


def cross_attention(c: ClassicConfig, style: Style) -> tuple[Module, ...]:
    """Attention over an encoder's output, where the decoder has it."""
    if not c.cross_attention:
        return ()
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    query, key, value = style.qkv
    cross = Module(
        "encoder_attn",
        (
            linear(query, heads, embed, bias=c.qkv_bias),
            linear(key, heads, embed, bias=c.qkv_bias)._replace(stream="encoder"),
            linear(value, heads, embed, bias=c.qkv_bias)._replace(stream="encoder"),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cross=True),
            linear(style.out, embed, heads, bias=c.o_bias),
        ),
        component="attention",
    )
    return *_norm(c, "encoder_attn_layer_norm", embed), cross


def positions(c: ClassicConfig, style: Style) -> tuple[Module | Leaf, ...]:
    """What the model holds to know positions; all but a learned table stays out of checkpoints."""
    embed = Axis("embed", c.d_model)
    if style.positions == "learned":
        context = Axis("context", c.n_ctx + style.position_offset)
        return (embedding(style.position_name, context, embed, component="position"),)
    if c.layout == "checkpoint" or not style.positions:
        return ()
    if style.positions == "rotary":
        return rotary_buffers(c.d_rotary, layout=c.layout)
    context = Axis("context", c.n_ctx + style.position_offset)
    width = embed if style.positions == "sinusoids" else Axis("rotary", c.d_rotary)
    return (buffer(style.position_name, context, width, persistent=False),)


def _norm(c: ClassicConfig, name: str, width: Axis) -> tuple[Module, ...]:
    """The norm of that name, or nothing where there is none."""
    if not name:
        return ()
    if c.norm == "none":
        return (Module(name, (), kind="layer_norm", component="norm"),)
    return (layer_norm(name, width, bias=c.norm == "layer"),)


def _core(c: ClassicConfig) -> tuple[Module | Leaf, ...]:
    """Scores and mixing, over all tokens or the last W, by layer."""
    if c.window_layers is None:
        traits = ("repeats",) if c.repeats_kv else ()
        return attention_core(c.n_heads, c.n_kv_heads, c.d_head, traits=traits)
    full, windowed = c.window_layers.layers("full"), c.window_layers.layers("window")
    return (
        Module("", attention_core(c.n_heads, c.n_kv_heads, c.d_head), at=full),
        Module(
            "",
            attention_core(c.n_heads, c.n_kv_heads, c.d_head, window=c.window, traits=("whole_past",)),
            at=windowed,
        ),
    )
