"""XLM and FlauBERT: post-norm encoders whose parts are listed by kind, not by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.parts import (
    Children,
    id_buffers,
    label_head,
    split_attention,
    squad_head,
    with_heads,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class XLMConfig(Config):
    """Sizes and switches of an XLM.

    `n_langs`: rows of the table of languages, where there is one.
    `summary`: what a summary of the sequence is projected to: "labels", "model" or "" (nothing).
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    vocab_size: Dim
    n_ctx: Dim
    d_ff: Dim | None = None
    d_head: Dim | None = None
    n_langs: Dim | None = None
    summary: str = "labels"
    tie_embeddings: bool = True
    act: str = "gelu"
    task: str = "masked"

    letters = {"n_langs": "Na"}
    meanings = {"n_langs": "languages"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model)
        self.derive_quotient("d_head", "d_model", "n_heads")


def xlm(c: XLMConfig) -> Module:
    """XLM (arXiv:1901.07291), with the tensor names of transformers `modeling_xlm.py`."""
    embed, vocab, context = Axis("embed", c.d_model), Axis("vocab", c.vocab_size), Axis("context", c.n_ctx)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    qkvo = split_attention(c, heads, embed, ("q_lin", "k_lin", "v_lin", "out_lin"))
    ffns = mlp("ffns", Axis("ffn", c.d_ff), embed, act=c.act, names=("lin1", "lin2"))
    languages = (
        (embedding("lang_embeddings", Axis("languages", c.n_langs), embed),) if c.n_langs is not None else ()
    )
    model = (
        embedding("position_embeddings", context, embed, component="position"),
        *languages,
        embedding("embeddings", vocab, embed),
        layer_norm("layer_norm_emb", embed),
        Module("attentions", qkvo, repeat=c.n_layers, component="attention"),
        layer_norm("layer_norm1", embed)._replace(repeat=c.n_layers),
        ffns._replace(repeat=c.n_layers),
        layer_norm("layer_norm2", embed)._replace(repeat=c.n_layers),
        *id_buffers(c, context),
    )
    return with_heads(c, "transformer", model, *task_heads(c, embed, vocab))


def task_heads(c: XLMConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of each task."""
    if c.task in ("masked", "causal"):
        tied_to = "transformer.embeddings.weight" if c.tie_embeddings else None
        return (linear("pred_layer.proj", vocab, embed, bias=True, tied_to=tied_to, component="head"),)
    labels, one = Axis("labels", c.n_labels), Axis("score", 1)
    width = labels if c.summary == "labels" else embed
    summary = (
        (linear("sequence_summary.summary", width, embed, bias=True, component="head"),) if c.summary else ()
    )
    if c.task == "sequence":
        return summary
    if c.task == "choice":
        return *summary, linear("logits_proj", one, labels, bias=True, component="head")
    if c.task == "qa":
        return (Module("qa_outputs", squad_head(embed)),)
    return (label_head(c, embed),)


ARCHITECTURES = {"xlm": Architecture(XLMConfig, xlm)}


def _xlm(hf: HFConfig) -> Reading:
    if hf["asm"] and hf.task in ("masked", "causal"):
        raise InvalidConfig(f"{hf.name}: asm = true, an adaptive softmax, is not known; only asm = false")
    several = hf["n_langs"] > 1 and hf["use_lang_emb"]
    summary = "labels" if hf["summary_proj_to_labels"] else "model"
    return Reading(
        "xlm",
        hf.fill(
            XLMConfig,
            task="qa_simple" if hf.cls.endswith("Simple") else hf.task,
            d_head=None,
            d_ff=None,
            n_langs=hf["n_langs"] if several else None,
            summary=summary if hf["summary_use_proj"] else "",
            act="gelu" if hf["gelu_activation"] else "relu",
        ),
    )


HF_READERS = {"xlm": _xlm, "flaubert": _xlm}
