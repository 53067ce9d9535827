"""TAPAS: a BERT over tables, whose tokens have a type for each of several questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import BertConfig, embeddings, fields_of, layer, pooler, stack
from sizer.architectures.encoders.heads import Children, pooled, with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class TapasConfig(BertConfig):
    """Sizes and switches of a TAPAS.

    `type_tables`: rows of each table of token types (segment, column, row, rank, …).
    `n_aggregations`: operators over cells (sum, count, …) that a question can ask for.
    """

    type_tables: PerLayer
    n_aggregations: Dim | None = None

    letters = {**BertConfig.letters, "type_tables": "Nt", "n_aggregations": "Nag"}
    meanings = {**BertConfig.meanings, "n_aggregations": "operators over cells"}


def tapas(c: TapasConfig) -> Module:
    """TAPAS (Herzig et al. 2020), with the tensor names of `TapasForQuestionAnswering`.

    Source: transformers `modeling_tapas.py`.
    """
    own = _cell_selection(c) if c.task == "qa" else None
    model = (*embeddings(c, *_type_tables(c)), *stack(c, layer(c)), *pooler(c))
    return with_head(c, model, own)


def _type_tables(c: TapasConfig) -> Children:
    rows = dict(zip(c.type_tables.distinct(), (size for size, _ in c.type_tables.groups()), strict=True))
    return tuple(
        embedding(f"token_type_embeddings_{i}", Axis("types", rows[size]), Axis("embed", c.d_model))
        for i, size in enumerate(c.type_tables.values)
        if size is not None
    )


def _cell_selection(c: TapasConfig) -> Children:
    """Scores of tokens and of columns, each with a bias of one number; and the operator over them."""
    embed = Axis("embed", c.d_model)
    scores = (
        Param("output_weights", (embed,), "matmul", component="head"),
        Param("column_output_weights", (embed,), "matmul", component="head"),
        Param("output_bias", (), component="head"),
        Param("column_output_bias", (), component="head"),
    )
    if c.n_aggregations is None:
        return scores
    return (*scores, pooled("aggregation_classifier", Axis("labels", c.n_aggregations), embed))


ARCHITECTURES = {"tapas": Architecture(TapasConfig, tapas)}


def _tapas(hf: HFConfig) -> Reading:
    given = fields_of(
        hf,
        TapasConfig,
        prefix="tapas",
        pooled=("base", "sequence", "qa"),
        n_token_types=None,
        id_buffers=(),
        type_tables=PerLayer(tuple(hf["type_vocab_sizes"])),
        n_aggregations=hf["num_aggregation_labels"] or None,
    )
    return Reading("tapas", given)


HF_READERS = {"tapas": _tapas}
