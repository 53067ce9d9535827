"""XLNet: two-stream attention over permutations, with relative positions of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.parts import ONE, Children, label_head, squad_head, with_heads
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Op, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class XLNetConfig(Config):
    """Sizes and switches of an XLNet.

    `summary`: what a summary of the sequence is projected to: "model", "labels" or "" (nothing).
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    d_head: Dim | None = None
    summary: str = "model"
    tie_embeddings: bool = True
    act: str = "gelu"

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def xlnet(c: XLNetConfig) -> Module:
    """XLNet (arXiv:1906.08237), with the tensor names of transformers `modeling_xlnet.py`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    ffn = mlp("ff", Axis("ffn", c.d_ff), embed, act=c.act, names=("layer_1", "layer_2"))
    block = Module("layer", (attention(c, embed), ffn, layer_norm("ff.layer_norm", embed)), repeat=c.n_layers)
    model = (
        embedding("word_embedding", vocab, embed),
        Param("mask_emb", (ONE, ONE, embed), component="embedding"),
        block,
    )
    return with_heads(c, "transformer", model, *heads(c, embed, vocab))


def attention(c: XLNetConfig, embed: Axis) -> Module:
    """Attention to contents, relative positions and segments; every matrix is `[D, H, Dh]`."""
    head = (Axis("heads", c.n_heads), Axis("head", c.d_head))
    return Module(
        "rel_attn",
        (
            *(Param(name, (embed, *head), "matmul") for name in "qkvor"),
            *(Param(name, head) for name in ("r_r_bias", "r_s_bias", "r_w_bias")),
            Param("seg_embed", (Axis("segments", 2), *head)),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
            Op("positions", "relative", {}),
            layer_norm("layer_norm", embed),
        ),
        component="attention",
    )


def heads(c: XLNetConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of each task."""
    if c.task in ("causal", "pretraining"):
        tied_to = "transformer.word_embedding.weight" if c.tie_embeddings else None
        return (linear("lm_loss", vocab, embed, bias=True, tied_to=tied_to, component="head"),)
    if c.task == "qa":
        return squad_head(embed)
    if c.task in ("sequence", "choice"):
        width = Axis("labels", c.n_labels) if c.summary == "labels" else embed
        summary = linear("sequence_summary.summary", width, embed, bias=True, component="head")
        return (*((summary,) if c.summary else ()), label_head(c, embed, name="logits_proj"))
    return (label_head(c, embed),)


ARCHITECTURES = {"xlnet": Architecture(XLNetConfig, xlnet)}


def _xlnet(hf: HFConfig) -> Reading:
    key = "summary_proj_to_labels"
    to_labels = hf.given(key) and hf[key]
    summary = "labels" if to_labels else "model"
    return Reading(
        "xlnet",
        hf.fill(
            XLNetConfig,
            task="qa_simple" if hf.cls.endswith("Simple") else hf.task,
            d_head=hf["d_head"] or None,
            d_ff=hf["d_inner"],
            summary=summary if hf["summary_use_proj"] else "",
            act=hf["ff_activation"],
        ),
    )


HF_READERS = {"xlnet": _xlnet}
