"""VisualBERT and ViLT: regions or patches of an image among the words of a BERT or ViT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import BertConfig, embeddings, fields_of, layer, pooler, stack
from sizer.architectures.encoders.heads import Children, with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.vision.clip import ONE
from sizer.architectures.vision.vit import VitConfig, vit_model
from sizer.architectures.vision.vit_types import EARLY, read_vit
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, layer_norm, linear
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig, UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class VisualBertConfig(BertConfig):
    """Sizes of a VisualBERT. `d_region`: numbers that describe a region of an image."""

    d_region: Dim

    letters = {**BertConfig.letters, "d_region": "Dr"}
    meanings = {**BertConfig.meanings, "d_region": "numbers that describe a region"}


@configuration
class ViltConfig(VitConfig):
    """Sizes of a ViLT's words. `n_modes`: words and patches have a vector of their own each."""

    vocab_size: Dim
    n_ctx: Dim
    n_token_types: Dim
    n_modes: Dim

    letters = {**VitConfig.letters, "n_token_types": "Nt", "n_modes": "Nmo"}
    meanings = {
        **VitConfig.meanings,
        "n_token_types": "token types",
        "n_modes": "kinds of input",
    }


def visual_bert(c: VisualBertConfig) -> Module:
    """VisualBERT (arXiv:1908.03557), with the names of `VisualBertForPreTraining`.

    Source: transformers `modeling_visual_bert.py`.
    """
    embed = Axis("embed", c.d_model)
    more = (
        embedding("visual_token_type_embeddings", Axis("types", c.n_token_types), embed),
        embedding("visual_position_embeddings", Axis("context", c.n_ctx), embed, component="position"),
        linear("visual_projection", embed, Axis("region", c.d_region), bias=True, component="embedding"),
    )
    return with_head(c, (*embeddings(c, *more), *stack(c, layer(c)), *pooler(c)))


def vilt(c: ViltConfig) -> Module:
    """ViLT (arXiv:2102.03334), with the names of `ViltModel`. Source: transformers `modeling_vilt.py`."""
    embed, context = Axis("embed", c.d_model), Axis("context", c.n_ctx)
    first, *rest = vit_model(c)
    assert isinstance(first, Module)
    names = ("position_ids", "token_type_ids") if c.layout == "transformers" else ()
    words: Children = (
        embedding("word_embeddings", Axis("vocab", c.vocab_size), embed),
        embedding("position_embeddings", context, embed, component="position"),
        embedding("token_type_embeddings", Axis("types", c.n_token_types), embed),
        layer_norm("LayerNorm", embed),
        *(buffer(name, ONE, context, persistent=False) for name in names),
    )
    modes = embedding("token_type_embeddings", Axis("modes", c.n_modes), embed)
    together = (Module("text_embeddings", words), *first.children, modes)
    return Module("", (Module("embeddings", together), *rest))


ARCHITECTURES = {
    "vilt": Architecture(ViltConfig, vilt),
    "visual_bert": Architecture(VisualBertConfig, visual_bert),
}


def _visual_bert(hf: HFConfig) -> Reading:
    if not hf.cls.endswith(("Model", "ForPreTraining")):
        known = ("VisualBertModel", "VisualBertForPreTraining")
        raise UnknownName("class", hf.cls, known, hint="of a visual_bert")
    if hf["bypass_transformer"]:
        raise InvalidConfig("bypass_transformer: the layer that it adds is not described")
    given = fields_of(
        hf,
        VisualBertConfig,
        prefix="visual_bert",
        d_region=hf["visual_embedding_dim"],
        id_buffers=("position_ids",),
    )
    return Reading("visual_bert", given)


def _vilt(hf: HFConfig) -> Reading:
    if hf.cls != "ViltModel":
        raise UnknownName("class", hf.cls, ("ViltModel",), hint="of a vilt")
    found = read_vit(
        hf,
        task="base",
        d_pooler=hf["hidden_size"],
        vocab_size=hf["vocab_size"],
        n_ctx=hf["max_position_embeddings"],
        n_token_types=hf["type_vocab_size"],
        n_modes=hf["modality_type_vocab_size"],
        module_names=EARLY,
    )
    return Reading("vilt", found.given)


HF_READERS = {"vilt": _vilt, "visual_bert": _visual_bert}
