"""RoCBert: a BERT that also embeds how a Chinese character sounds and looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import BertConfig, embeddings, fields_of, layer, pooler, stack
from sizer.architectures.encoders.heads import Children, with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class RoCBertConfig(BertConfig):
    """Sizes and switches of a RoCBert.

    `sounds`, `shapes`: the embeddings laid end to end with that of the word, and then mapped back to
    `d_model` if `concatenated`; both tables exist even where they are not used.
    """

    n_sounds: Dim
    n_shapes: Dim
    d_sound: Dim
    d_shape: Dim
    sounds: bool = True
    shapes: bool = True
    concatenated: bool = True

    letters = {**BertConfig.letters, "n_sounds": "Vp", "n_shapes": "Vs", "d_sound": "Dp", "d_shape": "Dsh"}
    meanings = {
        **BertConfig.meanings,
        "n_sounds": "pronunciations",
        "n_shapes": "shapes of characters",
        "d_sound": "width of the embedding of pronunciations",
        "d_shape": "width of the embedding of shapes",
    }


def roc_bert(c: RoCBertConfig) -> Module:
    """RoCBert (Su et al. 2022), with the tensor names of `RoCBertForPreTraining`.

    Source: transformers `modeling_roc_bert.py`.
    """
    return with_head(c, (*embeddings(c, *_glyphs(c)), *stack(c, layer(c)), *pooler(c)))


def _glyphs(c: RoCBertConfig) -> Children:
    embed, sound, shape = Axis("embed", c.d_model), Axis("sound", c.d_sound), Axis("shape", c.d_shape)
    tables = (
        embedding("pronunciation_embed", Axis("sounds", c.n_sounds), sound),
        embedding("shape_embed", Axis("shapes", c.n_shapes), shape),
    )
    if not c.concatenated:
        return tables
    joined = embed
    if c.sounds:
        joined = joined + sound
    if c.shapes:
        joined = joined + shape
    return (*tables, linear("map_inputs_layer", embed, joined, bias=True, component="embedding"))


ARCHITECTURES = {"roc_bert": Architecture(RoCBertConfig, roc_bert)}


def _roc_bert(hf: HFConfig) -> Reading:
    given = fields_of(
        hf,
        RoCBertConfig,
        prefix="roc_bert",
        sentence_head=False,
        n_sounds=hf["pronunciation_vocab_size"],
        n_shapes=hf["shape_vocab_size"],
        d_sound=hf["pronunciation_embed_dim"],
        d_shape=hf["shape_embed_dim"],
        sounds=hf["enable_pronunciation"],
        shapes=hf["enable_shape"],
        concatenated=hf["concat_input"],
    )
    return Reading("roc_bert", given)


HF_READERS = {"roc_bert": _roc_bert}
