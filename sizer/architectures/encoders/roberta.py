"""RoBERTa and its descendants: two-layer classifiers, pre-norm blocks, adapters for languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.encoders.bert import (
    BertConfig,
    embeddings,
    fields_of,
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

POOLED = ("base", "choice")


@configuration
class XmodConfig(BertConfig):
    """Sizes and switches of an X-MOD.

    `languages`: each has an adapter of width `d_adapter` in every block; a token visits one.
    `adapter_norm`: a norm before the adapters.
    """

    languages: tuple[str, ...]
    d_adapter: Dim
    adapter_norm: bool = False

    letters = {**BertConfig.letters, "d_adapter": "Da"}
    meanings = {**BertConfig.meanings, "d_adapter": "hidden width of an adapter"}


def xmod(c: XmodConfig) -> Module:
    """X-MOD (Pfeiffer et al. 2022), with the tensor names of `XmodForMaskedLM`."""
    block = (*layer(c), *_adapters(c))
    return with_head(c, (*embeddings(c), *stack(c, block), *pooler(c)))


def _adapters(c: XmodConfig) -> Children:
    embed, bottleneck = Axis("embed", c.d_model), Axis("adapter", c.d_adapter)
    norm = (layer_norm("output.adapter_layer_norm", embed),) if c.adapter_norm else ()
    one = (
        linear("dense1", bottleneck, embed, bias=True),
        Op("act", c.act, {"width": c.d_adapter}),
        linear("dense2", embed, bottleneck, bias=True),
    )
    adapter = Module("", one, component="mlp")
    adapters = [adapter._replace(name=f"output.adapter_modules.{language}") for language in c.languages]
    return (*norm, *adapters[:1], *(_never_visited(other) for other in adapters[1:]))


def _never_visited(part: Module) -> Module:
    """The same tensors, of which a token visits none."""
    children = (_never_visited(child) if isinstance(child, Module) else child for child in part.children)
    params = (child._replace(active=0) if isinstance(child, Param) else child for child in children)
    return part._replace(children=tuple(child for child in params if not isinstance(child, Op)))


ARCHITECTURES = {"xmod": Architecture(XmodConfig, xmod)}


def roberta_fields(hf: HFConfig, config: type[BertConfig] = BertConfig, **given: Any) -> dict[str, Any]:
    """The fields of a RoBERTa-like configuration."""
    usual = {"prefix": "roberta", "head": "roberta", "pooled": POOLED, "classifier": "two_layers"}
    return fields_of(hf, config, **{**usual, "counted_positions": True, **given})


def _roberta(hf: HFConfig) -> Reading:
    return Reading("bert", roberta_fields(hf))


def _xlm_roberta(hf: HFConfig) -> Reading:
    return Reading("bert", roberta_fields(hf, head_first=True))


def _data2vec_text(hf: HFConfig) -> Reading:
    return Reading("bert", roberta_fields(hf, prefix="data2vec_text"))


def _roberta_prelayernorm(hf: HFConfig) -> Reading:
    norms = ("LayerNorm", "intermediate.LayerNorm", "LayerNorm")
    return Reading("bert", roberta_fields(hf, prefix="roberta_prelayernorm", norms=norms))


def _xlm_roberta_xl(hf: HFConfig) -> Reading:
    norms = ("self_attn_layer_norm", "LayerNorm", "encoder.LayerNorm")
    return Reading("bert", roberta_fields(hf, norms=norms, embedding_norm=""))


def _xmod(hf: HFConfig) -> Reading:
    final = "encoder.LayerNorm" if hf["pre_norm"] else ""
    given = roberta_fields(
        hf,
        XmodConfig,
        norms=("output.LayerNorm", "output.LayerNorm", final),
        languages=tuple(dict.fromkeys(str(language) for language in hf["languages"])),
        d_adapter=int(hf["hidden_size"] // hf["adapter_reduction_factor"]),
        adapter_norm=hf["adapter_layer_norm"],
    )
    return Reading("xmod", given)


HF_READERS = {
    "roberta": _roberta,
    "camembert": _roberta,
    "xlm-roberta": _xlm_roberta,
    "data2vec-text": _data2vec_text,
    "roberta-prelayernorm": _roberta_prelayernorm,
    "xlm-roberta-xl": _xlm_roberta_xl,
    "xmod": _xmod,
}
