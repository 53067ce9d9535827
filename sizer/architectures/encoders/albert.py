"""ALBERT: narrow embeddings, and groups of blocks that many layers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import BertConfig, embeddings, fields_of, pooler
from sizer.architectures.encoders.heads import Children, decoder, pooled, with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class AlbertConfig(BertConfig):
    """Sizes and switches of an ALBERT.

    `n_groups`: distinct groups of blocks, spread over the `n_layers` layers; a layer runs the
    `n_inner` blocks of its group one after the other.
    """

    d_embed: Dim
    n_groups: Dim = 1
    n_inner: Dim = 1

    letters = {**BertConfig.letters, "n_groups": "G", "n_inner": "Ni"}
    meanings = {
        **BertConfig.meanings,
        "n_layers": "layers, which share the groups' blocks",
        "n_groups": "groups of blocks",
        "n_inner": "blocks of a group",
    }


def albert(c: AlbertConfig) -> Module:
    """ALBERT (Lan et al. 2019), with the tensor names of `AlbertForPreTraining`.

    Source: transformers `modeling_albert.py`.
    """
    blocks = Module("albert_layers", _block(c), repeat=c.n_inner)
    groups = Module("encoder.albert_layer_groups", (blocks,), repeat=c.n_groups, visits=c.n_layers)
    return with_head(c, (*embeddings(c), groups, *pooler(c)), _own_head(c))


def _block(c: AlbertConfig) -> Children:
    embed, ffn = Axis("embed", c.d_model), Axis("ffn", c.d_ff)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    attention = (
        linear("query", heads, embed, bias=True),
        linear("key", heads, embed, bias=True),
        linear("value", heads, embed, bias=True),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
        linear("dense", embed, heads, bias=True),
        layer_norm("LayerNorm", embed),
    )
    return (
        Module("attention", attention, component="attention"),
        linear("ffn", ffn, embed, bias=True, component="mlp"),
        Op("act", c.act, {"width": c.d_ff}, component="mlp"),
        linear("ffn_output", embed, ffn, bias=True, component="mlp"),
        layer_norm("full_layer_layer_norm", embed),
    )


def _own_head(c: AlbertConfig) -> Children | None:
    """The language head works in the width of the embeddings; pretraining adds the order of sentences."""
    if c.task not in ("masked", "pretraining"):
        return None
    embed, width, vocab = Axis("embed", c.d_model), Axis("embedding", c.d_embed), Axis("vocab", c.vocab_size)
    parts = (
        linear("dense", width, embed, bias=True),
        Op("act", c.act, {"width": c.d_embed}),
        layer_norm("LayerNorm", width),
        decoder(c, "predictions", width),
        Param("bias", (vocab,)),
    )
    predictions = Module("predictions", parts, component="head")
    if c.task == "masked":
        return (predictions,)
    return predictions, pooled("sop_classifier.classifier", Axis("labels", c.n_labels), embed)


ARCHITECTURES = {"albert": Architecture(AlbertConfig, albert)}


def _albert(hf: HFConfig) -> Reading:
    given = fields_of(
        hf,
        AlbertConfig,
        prefix="albert",
        d_embed=hf["embedding_size"],
        n_groups=hf["num_hidden_groups"],
        n_inner=hf["inner_group_num"],
        projection="encoder.embedding_hidden_mapping_in",
        pooler_name="pooler",
    )
    return Reading("albert", given)


HF_READERS = {"albert": _albert}
