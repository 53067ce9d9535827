"""What stands on top of a decoder: a language-model head, or one for a classification."""

from __future__ import annotations

from typing import Any

from sizer.core.layers import linear
from sizer.core.tree import Axis, Leaf, Module

Children = tuple[Module | Leaf, ...]


def with_head(
    c: Any,
    model: Children,
    *,
    prefix: str = "model",
    embedding: str = "embed_tokens",
    head: str = "lm_head",
    classifier: str = "score",
    bias: bool = False,
    qa_prefix: str = "transformer",
    token_bias: bool = True,
) -> Module:
    """A decoder under `prefix` with the head of its task; the bare decoder has no prefix.

    The head of a language model is tied to the embedding where `c.tie_embeddings` says so; its
    `bias`, where it has one, is its own. `head`, `classifier`: what it and a classifier are called.
    `qa_prefix`: the decoder's name below a question-answering head; most families of transformers
    still say "transformer" there, the later ones "model".
    `token_bias`: the head that labels tokens has a bias.
    """
    embed, vocab, labels = Axis("embed", c.d_model), Axis("vocab", c.vocab_size), Axis("labels", c.n_labels)
    if c.task == "base":
        return Module("", model)
    if c.task == "causal":
        tied_to = f"{prefix}.{embedding}.weight" if c.tie_embeddings else None
        top = linear(head, vocab, embed, bias=bias, tied_to=tied_to, component="head")
    elif c.task == "qa":
        prefix = qa_prefix
        top = linear("qa_outputs", Axis("span", 2), embed, bias=True, component="head")
    else:
        top = linear(classifier, labels, embed, bias=c.task == "token" and token_bias, component="head")
    return Module("", (Module(prefix, model), top))


def with_named_head(
    c: Any,
    model: Children,
    *,
    prefix: str,
    embedding: str,
    head: str = "lm_head",
    bias: bool = False,
    classifier: str = "score",
    width: Axis | None = None,
) -> Module:
    """A decoder with a head of its own class in transformers, rather than one of the generic ones.

    `head`, `classifier`: names of the language-model and sequence heads. `bias`: on the former.
    `width`: what the heads read, where that is not `d_model`.
    """
    embed = width or Axis("embed", c.d_model)
    if c.task == "base":
        return Module("", model)
    if c.task == "causal":
        tied_to = f"{prefix}.{embedding}.weight" if c.tie_embeddings else None
        top = linear(head, Axis("vocab", c.vocab_size), embed, bias=bias, tied_to=tied_to, component="head")
    elif c.task == "qa":
        top = linear("qa_outputs", Axis("span", 2), embed, bias=True, component="head")
    elif c.task == "token":
        top = linear("classifier", Axis("labels", c.n_labels), embed, bias=True, component="head")
    else:
        top = linear(classifier, Axis("labels", c.n_labels), embed, component="head")
    return Module("", (Module(prefix, model), top))


def with_parts(tree: Module, c: Any, *parts: Module) -> Module:
    """A tree of `with_head` with more parts beside its blocks, below its head."""
    if c.task == "base":
        return tree._replace(children=(*tree.children, *parts))
    model, *heads = tree.children
    assert isinstance(model, Module)
    return tree._replace(children=(model._replace(children=(*model.children, *parts)), *heads))
