"""Funnel Transformer: blocks of layers between which the sequence is pooled to half its length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.parts import Children, label_head, with_heads
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, layer_norm, linear, mlp
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class FunnelConfig(Config):
    """Sizes and switches of a Funnel Transformer.

    `block_sizes`: layers of each block; `block_repeats`: how often each of them runs.
    `decoder`: layers that bring the sequence back to its length. A pooled sequence counts at its
    full length in FLOPs, an upper bound.
    """

    d_model: Dim
    n_heads: Dim
    d_head: Dim
    d_ff: Dim
    vocab_size: Dim
    block_sizes: PerLayer
    block_repeats: PerLayer | None = None
    n_decoder_layers: Dim = 2
    decoder: bool = True
    tie_embeddings: bool = True
    act: str = "gelu_new"
    task: str = "masked"

    letters = {"block_sizes": "L", "block_repeats": "Nu", "n_decoder_layers": "M"}
    meanings = {"block_sizes": "layers of a block", "n_decoder_layers": "decoder layers"}
    may_be_zero = frozenset({"n_decoder_layers"})

    def __post_init__(self) -> None:
        check_sizes(self)
        repeats = self.block_repeats
        if repeats is not None and len(repeats.values) != len(self.block_sizes.values):
            raise InvalidConfig(
                f"block_repeats lists {len(repeats.values)} blocks and block_sizes "
                f"{len(self.block_sizes.values)}; give one number a block"
            )


def funnel(c: FunnelConfig) -> Module:
    """Funnel Transformer (arXiv:2006.03236), with the tensor names of transformers `modeling_funnel.py`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    repeats = c.block_repeats.sizes() if c.block_repeats is not None else [None] * len(c.block_sizes.values)
    blocks = tuple(
        Module(f"encoder.blocks.{i}", layer(c, embed), repeat=size, uses=uses)
        for i, (size, uses) in enumerate(zip(c.block_sizes.sizes(), repeats, strict=True))
    )
    decoder = (Module("decoder.layers", layer(c, embed), repeat=c.n_decoder_layers),) if c.decoder else ()
    model = (
        embedding("embeddings.word_embeddings", vocab, embed),
        layer_norm("embeddings.layer_norm", embed),
        *blocks,
        *decoder,
    )
    return with_heads(c, "funnel", model, *heads(c, embed, vocab))


def layer(c: FunnelConfig, embed: Axis) -> Children:
    """Attention with relative positions and segments, and an MLP."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    head = (Axis("heads", c.n_heads), Axis("head", c.d_head))
    attention = Module(
        "attention",
        (
            linear("q_head", heads, embed),
            linear("k_head", heads, embed, bias=True),
            linear("v_head", heads, embed, bias=True),
            *(Param(name, head) for name in ("r_w_bias", "r_r_bias", "r_s_bias")),
            Param("r_kernel", (embed, *head), "matmul"),
            Param("seg_embed", (Axis("segments", 2), *head)),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
            linear("post_proj", embed, heads, bias=True),
            layer_norm("layer_norm", embed),
        ),
        component="attention",
    )
    ffn = mlp("ffn", Axis("ffn", c.d_ff), embed, act=c.act, names=("linear_1", "linear_2"))
    return attention, ffn, layer_norm("ffn.layer_norm", embed)


def heads(c: FunnelConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of each task; pretraining tells true tokens from replaced ones."""
    if c.task == "masked":
        tied_to = "funnel.embeddings.word_embeddings.weight" if c.tie_embeddings else None
        return (linear("lm_head", vocab, embed, bias=True, tied_to=tied_to, component="head"),)
    if c.task == "pretraining":
        name = "discriminator_predictions"
        return (
            linear(f"{name}.dense", embed, embed, bias=True, component="head"),
            linear(f"{name}.dense_prediction", Axis("score", 1), embed, bias=True, component="head"),
        )
    if c.task in ("sequence", "choice"):
        hidden = linear("classifier.linear_hidden", embed, embed, bias=True, component="head")
        return hidden, label_head(c, embed, name="classifier.linear_out")
    return (label_head(c, embed),)


ARCHITECTURES = {"funnel": Architecture(FunnelConfig, funnel)}


def _funnel(hf: HFConfig) -> Reading:
    repeats = hf["block_repeats"]
    return Reading(
        "funnel",
        hf.fill(
            FunnelConfig,
            d_ff=hf["d_inner"],
            block_sizes=PerLayer(tuple(hf["block_sizes"])),
            block_repeats=None if repeats is None else PerLayer(tuple(repeats)),
            n_decoder_layers=hf["num_decoder_layers"],
            decoder=hf.cls != "FunnelBaseModel" and hf.task not in ("sequence", "choice"),
            act=hf["hidden_act"],
        ),
    )


HF_READERS = {"funnel": _funnel}
