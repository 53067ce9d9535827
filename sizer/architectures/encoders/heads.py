"""What stands on top of an encoder: language heads, and those for a classification."""

from __future__ import annotations

from typing import Any

from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Leaf, Module, Op, Param
from sizer.errors import InvalidConfig

Children = tuple[Module | Leaf, ...]


def with_head(c: Any, model: Children, own: Children | None = None) -> Module:
    """An encoder under `c.prefix` with the head of its task; the bare encoder has no prefix.

    `own` is the head of a family that has another for this task than its relatives.
    """
    if c.task == "base":
        return Module("", model)
    return Module("", (Module(c.prefix, model), *(task_head(c) if own is None else own)))


def task_head(c: Any) -> Children:
    """The head of a task, in the shape that most encoders share."""
    embed, labels = Axis("embed", c.d_model), Axis("labels", c.n_labels)
    match c.task:
        case "masked" | "causal":
            return language_head(c)
        case "pretraining":
            if c.head == "electra":
                return discriminator(embed, c.act)
            return (*language_head(c), *(next_sentence(embed) if c.sentence_head else ()))
        case "next_sentence":
            return next_sentence(embed)
        case "sequence" if c.classifier == "two_layers":
            return (
                pooled("classifier.dense", embed, embed),
                pooled("classifier.out_proj", labels, embed),
            )
        case "sequence":
            return (pooled("classifier", labels, embed),)
        case "token":
            return (linear("classifier", labels, embed, bias=True, component="head"),)
        case "qa":
            return answer_span(c, embed, labels)
        case "choice":
            before = (pooled(c.choice_layer, embed, embed),) if c.choice_layer else ()
            return (*before, pooled("classifier", Axis("labels", 1), embed))
    raise InvalidConfig(f"this encoder has no head for the task {c.task!r}")


def pooled(name: str, out: Axis, inp: Axis, *, bias: bool = True) -> Module:
    """A linear layer over one token of a sequence."""
    weight = Param("weight", (out, inp), "pooled")
    return Module(name, (weight, Param("bias", (out,))) if bias else (weight,), component="head")


def next_sentence(embed: Axis) -> Children:
    """Whether the second sentence follows the first."""
    return (pooled("cls.seq_relationship", Axis("labels", 2), embed),)


def discriminator(embed: Axis, act: str) -> Children:
    """ELECTRA's head: whether a token was replaced."""
    one = Axis("labels", 1)
    parts = (
        linear("dense", embed, embed, bias=True),
        Op("act", act, {"width": embed.size}),
        linear("dense_prediction", one, embed, bias=True),
    )
    return (Module("discriminator_predictions", parts, component="head"),)


def answer_span(c: Any, embed: Axis, labels: Axis) -> Children:
    """Where an answer begins and ends; BigBird has an MLP of its own before it."""
    if c.head != "big_bird":
        return (linear("qa_outputs", labels, embed, bias=True, component="head"),)
    ffn = Axis("ffn", c.d_ff)
    parts = (
        linear("intermediate.dense", ffn, embed, bias=True),
        Op("act", c.act, {"width": c.d_ff}),
        linear("output.dense", embed, ffn, bias=True),
        layer_norm("output.LayerNorm", embed),
        linear("qa_outputs", labels, embed, bias=True),
    )
    return (Module("qa_classifier", parts, component="head"),)


def language_head(c: Any) -> Children:
    """Scores of every token of the vocabulary; the matrix is the word embedding's, if tied."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    width = embed if c.d_embed is None else Axis("embedding", c.d_embed)
    # The matrix has a bias of its own where it is not tied: this one is kept, and added to nothing.
    bias, act = (
        Param("bias", (vocab,), "" if c.tie_embeddings else "idle"),
        Op("act", c.act, {"width": width.size}),
    )
    if c.head == "roberta":
        if c.head_first:
            act = act._replace(traits=("made_first",))
        parts: Children = (
            linear("dense", embed, embed, bias=True),
            act,
            layer_norm("layer_norm", embed),
            decoder(c, "lm_head", embed),
            bias,
        )
        return (Module("lm_head", parts, component="head"),)
    if c.head == "generation":
        return (Module("lm_head", (decoder(c, "lm_head", embed), bias), component="head"),)
    if c.head == "electra":
        parts = (linear("dense", width, embed, bias=True), act, layer_norm("LayerNorm", width))
        predictions = Module("generator_predictions", parts, component="head")
        tied_to = word_embeddings(c) if c.tie_embeddings else None
        return (
            predictions,
            linear("generator_lm_head", vocab, width, bias=True, tied_to=tied_to, component="head"),
        )
    parts = (
        linear("transform.dense", width, embed, bias=True),
        act,
        layer_norm("transform.LayerNorm", width),
        decoder(c, "cls.predictions", width),
        bias,
    )
    return (Module("cls.predictions", parts, component="head"),)


def decoder(c: Any, head: str, width: Axis) -> Module:
    """The matrix to the vocabulary and its bias, which also stands in the head under a name of its own."""
    vocab = Axis("vocab", c.vocab_size)
    weight = Param("weight", (vocab, width), "matmul", word_embeddings(c) if c.tie_embeddings else None)
    bias = Param("bias", (vocab,), tied_to=f"{head}.bias" if c.tie_embeddings else None)
    return Module("decoder", (weight, bias), kind="linear")


def word_embeddings(c: Any) -> str:
    """The full name of the table that a language head is tied to."""
    return f"{c.prefix}.embeddings.word_embeddings.weight"
