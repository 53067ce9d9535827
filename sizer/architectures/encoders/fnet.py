"""FNet: a BERT whose attention is a Fourier transform, without parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.parts import (
    Children,
    bert_embeddings,
    bert_mlp,
    label_head,
    masked_head,
    next_sentence_head,
    pooler,
    with_heads,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Op

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class FNetConfig(Config):
    """Sizes and switches of an FNet."""

    d_model: Dim
    n_layers: Dim
    d_ff: Dim
    vocab_size: Dim
    n_ctx: Dim
    n_token_types: Dim = 4
    tie_embeddings: bool = True
    act: str = "gelu_new"
    task: str = "masked"

    letters = {"n_token_types": "Nt"}
    meanings = {"n_token_types": "token types"}

    def __post_init__(self) -> None:
        check_sizes(self)


def fnet(c: FNetConfig) -> Module:
    """FNet (arXiv:2105.03824), with the tensor names of transformers `modeling_fnet.py`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    projection = linear("projection", embed, embed, bias=True, component="embedding")
    embeddings = bert_embeddings(
        c,
        vocab,
        embed,
        projection,
        positions=Axis("context", c.n_ctx),
        types=Axis("types", c.n_token_types),
        type_ids=True,
    )
    block = Module(
        "encoder.layer",
        (
            Op("fourier", "fourier", {"width": c.d_model}, component="mixer"),
            layer_norm("fourier.output.LayerNorm", embed),
            *bert_mlp(Axis("ffn", c.d_ff), embed, act=c.act),
        ),
        repeat=c.n_layers,
    )
    return with_heads(c, "fnet", (embeddings, block, pooler(embed)), *heads(c, embed, vocab))


def heads(c: FNetConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of each task."""
    if c.task == "next_sentence":
        return (next_sentence_head(embed),)
    if c.task not in ("masked", "pretraining"):
        return (label_head(c, embed),)
    predictions = masked_head(c, "cls.predictions", vocab, embed, table="fnet.embeddings.word_embeddings")
    return (predictions,) if c.task == "masked" else (predictions, next_sentence_head(embed))


ARCHITECTURES = {"fnet": Architecture(FNetConfig, fnet)}


def _fnet(hf: HFConfig) -> Reading:
    return Reading("fnet", hf.fill(FNetConfig, act=hf["hidden_act"]))


HF_READERS = {"fnet": _fnet}
