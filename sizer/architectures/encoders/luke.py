"""LUKE: a RoBERTa that reads entities beside words, and lets attention tell the two apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import (
    BertConfig,
    embeddings,
    fields_of,
    layer,
    pooler,
    stack,
)
from sizer.architectures.encoders.heads import Children, pooled, with_head, word_embeddings
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class LukeConfig(BertConfig):
    """Sizes and switches of a LUKE.

    `d_entity`: width of the entity embeddings, where it is not `d_model`.
    `entity_aware`: queries of their own between words and entities.
    `tie_words`: in the file, the words' head shares their embedding, as in the published models;
    transformers 5 ties the entities' head alone.
    """

    n_entities: Dim
    d_entity: Dim | None = None
    entity_aware: bool = True
    tie_words: bool = True

    letters = {**BertConfig.letters, "n_entities": "Ve", "d_entity": "Dn"}
    meanings = {
        **BertConfig.meanings,
        "n_entities": "rows of the entity embedding",
        "d_entity": "width of the entity embeddings",
    }


def luke(c: LukeConfig) -> Module:
    """LUKE (Yamada et al. 2020), with the tensor names of `LukeForMaskedLM`.

    Source: transformers `modeling_luke.py`. A pass over words alone runs nothing of the entities.
    """
    block = layer(c, *_entity_queries(c))
    return with_head(c, (*embeddings(c), _entity_embeddings(c), *stack(c, block), *pooler(c)), _own_head(c))


def _entity_embeddings(c: LukeConfig) -> Module:
    embed, entities = Axis("embed", c.d_model), Axis("entities", c.n_entities)
    width = _entity_axis(c)
    widen = () if c.d_entity is None else (linear("entity_embedding_dense", embed, width),)
    return Module(
        "entity_embeddings",
        (
            embedding("entity_embeddings", entities, width),
            *widen,
            embedding("position_embeddings", Axis("context", c.n_ctx), embed, component="position"),
            embedding("token_type_embeddings", Axis("types", c.n_token_types), embed),
            layer_norm("LayerNorm", embed),
        ),
        component="embedding",
        uses=0,
    )


def _entity_axis(c: LukeConfig) -> Axis:
    return Axis("embed", c.d_model) if c.d_entity is None else Axis("entity", c.d_entity)


def _entity_queries(c: LukeConfig) -> Children:
    """Queries from words to entities, entities to words, and entities to entities."""
    if not c.entity_aware:
        return ()
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    queries = (linear(f"self.{pair}_query", heads, embed, bias=True) for pair in ("w2e", "e2w", "e2e"))
    return tuple(query._replace(uses=0) for query in queries)


def _own_head(c: LukeConfig) -> Children | None:
    labels, embed = Axis("labels", c.n_labels), Axis("embed", c.d_model)
    match c.task:
        case "masked":
            return _words_head(c), _entities_head(c)
        case "entity":
            return (pooled("classifier", labels, embed),)
        case "entity_pair":
            return (pooled("classifier", labels, 2 * embed, bias=False),)
        case "entity_span":
            return (pooled("classifier", labels, 3 * embed),)
    return None


def _words_head(c: LukeConfig) -> Module:
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    tied = c.tie_embeddings and c.tie_words and c.layout == "checkpoint"
    scores = (
        Param("weight", (vocab, embed), "matmul", word_embeddings(c) if tied else None),
        Param("bias", (vocab,), tied_to="lm_head.bias" if c.tie_embeddings else None),
    )
    parts = (
        linear("dense", embed, embed, bias=True),
        Op("act", "gelu", {"width": c.d_model}),
        layer_norm("layer_norm", embed),
        Module("decoder", scores, kind="linear"),
        Param("bias", (vocab,)),
    )
    return Module("lm_head", parts, component="head")


def _entities_head(c: LukeConfig) -> Module:
    embed, entities, width = Axis("embed", c.d_model), Axis("entities", c.n_entities), _entity_axis(c)
    tied_to = f"{c.prefix}.entity_embeddings.entity_embeddings.weight" if c.tie_embeddings else None
    parts = (
        linear("transform.dense", width, embed, bias=True),
        Op("act", c.act, {"width": width.size}),
        layer_norm("transform.LayerNorm", width),
        linear("decoder", entities, width, tied_to=tied_to),
        Param("bias", (entities,)),
    )
    return Module("entity_predictions", parts, component="head", uses=0)


ARCHITECTURES = {"luke": Architecture(LukeConfig, luke)}


def _luke(hf: HFConfig) -> Reading:
    width = hf["entity_emb_size"]
    given = fields_of(
        hf,
        LukeConfig,
        prefix="luke",
        pooler=hf.task not in ("token", "qa"),
        id_buffers=(),
        n_entities=hf["entity_vocab_size"],
        d_entity=None if width == hf["hidden_size"] else width,
        entity_aware=hf["use_entity_aware_attention"],
        tie_words=not hf.saved_by_transformers_5,
    )
    return Reading("luke", given)


HF_READERS = {"luke": _luke}
