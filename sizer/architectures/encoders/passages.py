"""BERTs that read passages: DPR, which gives them a vector, and Splinter, which marks spans in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import BertConfig, embeddings, fields_of, layer, stack
from sizer.architectures.encoders.heads import Children
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Op
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# Where each class of DPR keeps its BERT.
DPR = {
    "DPRQuestionEncoder": "question_encoder",
    "DPRContextEncoder": "ctx_encoder",
    "DPRReader": "span_predictor.encoder",
}
SPLINTER = ("SplinterModel", "SplinterForPreTraining", "SplinterForQuestionAnswering")


@configuration
class DprConfig(BertConfig):
    """Sizes of a DPR. `d_vector`: width of its vectors, where a matrix changes it."""

    d_vector: Dim | None = None

    letters = {**BertConfig.letters, "d_vector": "Dv"}
    meanings = {**BertConfig.meanings, "d_vector": "width of the vector of a passage"}


def dpr(c: DprConfig) -> Module:
    """DPR (arXiv:2004.04906). Source: transformers `modeling_dpr.py`."""
    bert = Module(f"{c.prefix}.bert_model", (*embeddings(c), *stack(c, layer(c), flow="block")))
    width = Axis("embed", c.d_model)
    parts: tuple[Module, ...] = (bert,)
    if c.d_vector is not None:
        width = Axis("vector", c.d_vector)
        name = f"{c.prefix}.encode_proj"
        parts = (bert, linear(name, width, Axis("embed", c.d_model), bias=True, component="head"))
    if c.task != "qa":
        return Module("", parts)
    heads = (
        linear(f"span_predictor.{name}", Axis("outputs", rows), width, bias=True, component="head")
        for name, rows in (("qa_outputs", 2), ("qa_classifier", 1))
    )
    return Module("", (*parts, *heads))


def splinter(c: BertConfig) -> Module:
    """Splinter (arXiv:2101.00438), whose head answers several questions of a passage at once.

    Source: transformers `modeling_splinter.py`.
    """
    embed = Axis("embed", c.d_model)
    model = (*embeddings(c), *stack(c, layer(c), flow="block"))
    if c.task == "base":
        return Module("", model)
    head: Children = (
        *(
            _transform(name, embed)
            for name in ("query_start_transform", "query_end_transform", "start_transform", "end_transform")
        ),
        linear("start_classifier", embed, embed),
        linear("end_classifier", embed, embed),
    )
    return Module("", (Module("splinter", model), Module("splinter_qass", head, component="head")))


def _transform(name: str, embed: Axis) -> Module:
    act = Op("act", "gelu", {"width": embed.size})
    return Module(name, (linear("dense", embed, embed, bias=True), act, layer_norm("LayerNorm", embed)))


ARCHITECTURES = {
    "dpr": Architecture(DprConfig, dpr),
    "splinter": Architecture(BertConfig, splinter),
}


def _dpr(hf: HFConfig) -> Reading:
    if hf.cls not in DPR:
        raise UnknownName("class", hf.cls, DPR, hint="of a dpr")
    given = fields_of(
        hf,
        DprConfig,
        task="qa" if hf.cls == "DPRReader" else "base",
        prefix=DPR[hf.cls],
        pooler=False,
        d_vector=hf["projection_dim"] or None,
        n_labels=2,
    )
    return Reading("dpr", given)


def _splinter(hf: HFConfig) -> Reading:
    if hf.cls not in SPLINTER:
        raise UnknownName("class", hf.cls, SPLINTER, hint="of a splinter")
    task = "base" if hf.cls == "SplinterModel" else "qa"
    return Reading("splinter", fields_of(hf, task=task, pooler=False, id_buffers=("position_ids",)))


HF_READERS = {"dpr": _dpr, "splinter": _splinter}
