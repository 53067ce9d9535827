"""What encoder families share: heads for each task, poolers, buffers of indices, BERT's MLP."""

from __future__ import annotations

from typing import Any

from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Leaf, Module, Op, Param
from sizer.errors import InvalidConfig, clip

Children = tuple[Module | Leaf, ...]
ONE = Axis("one", 1)


def with_heads(c: Any, prefix: str, model: Children, *heads: Module | Leaf) -> Module:
    """A model under `prefix` with its heads; the bare model has no prefix."""
    if c.task == "base":
        return Module("", model)
    return Module("", (Module(prefix, model), *heads))


def label_head(c: Any, width: Axis, *, name: str = "classifier", qa: str = "qa_outputs") -> Module:
    """A linear layer to the labels of a sequence, token or answer, or to the score of a choice."""
    labels = Axis("labels", 1 if c.task == "choice" else c.n_labels)
    chosen = qa if c.task in ("qa", "qa_simple") else name
    return linear(chosen, labels, width, bias=True, component="head")


def dense_label_head(c: Any, width: Axis, *, name: str = "classifier") -> Module:
    """RoBERTa's head of a sequence: a dense layer, then a projection to the labels."""
    dense = linear("dense", width, width, bias=True)
    return Module(
        name, (dense, linear("out_proj", Axis("labels", c.n_labels), width, bias=True)), component="head"
    )


def pooler(embed: Axis) -> Module:
    """BERT's dense layer over the first token."""
    return linear("pooler.dense", embed, embed, bias=True, component="head")


def masked_head(
    c: Any,
    name: str,
    vocab: Axis,
    embed: Axis,
    *,
    table: str,
    names: tuple[str, str, str] = ("transform.dense", "transform.LayerNorm", "decoder"),
    inner: Axis | None = None,
    projected: Axis | None = None,
    shared_bias: bool = True,
    extra: tuple[Module, ...] = (),
) -> Module:
    """The head of masked tokens: a dense layer, a norm, and a projection tied to the `table`.

    `inner`: width between the dense layer and the projection, where it is not that of the model.
    `projected`: columns of the table, where `extra` holds the others.
    `shared_bias`: the head has a bias, and that of its projection is the same tensor; they are two
    where the table is not tied, as transformers 5 has it.
    """
    dense, norm, decoder = names
    width = inner or embed
    bias_of = f"{name}.bias" if shared_bias and c.tie_embeddings else None
    tied_to = f"{table}.weight" if c.tie_embeddings else None
    weight = Param("weight", (vocab, projected or width), "matmul", tied_to)
    projection = Module(decoder, (weight, Param("bias", (vocab,), tied_to=bias_of)), kind="linear")
    return Module(
        name,
        (
            *((Param("bias", (vocab,)),) if shared_bias else ()),
            linear(dense, width, embed, bias=True),
            layer_norm(norm, width),
            *extra,
            projection,
        ),
        component="head",
    )


def next_sentence_head(embed: Axis) -> Module:
    """BERT's guess whether one sentence follows another."""
    return linear("cls.seq_relationship", Axis("labels", 2), embed, bias=True, component="head")


def squad_head(embed: Axis) -> tuple[Module, ...]:
    """XLNet's beam search over answers: where one starts, where it ends, and whether there is one."""
    score, both = Axis("score", 1), 2 * embed
    return (
        linear("start_logits.dense", score, embed, bias=True, component="head"),
        linear("end_logits.dense_0", embed, both, bias=True, component="head"),
        layer_norm("end_logits.LayerNorm", embed),
        linear("end_logits.dense_1", score, embed, bias=True, component="head"),
        linear("answer_class.dense_0", embed, both, bias=True, component="head"),
        linear("answer_class.dense_1", score, embed, component="head"),
    )


def id_buffers(c: Any, context: Axis, *, token_types: bool = False) -> Children:
    """The indices of positions, and of token types, that transformers keeps and saves in no file."""
    if c.layout == "checkpoint":
        return ()
    names = ("position_ids", "token_type_ids") if token_types else ("position_ids",)
    return tuple(buffer(name, ONE, context, persistent=False) for name in names)


def typed_rotary_buffers(c: Any, full: Axis, windowed: Axis) -> tuple[Module, ...]:
    """The inverse frequencies of each kind of layer, kept in memory alone."""
    if c.layout == "checkpoint":
        return ()
    kinds = (("full", "full_attention", full), ("window", "sliding_attention", windowed))
    buffers = tuple(
        buffer(f"{name}_{what}", rotary, persistent=False)
        for kind, name, rotary in kinds
        if c.window_layers.has(kind)
        for what in ("inv_freq", "original_inv_freq")
    )
    return (Module("rotary_emb", buffers),)


def split_attention(c: Any, heads: Axis, embed: Axis, names: tuple[str, str, str, str]) -> Children:
    """Queries, keys, values and an output, each with a bias, over the whole sequence."""
    *qkv, out = names
    return (
        *(linear(name, heads, embed, bias=True) for name in qkv),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
        linear(out, embed, heads, bias=True),
    )


def bert_mlp(ffn: Axis, embed: Axis, *, act: str = "gelu") -> Children:
    """BERT's MLP and the norm after it."""
    return (
        linear("intermediate.dense", ffn, embed, bias=True, component="mlp"),
        Op("act", act, {"width": ffn.size}, component="mlp"),
        linear("output.dense", embed, ffn, bias=True, component="mlp"),
        layer_norm("output.LayerNorm", embed),
    )


def bert_embeddings(
    c: Any,
    vocab: Axis,
    embed: Axis,
    *more: Module | Leaf,
    positions: Axis,
    types: Axis | None = None,
    type_ids: bool = False,
) -> Module:
    """Tables of words, positions and token types, and the norm of their sum."""
    tables = (embedding("token_type_embeddings", types, embed),) if types is not None else ()
    return Module(
        "embeddings",
        (
            embedding("word_embeddings", vocab, embed),
            embedding("position_embeddings", positions, embed, component="position"),
            *tables,
            layer_norm("LayerNorm", embed),
            *more,
            *id_buffers(c, positions, token_types=type_ids),
        ),
    )


def windowed_core(c: Any, *, cached: bool = False) -> tuple[Module, ...]:
    """Scores and mixing over the whole sequence or a window, by layer."""
    sizes = (c.n_heads, c.n_heads if c.n_kv_heads is None else c.n_kv_heads, c.d_head)
    if c.window_layers is None:
        return (Module("", attention_core(*sizes, cached=cached)),)
    windowed = attention_core(*sizes, window=c.window, cached=cached)
    return (
        Module("", attention_core(*sizes, cached=cached), at=c.window_layers.layers("full")),
        Module("", windowed, at=c.window_layers.layers("window")),
    )


def read_layers(kinds: list[str], name: str) -> Pattern:
    """Our words for transformers' kinds of attention layers."""
    words = {"full_attention": "full", "sliding_attention": "window"}
    unknown = [kind for kind in kinds if kind not in words]
    if unknown:
        raise InvalidConfig(
            f"{name}: layer_types has {clip(repr(unknown[0]))}; the kinds are {', '.join(words)}"
        )
    return Pattern(tuple(words[kind] for kind in kinds))
