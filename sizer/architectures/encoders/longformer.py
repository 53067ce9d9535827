"""Longformer: attention within a window, and a second set of projections for global tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import BertConfig, embeddings, layer, pooler, stack
from sizer.architectures.encoders.heads import Children, with_head
from sizer.architectures.encoders.roberta import roberta_fields
from sizer.architectures.registry import Architecture, Reading
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def longformer(c: BertConfig) -> Module:
    """Longformer (Beltagy et al. 2020), with the tensor names of `LongformerForMaskedLM`.

    Source: transformers `modeling_longformer.py`.
    """
    return with_head(c, (*embeddings(c), *stack(c, layer(c, *_global_attention(c))), *pooler(c)))


def _global_attention(c: BertConfig) -> Children:
    """Projections for the few tokens that see everything; their keys and values are those of all tokens.

    The heads for whole sequences ask for such tokens themselves; otherwise a pass has none.
    """
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    query, key, value = (
        linear(f"self.{name}_global", heads, embed, bias=True) for name in ("query", "key", "value")
    )
    used = None if c.task in ("sequence", "qa", "choice") else 0
    return query._replace(uses=0), key._replace(uses=used), value._replace(uses=used)


ARCHITECTURES = {"longformer": Architecture(BertConfig, longformer)}


def _longformer(hf: HFConfig) -> Reading:
    windows = hf["attention_window"]
    widest = max(windows) if isinstance(windows, list | tuple) else windows
    return Reading("longformer", roberta_fields(hf, prefix="longformer", id_buffers=(), window=widest))


HF_READERS = {"longformer": _longformer}
