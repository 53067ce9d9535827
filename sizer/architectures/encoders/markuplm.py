"""MarkupLM: a RoBERTa that knows for each word the path to it in the tree of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import BertConfig, embeddings, fields_of, layer, pooler, stack
from sizer.architectures.encoders.heads import with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear
from sizer.core.tree import Axis, Module, Op

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class MarkupConfig(BertConfig):
    """Sizes of a MarkupLM. `depth`: steps of a path, each a tag and its place among its siblings."""

    depth: Dim
    n_tags: Dim
    n_places: Dim
    d_step: Dim

    letters = {**BertConfig.letters, "depth": "Np", "n_tags": "Ntg", "n_places": "Npl", "d_step": "Dst"}
    meanings = {
        **BertConfig.meanings,
        "depth": "steps of a path",
        "n_tags": "tags",
        "n_places": "places among siblings",
        "d_step": "width of a step",
    }


def markuplm(c: MarkupConfig) -> Module:
    """MarkupLM (arXiv:2110.08518), with the names of `MarkupLMModel`. Source: `modeling_markuplm.py`."""
    return with_head(c, (*embeddings(c, _paths(c)), *stack(c, layer(c)), *pooler(c)))


def _paths(c: MarkupConfig) -> Module:
    """The steps of a path side by side, through an MLP; a matrix beside it is kept, and used for nothing."""
    embed, step = Axis("embed", c.d_model), Axis("step", c.d_step)
    path, ffn = Axis("path", c.depth * c.d_step), 4 * embed
    unused = linear("xpath_unitseq2_embeddings", embed, path, bias=True)
    idle = tuple(param._replace(use="idle") for param in unused.children)
    parts = (
        embedding("xpath_tag_sub_embeddings", Axis("tags", c.n_tags), step)._replace(repeat=c.depth),
        embedding("xpath_subs_sub_embeddings", Axis("places", c.n_places), step)._replace(repeat=c.depth),
        unused._replace(children=idle),
        linear("xpath_unitseq2_inner", ffn, path, bias=True),
        Op("act", "relu", {"width": ffn.size}),
        linear("inner2emb", embed, ffn, bias=True),
    )
    return Module("xpath_embeddings", parts, component="embedding")


ARCHITECTURES = {"markuplm": Architecture(MarkupConfig, markuplm)}


def _markuplm(hf: HFConfig) -> Reading:
    given = fields_of(
        hf,
        MarkupConfig,
        prefix="markuplm",
        pooled=("base", "sequence"),
        id_buffers=("position_ids",),
        depth=hf["max_depth"],
        n_tags=hf["max_xpath_tag_unit_embeddings"],
        n_places=hf["max_xpath_subs_unit_embeddings"],
        d_step=hf["xpath_unit_hidden_size"],
    )
    return Reading("markuplm", given)


HF_READERS = {"markuplm": _markuplm}
