"""SqueezeBERT: a BERT whose linear layers are grouped convolutions of width one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.parts import (
    ONE,
    Children,
    bert_embeddings,
    label_head,
    masked_head,
    pooler,
    with_heads,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, layer_norm
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class SqueezeBertConfig(Config):
    """Sizes and switches of a SqueezeBERT.

    `…_groups`: the groups of each layer; `…_inputs`: inputs of one of its outputs, a group's share.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_ctx: Dim
    n_token_types: Dim = 2
    q_groups: Dim = 4
    k_groups: Dim = 4
    v_groups: Dim = 4
    post_attention_groups: Dim = 1
    intermediate_groups: Dim = 4
    output_groups: Dim = 4
    d_head: Dim | None = None
    q_inputs: Dim | None = None
    k_inputs: Dim | None = None
    v_inputs: Dim | None = None
    post_attention_inputs: Dim | None = None
    intermediate_inputs: Dim | None = None
    output_inputs: Dim | None = None
    tie_embeddings: bool = True
    act: str = "gelu"
    task: str = "masked"

    letters = {
        "n_token_types": "Nt",
        "q_groups": "Gq",
        "k_groups": "Gk",
        "v_groups": "Gv",
        "post_attention_groups": "Ga",
        "intermediate_groups": "Gi",
        "output_groups": "Go",
    }
    meanings = {
        "n_token_types": "token types",
        "q_groups": "groups of the queries",
        "k_groups": "groups of the keys",
        "v_groups": "groups of the values",
        "post_attention_groups": "groups after attention",
        "intermediate_groups": "groups of the MLP's first layer",
        "output_groups": "groups of the MLP's second layer",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")
        for part in ("q", "k", "v", "post_attention", "intermediate", "output"):
            whole = "d_ff" if part == "output" else "d_model"
            names = f"{whole} / {part}_groups"
            share = divide(getattr(self, whole), getattr(self, f"{part}_groups"), names=names)
            self.derive(**{f"{part}_inputs": share})


def squeezebert(c: SqueezeBertConfig) -> Module:
    """SqueezeBERT (arXiv:2006.11316), with the tensor names of transformers `modeling_squeezebert.py`."""
    embed, vocab, ffn = Axis("embed", c.d_model), Axis("vocab", c.vocab_size), Axis("ffn", c.d_ff)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    attention = Module(
        "attention",
        (
            grouped("query", heads, c.q_inputs),
            grouped("key", heads, c.k_inputs),
            grouped("value", heads, c.v_inputs),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
        ),
        component="attention",
    )
    block = Module(
        "encoder.layers",
        (
            attention,
            grouped("post_attention.conv1d", embed, c.post_attention_inputs)._replace(component="attention"),
            layer_norm("post_attention.layernorm", embed),
            grouped("intermediate.conv1d", ffn, c.intermediate_inputs)._replace(component="mlp"),
            Op("act", c.act, {"width": c.d_ff}, component="mlp"),
            grouped("output.conv1d", embed, c.output_inputs)._replace(component="mlp"),
            layer_norm("output.layernorm", embed),
        ),
        repeat=c.n_layers,
    )
    context, types = Axis("context", c.n_ctx), Axis("types", c.n_token_types)
    embeddings = bert_embeddings(c, vocab, embed, positions=context, types=types)
    return with_heads(c, "transformer", (embeddings, block, pooler(embed)), *task_heads(c, embed, vocab))


def grouped(name: str, out: Axis, inputs: Dim) -> Module:
    """A linear layer in groups, stored as a convolution: `weight [out, in / groups, 1]`."""
    weight = Param("weight", (out, Axis("group", inputs), ONE), "matmul")
    return Module(name, (weight, Param("bias", (out,))), kind="linear")


def task_heads(c: SqueezeBertConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of each task."""
    if c.task == "masked":
        table = "transformer.embeddings.word_embeddings"
        return (masked_head(c, "cls.predictions", vocab, embed, table=table),)
    return (label_head(c, embed),)


ARCHITECTURES = {"squeezebert": Architecture(SqueezeBertConfig, squeezebert)}


def _squeezebert(hf: HFConfig) -> Reading:
    return Reading("squeezebert", hf.fill(SqueezeBertConfig, d_head=None, act=hf["hidden_act"]))


HF_READERS = {"squeezebert": _squeezebert}
