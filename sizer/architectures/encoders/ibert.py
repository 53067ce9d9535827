"""I-BERT: a RoBERTa made to run on integers, whose layers keep scales and integers as buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import BertConfig, pooler
from sizer.architectures.encoders.heads import Children, with_head
from sizer.architectures.encoders.roberta import roberta_fields
from sizer.architectures.registry import Architecture, Reading
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear
from sizer.core.tree import Axis, Buffer, Module, Op, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


def ibert(c: BertConfig) -> Module:
    """I-BERT (Kim et al. 2021), with the tensor names of `IBertForMaskedLM`.

    Sources: transformers `modeling_ibert.py`, `quant_modules.py`. The buffers are there whether or
    not the model is quantized.
    """
    embed, ffn = Axis("embed", c.d_model), Axis("ffn", c.d_ff)
    block = Module(
        "encoder.layer",
        (
            _attention(c, embed),
            _range("pre_intermediate_act"),
            _linear("intermediate.dense", ffn, embed),
            Op("act", c.act, {"width": c.d_ff}),
            _range("intermediate.output_activation"),
            _range("pre_output_act"),
            *_output(embed, ffn),
        ),
        repeat=c.n_layers,
        component="mlp",
    )
    return with_head(c, (_embeddings(c, embed), block, *pooler(c)))


def _embeddings(c: BertConfig, embed: Axis) -> Module:
    context = Axis("context", c.n_ctx)
    ids = () if c.layout == "checkpoint" else (buffer("position_ids", ONE, context, persistent=False),)
    return Module(
        "embeddings",
        (
            _embedding("word_embeddings", Axis("vocab", c.vocab_size), embed),
            _embedding("token_type_embeddings", Axis("types", c.n_token_types), embed),
            _range("embeddings_act1"),
            _embedding("position_embeddings", context, embed, component="position"),
            _range("embeddings_act2"),
            _norm("LayerNorm", embed),
            _range("output_activation"),
            *ids,
        ),
    )


def _attention(c: BertConfig, embed: Axis) -> Module:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    projections = (_linear(f"self.{name}", heads, embed) for name in ("query", "key", "value"))
    ranges = ("query_activation", "key_activation", "value_activation", "output_activation", "softmax.act")
    parts = (
        *projections,
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
        *(_range(f"self.{name}") for name in ranges),
        *_output(embed, heads),
    )
    return Module("attention", parts, component="attention")


def _output(embed: Axis, inp: Axis) -> Children:
    return (
        _linear("output.dense", embed, inp),
        _range("output.ln_input_act"),
        _norm("output.LayerNorm", embed),
        _range("output.output_activation"),
    )


def _linear(name: str, out: Axis, inp: Axis) -> Module:
    """A linear layer with the integers of its weight and bias, and a scale for each output."""
    plain = linear(name, out, inp, bias=True)
    integers = (buffer("weight_integer", out, inp), buffer("bias_integer", out))
    return plain._replace(children=(*plain.children, *integers, buffer("fc_scaling_factor", out)))


def _embedding(name: str, rows: Axis, width: Axis, *, component: str = "embedding") -> Module:
    """A table with its integers and one scale."""
    plain = embedding(name, rows, width, component=component)
    buffers = (buffer("weight_scaling_factor", ONE), buffer("weight_integer", rows, width))
    return plain._replace(children=(*plain.children, *buffers))


def _norm(name: str, width: Axis) -> Module:
    plain = layer_norm(name, width)
    return plain._replace(children=(*plain.children, buffer("shift", ONE), _range("activation")))


def _range(name: str) -> Module:
    """The least and greatest activation seen, and the scale between them."""
    return Module(name, tuple(_scalar(part) for part in ("x_min", "x_max", "act_scaling_factor")))


def _scalar(name: str) -> Buffer:
    return buffer(name, ONE)


ARCHITECTURES = {"ibert": Architecture(BertConfig, ibert)}


def _ibert(hf: HFConfig) -> Reading:
    return Reading("ibert", roberta_fields(hf, prefix="ibert", id_buffers=("position_ids",)))


HF_READERS = {"ibert": _ibert}
