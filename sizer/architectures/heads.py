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
    bias: bool = False,
    qa_prefix: str = "transformer",
) -> Module:
    """A decoder under `prefix` with the head of its task; the bare decoder has no prefix.

    The head of a language model is tied to the embedding where `c.tie_embeddings` says so.
    """
    embed, vocab, labels = Axis("embed", c.d_model), Axis("vocab", c.vocab_size), Axis("labels", c.n_labels)
    if c.task == "base":
        return Module("", model)
    if c.task == "causal":
        tied_to = f"{prefix}.{embedding}.weight" if c.tie_embeddings else None
        head = linear("lm_head", vocab, embed, bias=bias, tied_to=tied_to, component="head")
    elif c.task == "qa":
        # Most question-answering classes call the decoder otherwise than their siblings do.
        prefix, head = (
            qa_prefix,
            linear("qa_outputs", Axis("span", 2), embed, bias=True, component="head"),
        )
    else:
        head = linear("score", labels, embed, bias=c.task == "token", component="head")
    return Module("", (Module(prefix, model), head))
