"""Encoders whose embeddings may be narrower than the model: ELECTRA, RoFormer, RemBERT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.encoders.bert import (
    BertConfig,
    embeddings,
    fields_of,
    flag,
    layer,
    pooler,
    stack,
)
from sizer.architectures.encoders.heads import Children, with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def roformer(c: BertConfig) -> Module:
    """RoFormer (Su et al. 2021): rotary positions, whose sines are a frozen parameter of the encoder.

    Source: transformers `modeling_roformer.py`.
    """
    axes = (Axis("context", c.n_ctx), Axis("head", c.d_head))
    sines = Module(
        "encoder.embed_positions",
        (Param("weight", axes, "lookup", trainable=False),),
        kind="embedding",
        component="position",
    )
    return with_head(c, (*embeddings(c), sines, *stack(c, layer(c)), *pooler(c)))


@configuration
class RemBertConfig(BertConfig):
    """Sizes and switches of a RemBERT. `d_output`: width of the output embedding, which is never tied."""

    d_output: Dim

    letters = {**BertConfig.letters, "d_output": "Do"}
    meanings = {**BertConfig.meanings, "d_output": "width of the output embedding"}


def rembert(c: RemBertConfig) -> Module:
    """RemBERT (Chung et al. 2020): narrow input embeddings and a wide output embedding.

    Source: transformers `modeling_rembert.py`.
    """
    own = _output_embedding(c) if c.task in ("masked", "causal") else None
    return with_head(c, (*embeddings(c), *stack(c, layer(c)), *pooler(c)), own)


def _output_embedding(c: RemBertConfig) -> Children:
    output, vocab = Axis("output_embedding", c.d_output), Axis("vocab", c.vocab_size)
    parts = (
        linear("dense", output, Axis("embed", c.d_model), bias=True),
        Op("act", c.act, {"width": c.d_output}),
        layer_norm("LayerNorm", output),
        linear("decoder", vocab, output, bias=True),
    )
    return (Module("cls.predictions", parts, component="head"),)


ARCHITECTURES = {
    "roformer": Architecture(BertConfig, roformer),
    "rembert": Architecture(RemBertConfig, rembert),
}


def d_embed(hf: HFConfig) -> int | None:
    """The width of the embeddings, where it is not that of the model."""
    width = hf["embedding_size"]
    return None if width is None or width == hf["hidden_size"] else int(width)


def summary_fields(hf: HFConfig, config: type[BertConfig] = BertConfig, **given: Any) -> dict[str, Any]:
    """The fields of an ELECTRA-like configuration: no pooler, and a summary before multiple choice."""
    summary = "sequence_summary.summary" if flag(hf, "summary_use_proj") else ""
    usual = {"d_embed": d_embed(hf), "pooled": (), "classifier": "two_layers", "choice_layer": summary}
    return fields_of(hf, config, **{**usual, **given})


def _electra(hf: HFConfig) -> Reading:
    return Reading("bert", summary_fields(hf, prefix="electra", head="electra"))


def _roformer(hf: HFConfig) -> Reading:
    given: dict[str, Any] = {"prefix": "roformer", "learned_positions": False, "id_buffers": ()}
    if hf.task == "qa":
        given["n_labels"] = 2
    return Reading("roformer", summary_fields(hf, **given))


def _rembert(hf: HFConfig) -> Reading:
    given = fields_of(
        hf,
        RemBertConfig,
        prefix="rembert",
        d_embed=hf["input_embedding_size"],
        d_output=hf["output_embedding_size"],
        projection="encoder.embedding_hidden_mapping_in",
        id_buffers=("position_ids",),
    )
    return Reading("rembert", given)


HF_READERS = {"electra": _electra, "roformer": _roformer, "rembert": _rembert}
