"""MobileBERT: a thin BERT whose every block works inside a bottleneck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.parts import (
    Children,
    id_buffers,
    label_head,
    masked_head,
    next_sentence_head,
    pooler,
    with_heads,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class MobileBertConfig(Config):
    """Sizes and switches of a MobileBERT.

    `d_bottleneck`: width inside a block, where it is not `d_model`; `d_inner`: that of attention and MLPs.
    `n_extra_mlps`: MLPs of a block before its last. `trigrams`: a token's embedding has its neighbours'
    beside it. `bottleneck_values`: values come from the bottleneck too; `bottleneck_keys`: queries and
    keys come from one of their own. `layer_norms`: LayerNorms, rather than a scale and a shift.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_ctx: Dim
    d_embedding: Dim
    n_token_types: Dim = 2
    d_bottleneck: Dim | None = None
    d_inner: Dim | None = None
    d_head: Dim | None = None
    n_extra_mlps: Dim | None = None
    trigrams: bool = True
    bottleneck_values: bool = False
    bottleneck_keys: bool = True
    layer_norms: bool = False
    dense_pooler: bool = True
    tie_embeddings: bool = True
    act: str = "relu"
    task: str = "masked"

    letters = {
        "d_embedding": "De",
        "n_token_types": "Nt",
        "d_bottleneck": "Db",
        "d_inner": "Di",
        "n_extra_mlps": "Nm",
    }
    meanings = {
        "d_embedding": "width of the embedding",
        "n_token_types": "token types",
        "d_bottleneck": "width inside a block",
        "d_inner": "width of attention and MLPs inside a block",
        "n_extra_mlps": "MLPs of a block before its last",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_inner=self.d_model if self.d_bottleneck is None else self.d_bottleneck)
        self.derive_quotient("d_head", "d_inner", "n_heads")


def mobilebert(c: MobileBertConfig) -> Module:
    """MobileBERT (arXiv:2004.02984), with the tensor names of transformers `modeling_mobilebert.py`."""
    embed, vocab, inner = Axis("embed", c.d_model), Axis("vocab", c.vocab_size), Axis("inner", c.d_inner)
    extra = (
        (Module("ffn", feed_forward(c, inner), repeat=c.n_extra_mlps),) if c.n_extra_mlps is not None else ()
    )
    block = Module(
        "encoder.layer",
        (
            *bottleneck(c, embed),
            attention(c, embed, inner),
            *extra,
            *feed_forward(c, inner),
            *widen(c, embed),
        ),
        repeat=c.n_layers,
    )
    pooled = c.dense_pooler and c.task not in ("masked", "qa", "token")
    model = (embeddings(c, embed, vocab), block, *((pooler(embed),) if pooled else ()))
    return with_heads(c, "mobilebert", model, *heads(c, embed, vocab))


def embeddings(c: MobileBertConfig, embed: Axis, vocab: Axis) -> Module:
    """A narrow table of words, widened from a token and its neighbours."""
    width, context = Axis("embedding", c.d_embedding), Axis("context", c.n_ctx)
    wide = 3 * width if c.trigrams else width
    return Module(
        "embeddings",
        (
            embedding("word_embeddings", vocab, width),
            embedding("position_embeddings", context, embed, component="position"),
            embedding("token_type_embeddings", Axis("types", c.n_token_types), embed),
            linear("embedding_transformation", embed, wide, bias=True, component="embedding"),
            norm(c, "LayerNorm", embed),
            *id_buffers(c, context),
        ),
    )


def norm(c: MobileBertConfig, name: str, width: Axis) -> Module:
    """A LayerNorm, or what is left of one: a scale and a shift."""
    found = layer_norm(name, width)
    return found if c.layer_norms else found._replace(kind="affine")


def bottleneck(c: MobileBertConfig, embed: Axis) -> Children:
    """The way into a block: one projection for all, one more for queries and keys."""
    if c.d_bottleneck is None:
        return ()
    narrow = Axis("bottleneck", c.d_bottleneck)
    names = ("input", "attention") if c.bottleneck_keys else ("input",)
    return tuple(
        Module(
            f"bottleneck.{name}",
            (linear("dense", narrow, embed, bias=True), norm(c, "LayerNorm", narrow)),
            component="mlp",
        )
        for name in names
    )


def widen(c: MobileBertConfig, embed: Axis) -> Children:
    """The way out of a block."""
    if c.d_bottleneck is None:
        return ()
    name = "output.bottleneck"
    dense = linear(f"{name}.dense", embed, Axis("inner", c.d_inner), bias=True, component="mlp")
    return dense, norm(c, f"{name}.LayerNorm", embed)


def attention(c: MobileBertConfig, embed: Axis, inner: Axis) -> Module:
    """Attention inside the bottleneck; values come from outside it unless a switch says so."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    values = inner if c.bottleneck_values else embed
    return Module(
        "attention",
        (
            linear("self.query", heads, inner, bias=True),
            linear("self.key", heads, inner, bias=True),
            linear("self.value", heads, values, bias=True),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
            linear("output.dense", inner, inner, bias=True),
            norm(c, "output.LayerNorm", inner),
        ),
        component="attention",
    )


def feed_forward(c: MobileBertConfig, inner: Axis) -> Children:
    """An MLP and the norm after it."""
    ffn = Axis("ffn", c.d_ff)
    return (
        linear("intermediate.dense", ffn, inner, bias=True, component="mlp"),
        Op("act", c.act, {"width": c.d_ff}, component="mlp"),
        linear("output.dense", inner, ffn, bias=True, component="mlp"),
        norm(c, "output.LayerNorm", inner),
    )


def heads(c: MobileBertConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of each task; that of masked tokens adds columns to the narrow table."""
    if c.task == "next_sentence":
        return (next_sentence_head(embed),)
    if c.task not in ("masked", "pretraining"):
        return (label_head(c, embed),)
    rest = Axis("rest", c.d_model - c.d_embedding)
    head = masked_head(
        c,
        "cls.predictions",
        vocab,
        embed,
        table="mobilebert.embeddings.word_embeddings",
        projected=Axis("embedding", c.d_embedding),
        extra=(linear("dense", rest, vocab),),
    )
    return (head,) if c.task == "masked" else (head, next_sentence_head(embed))


ARCHITECTURES = {"mobilebert": Architecture(MobileBertConfig, mobilebert)}


def _mobilebert(hf: HFConfig) -> Reading:
    narrow = hf["intra_bottleneck_size"] if hf["use_bottleneck"] else None
    key = "true_hidden_size"  # saved by transformers, which believes it before the sizes it follows from
    inner = hf.in_file(key)
    return Reading(
        "mobilebert",
        hf.fill(
            MobileBertConfig,
            d_head=None,
            d_embedding=hf["embedding_size"],
            d_bottleneck=narrow,
            d_inner=None if inner == (narrow or hf["hidden_size"]) else inner,
            n_extra_mlps=max(hf["num_feedforward_networks"] - 1, 0) or None,
            trigrams=hf["trigram_input"],
            bottleneck_values=hf["use_bottleneck_attention"],
            bottleneck_keys=hf["key_query_shared_bottleneck"],
            layer_norms=hf["normalization_type"] == "layer_norm",
            dense_pooler=hf["classifier_activation"],
            act=hf["hidden_act"],
        ),
    )


HF_READERS = {"mobilebert": _mobilebert}
