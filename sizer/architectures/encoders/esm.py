"""ESM: a pre-norm encoder of proteins, which also predicts contacts from all attention maps."""

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
from sizer.architectures.encoders.heads import Children, with_head, word_embeddings
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import divide
from sizer.core.layers import buffer, layer_norm, linear
from sizer.core.tree import Axis, Buffer, Module, Op, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class EsmConfig(BertConfig):
    """Sizes and switches of an ESM.

    `rotary`: ESM-2's positions; their frequencies are stored, in the published files once a layer.
    `transformers_5_names`: a file as transformers 5 writes it: norms of the blocks under the names
    of old (`gamma`, `beta`), and the frequencies once, under a name that stands for all layers.
    """

    rotary: bool = False
    transformers_5_names: bool = False


def esm(c: EsmConfig) -> Module:
    """ESM-1b and ESM-2 (Rives et al. 2021, Lin et al. 2022), with the names of `EsmForMaskedLM`.

    Source: transformers `modeling_esm.py`.
    """
    per_layer = c.layout == "checkpoint" and not c.transformers_5_names
    inside = _frequencies(c, "self.rotary_embeddings.inv_freq") if per_layer else ()
    name = "encoder.layer.*.attention.self." if c.layout == "checkpoint" else ""
    beside = () if per_layer else _frequencies(c, f"{name}rotary_embeddings.inv_freq")
    block = layer(c, *inside)
    if c.layout == "checkpoint" and c.transformers_5_names:
        block = tuple(_old_norm_names(part) for part in block if isinstance(part, Module | Op))
    model = (*embeddings(c), *beside, *stack(c, block), *pooler(c), _contact_head(c))
    return with_head(c, model, _language_head(c) if c.task == "masked" else None)


def _frequencies(c: EsmConfig, name: str) -> tuple[Buffer, ...]:
    if not c.rotary:
        return ()
    return (buffer(name, Axis("rotary", divide(c.d_head, 2, names="d_head / 2")), component="position"),)


def _contact_head(c: EsmConfig) -> Module:
    """From the attention maps of all heads to contacts; a forward pass runs it only when asked to."""
    maps = Axis("maps", c.n_layers * c.n_heads)
    head = linear("contact_head.regression", Axis("labels", 1), maps, bias=True, component="head")
    return head._replace(uses=0)


def _old_norm_names(part: Module | Op) -> Module | Op:
    if isinstance(part, Op):
        return part
    if part.name == "LayerNorm":
        names = {"weight": "gamma", "bias": "beta"}
        params = [child for child in part.children if isinstance(child, Param)]
        return part._replace(children=tuple(p._replace(name=names[p.name]) for p in params))
    children = (_old_norm_names(child) if isinstance(child, Module) else child for child in part.children)
    return part._replace(children=tuple(children))


def _language_head(c: EsmConfig) -> Children:
    """RoBERTa's head, with one bias beside a matrix that has none."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    tied_to = word_embeddings(c) if c.tie_embeddings else None
    parts = (
        linear("dense", embed, embed, bias=True),
        Op("act", "gelu", {"width": c.d_model}),
        layer_norm("layer_norm", embed),
        linear("decoder", vocab, embed, tied_to=tied_to),
        Param("bias", (vocab,)),
    )
    return (Module("lm_head", parts, component="head"),)


ARCHITECTURES = {"esm": Architecture(EsmConfig, esm)}


def _esm(hf: HFConfig) -> Reading:
    positions = hf["position_embedding_type"]
    given = fields_of(
        hf,
        EsmConfig,
        prefix="esm",
        pooled=("base",),
        classifier="two_layers",
        n_token_types=None,
        learned_positions=positions == "absolute",
        rotary=positions == "rotary",
        embedding_norm="layer_norm" if hf["emb_layer_norm_before"] else "",
        norms=("LayerNorm", "LayerNorm", "encoder.emb_layer_norm_after"),
        id_buffers=("position_ids",),
        transformers_5_names=hf.saved_by_transformers_5,
    )
    return Reading("esm", given)


HF_READERS = {"esm": _esm}
