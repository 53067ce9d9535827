"""MPNet: a BERT with relative positions, whose table all layers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.parts import (
    Children,
    bert_embeddings,
    bert_mlp,
    dense_label_head,
    label_head,
    masked_head,
    pooler,
    split_attention,
    with_heads,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, layer_norm
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class MPNetConfig(Config):
    """Sizes and switches of an MPNet."""

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_ctx: Dim
    n_buckets: Dim = 32
    d_head: Dim | None = None
    tie_embeddings: bool = True
    act: str = "gelu"
    task: str = "masked"

    letters = {"n_buckets": "Nb"}
    meanings = {"n_buckets": "buckets of relative distance"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def mpnet(c: MPNetConfig) -> Module:
    """MPNet (arXiv:2004.09297), with the tensor names of transformers `modeling_mpnet.py`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    qkvo = split_attention(c, heads_axis("heads", c.n_heads, c.d_head), embed, ("q", "k", "v", "o"))
    attention = Module("attention.attn", qkvo, component="attention")
    block = Module(
        "encoder.layer",
        (
            attention,
            layer_norm("attention.LayerNorm", embed),
            *bert_mlp(Axis("ffn", c.d_ff), embed, act=c.act),
        ),
        repeat=c.n_layers,
    )
    buckets, per_head = Axis("buckets", c.n_buckets), Axis("heads", c.n_heads)
    model = (
        bert_embeddings(c, vocab, embed, positions=Axis("context", c.n_ctx)),
        block,
        embedding("encoder.relative_attention_bias", buckets, per_head, component="position"),
        *((pooler(embed),) if c.task in ("base", "choice") else ()),
    )
    return with_heads(c, "mpnet", model, *heads(c, embed, vocab))


def heads(c: MPNetConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of each task, as RoBERTa has it."""
    if c.task == "masked":
        names = ("dense", "layer_norm", "decoder")
        table = "mpnet.embeddings.word_embeddings"
        return (masked_head(c, "lm_head", vocab, embed, table=table, names=names),)
    return (dense_label_head(c, embed) if c.task == "sequence" else label_head(c, embed),)


ARCHITECTURES = {"mpnet": Architecture(MPNetConfig, mpnet)}


def _mpnet(hf: HFConfig) -> Reading:
    buckets = hf["relative_attention_num_buckets"]
    return Reading("mpnet", hf.fill(MPNetConfig, d_head=None, n_buckets=buckets, act=hf["hidden_act"]))


HF_READERS = {"mpnet": _mpnet}
