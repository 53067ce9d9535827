"""T5Gemma: Gemma's blocks in an encoder and a decoder; the second version also sees images."""

from __future__ import annotations

from typing import NamedTuple

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, buffer, embedding, gated_mlp, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Leaf, Module, Param, heads_axis

WINDOWED = {"sliding_attention": "window", "full_attention": "full"}


@configuration
class T5GemmaConfig(Config):
    """Sizes and switches of a T5Gemma; fields without `decoder` are the encoder's.

    `merged`: the second version, whose decoder attends to itself and to the encoder at once, with
    norms of queries and keys. `vision`: its tower. `encoder_only`: the model is the encoder.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    n_kv_heads: Dim
    d_head: Dim
    d_ff: Dim
    vocab_size: Dim
    kinds: Pattern
    d_decoder: Dim
    n_decoder_layers: Dim
    n_decoder_heads: Dim
    n_decoder_kv_heads: Dim
    d_decoder_head: Dim
    d_ff_decoder: Dim
    decoder_vocab_size: Dim
    decoder_kinds: Pattern
    window: Dim | None = None
    decoder_window: Dim | None = None
    attention_bias: bool = False
    decoder_attention_bias: bool = False
    tie_embeddings: bool = True
    act: str = "gelu_pytorch_tanh"
    merged: bool = False
    encoder_only: bool = False
    vision: Part | None = None
    task: str = "seq2seq"

    letters = {
        "kinds": "L",
        "d_decoder": "Dm",
        "n_decoder_layers": "M",
        "n_decoder_heads": "Hd",
        "n_decoder_kv_heads": "Kd",
        "d_decoder_head": "Dd",
        "d_ff_decoder": "Fd",
        "decoder_vocab_size": "Vd",
        "decoder_kinds": "M",
        "decoder_window": "Wd",
        "vision": "vis",
    }
    meanings = {
        "n_layers": "encoder blocks",
        "d_decoder": "width of the decoder's residual stream",
        "n_decoder_layers": "decoder blocks",
        "n_decoder_heads": "query heads of the decoder",
        "n_decoder_kv_heads": "key/value heads of the decoder",
        "d_decoder_head": "width of one head of the decoder",
        "d_ff_decoder": "hidden width of the decoder's MLP",
        "decoder_vocab_size": "rows of the decoder's embedding",
        "decoder_window": "sliding window of the decoder",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


class Stack(NamedTuple):
    """One side: the fields of the configuration that are its own."""

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    n_kv_heads: Dim
    d_head: Dim
    d_ff: Dim
    vocab_size: Dim
    kinds: Pattern
    window: Dim | None
    bias: bool
    source: Axis | None = None


def t5gemma(c: T5GemmaConfig) -> Module:
    """T5Gemma (arXiv:2504.06225) and T5Gemma 2, with the tensor names of their own classes.

    Source: transformers `modeling_t5gemma.py`, `modeling_t5gemma2.py`.
    """
    prefix = "model" if c.task in ("seq2seq", "sequence", "token") else ""
    inside = f"{prefix}." if prefix else ""
    # The text encoder of the second version is a module of its own in memory alone.
    text = "text_model." if c.merged and c.layout == "transformers" else ""
    source = f"{inside}encoder.{text}embed_tokens" if c.merged and c.tie_embeddings else None
    encoder, decoder = _sides(c)
    towers = _vision(c, f"{inside}encoder") if c.vision is not None else ()
    body = Module(text.removesuffix("."), _stack(c, encoder))
    parts = [Module("encoder", (body, *towers), stream="encoder")]
    if not c.encoder_only:
        parts.append(Module("decoder", _stack(c, decoder, tied_to=source)))
    if not prefix:
        return Module("", tuple(parts))
    width = Axis("embed", c.d_model if c.encoder_only else c.d_decoder)
    if c.task != "seq2seq":
        head = linear("score.out_proj", Axis("labels", c.n_labels), width, bias=True, component="head")
    else:
        tokens = (source or f"{inside}decoder.embed_tokens") + ".weight" if c.tie_embeddings else None
        vocab = Axis("vocab", c.decoder_vocab_size)
        head = linear("lm_head.out_proj", vocab, width, tied_to=tokens, component="head")
    return Module("", (Module(prefix, tuple(parts)), head))


def _sides(c: T5GemmaConfig) -> tuple[Stack, Stack]:
    encoder = (c.d_model, c.n_layers, c.n_heads, c.n_kv_heads, c.d_head, c.d_ff, c.vocab_size, c.kinds)
    decoder = (c.d_decoder, c.n_decoder_layers, c.n_decoder_heads, c.n_decoder_kv_heads, c.d_decoder_head)
    rest = (c.d_ff_decoder, c.decoder_vocab_size, c.decoder_kinds, c.decoder_window)
    source = Axis("source", c.d_model)
    return (
        Stack(*encoder, c.window, c.attention_bias),
        Stack(*decoder, *rest, c.decoder_attention_bias, source),
    )


def _stack(c: T5GemmaConfig, side: Stack, tied_to: str | None = None) -> tuple[Module, ...]:
    """The embeddings and blocks of one side."""
    embed = Axis("embed", side.d_model)
    cross = (
        (
            rms_norm("pre_cross_attn_layernorm", embed),
            _attention(side, "cross_attn", embed, side.source, _cores(side, cross=True)),
            rms_norm("post_cross_attn_layernorm", embed),
        )
        if side.source is not None and not c.merged
        else ()
    )
    block = Module(
        "layers",
        (
            rms_norm("pre_self_attn_layernorm", embed),
            _self_attention(c, side, embed),
            rms_norm("post_self_attn_layernorm", embed),
            *cross,
            rms_norm("pre_feedforward_layernorm", embed),
            gated_mlp("mlp", Axis("ffn", side.d_ff), embed, act=c.act),
            rms_norm("post_feedforward_layernorm", embed),
        ),
        repeat=side.n_layers,
    )
    return (_tokens(c, side, embed, tied_to), block, rms_norm("norm", embed), *_rotary(c, side))


def _tokens(c: T5GemmaConfig, side: Stack, embed: Axis, tied_to: str | None) -> Module:
    """The embedding; the second version adds the vector that ends an image."""
    vocab = Axis("vocab", side.vocab_size)
    if not c.merged:
        return embedding("embed_tokens", vocab, embed)
    leaves: tuple[Leaf, ...] = (
        Param("weight", (vocab, embed), "lookup", tied_to and f"{tied_to}.weight"),
        Param("eoi_embedding", (embed,), "", tied_to and f"{tied_to}.eoi_embedding"),
    )
    if c.layout == "transformers":
        leaves = (*leaves, buffer("embed_scale", persistent=False))
    return Module("embed_tokens", leaves, kind="embedding", component="embedding")


def _self_attention(c: T5GemmaConfig, side: Stack, embed: Axis) -> Module:
    cores = _cores(side)
    if not c.merged:
        return _attention(side, "self_attn", embed, embed, cores)
    head = Axis("head", side.d_head)
    norms = (rms_norm("q_norm", head), rms_norm("k_norm", head))
    both = _cores(side, cross=True) if side.source is not None else ()
    return _attention(side, "self_attn", embed, embed, (*norms, *cores, *both))


def _attention(side: Stack, name: str, embed: Axis, source: Axis, inner: tuple[Module, ...]) -> Module:
    heads = heads_axis("heads", side.n_heads, side.d_head)
    kv_heads = heads_axis("kv_heads", side.n_kv_heads, side.d_head)
    stream = "encoder" if name == "cross_attn" else ""
    return Module(
        name,
        (
            linear("q_proj", heads, embed, bias=side.bias),
            linear("k_proj", kv_heads, source, bias=side.bias)._replace(stream=stream),
            linear("v_proj", kv_heads, source, bias=side.bias)._replace(stream=stream),
            *inner,
            linear("o_proj", embed, heads, bias=side.bias),
        ),
        component="attention",
    )


def _cores(side: Stack, *, cross: bool = False) -> tuple[Module, ...]:
    """Scores and mixing: over all tokens, or the last W in some blocks."""
    sizes = (side.n_heads, side.n_kv_heads, side.d_head)
    cached = side.source is not None
    if cross:
        return (Module("", attention_core(*sizes, cross=True)),)
    full, windowed = side.kinds.layers("full"), side.kinds.layers("window")
    return (
        Module("", attention_core(*sizes, cached=cached), at=full),
        Module("", attention_core(*sizes, cached=cached, window=side.window), at=windowed),
    )


def _rotary(c: T5GemmaConfig, side: Stack) -> tuple[Module, ...]:
    """Inverse frequencies: one set, or one for each kind of layer that occurs."""
    if not c.merged:
        return rotary_buffers(side.d_head, layout=c.layout)
    if c.layout == "checkpoint":
        return ()
    half = Axis("rotary", divide(side.d_head, 2, names="d_head / 2"))
    names = (
        f"{name}_{what}"
        for name, kind in WINDOWED.items()
        if side.kinds.has(kind)
        for what in ("inv_freq", "original_inv_freq")
    )
    return (Module("rotary_emb", tuple(buffer(name, half, persistent=False) for name in names)),)


def _vision(c: T5GemmaConfig, inside: str) -> tuple[Module, ...]:
    """The tower, and the matrix from its width to the encoder's."""
    assert c.vision is not None
    width = Axis("vision", c.vision.config.d_model)  # type: ignore[attr-defined]
    weight = Param("mm_input_projection_weight", (width, Axis("embed", c.d_model)), "matmul")
    projector = Module(
        "multi_modal_projector", (rms_norm("mm_soft_emb_norm", width), weight), component="other"
    )
    return (c.vision.module("vision_tower", layout=c.layout, inside=inside, stream="image"), projector)


ARCHITECTURES = {"t5gemma": Architecture(T5GemmaConfig, t5gemma)}
