"""DistilBERT: half the layers of a BERT, without token types and without a pooler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.parts import (
    Children,
    bert_embeddings,
    label_head,
    masked_head,
    split_attention,
    with_heads,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class DistilBertConfig(Config):
    """Sizes and switches of a DistilBERT."""

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_ctx: Dim
    d_head: Dim | None = None
    tie_embeddings: bool = True
    act: str = "gelu"
    task: str = "masked"

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def distilbert(c: DistilBertConfig) -> Module:
    """DistilBERT (Sanh et al. 2019), with the tensor names of transformers `modeling_distilbert.py`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    qkvo = split_attention(
        c, heads_axis("heads", c.n_heads, c.d_head), embed, ("q_lin", "k_lin", "v_lin", "out_lin")
    )
    block = Module(
        "transformer.layer",
        (
            Module("attention", qkvo, component="attention"),
            layer_norm("sa_layer_norm", embed),
            mlp("ffn", Axis("ffn", c.d_ff), embed, act=c.act, names=("lin1", "lin2")),
            layer_norm("output_layer_norm", embed),
        ),
        repeat=c.n_layers,
    )
    model = (bert_embeddings(c, vocab, embed, positions=Axis("context", c.n_ctx)), block)
    return with_heads(c, "distilbert", model, *heads(c, embed, vocab))


def heads(c: DistilBertConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of each task."""
    if c.task == "masked":
        names = ("vocab_transform", "vocab_layer_norm", "vocab_projector")
        table = "distilbert.embeddings.word_embeddings"
        return (masked_head(c, "", vocab, embed, table=table, names=names, shared_bias=False),)
    if c.task in ("sequence", "choice"):
        return linear("pre_classifier", embed, embed, bias=True, component="head"), label_head(c, embed)
    return (label_head(c, embed),)


ARCHITECTURES = {"distilbert": Architecture(DistilBertConfig, distilbert)}


def _distilbert(hf: HFConfig) -> Reading:
    return Reading("distilbert", hf.fill(DistilBertConfig, d_head=None, act=hf["activation"]))


HF_READERS = {"distilbert": _distilbert}
