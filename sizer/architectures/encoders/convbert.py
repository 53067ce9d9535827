"""ConvBERT: half of the heads are replaced by convolutions whose kernels depend on the token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import BertConfig, embeddings, feed_forward, stack
from sizer.architectures.encoders.heads import Children, with_head
from sizer.architectures.encoders.narrow import summary_fields
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class ConvBertConfig(BertConfig):
    """Sizes and switches of a ConvBERT.

    `n_heads`: the heads that are left, half as wide together as the model. `d_conv`: width of the
    convolutions. `n_groups`: the MLP's matrices are cut into blocks along the diagonal.
    """

    d_conv: Dim = 9
    n_groups: Dim | None = None
    d_group: Dim | None = None
    d_ff_group: Dim | None = None

    letters = {**BertConfig.letters, "d_conv": "Kc", "n_groups": "G", "d_group": "Dg", "d_ff_group": "Fg"}
    meanings = {
        **BertConfig.meanings,
        "n_heads": "heads of attention, and as many of convolution",
        "d_conv": "width of the convolutions",
        "n_groups": "groups of the MLP",
        "d_group": "width of the residual stream in a group",
        "d_ff_group": "hidden width of a group",
    }

    def __post_init__(self) -> None:
        self.derive(d_head=divide(self.d_model, 2 * self.n_heads, names="d_model / 2·n_heads"))
        super().__post_init__()
        if self.n_groups is not None:
            self.derive(d_group=divide(self.d_model, self.n_groups, names="d_model / n_groups"))
            self.derive(d_ff_group=divide(self.d_ff, self.n_groups, names="d_ff / n_groups"))


def convbert(c: ConvBertConfig) -> Module:
    """ConvBERT (Jiang et al. 2020), with the tensor names of `ConvBertForMaskedLM`.

    Source: transformers `modeling_convbert.py`.
    """
    cross = (_mixed_attention(c, "crossattention"),) if c.cross_attention else ()
    mlp = feed_forward(c) if c.n_groups is None else _grouped_mlp(c)
    block = (_mixed_attention(c, "attention"), *cross, *mlp)
    return with_head(c, (*embeddings(c), *stack(c, block)))


def _mixed_attention(c: ConvBertConfig, name: str) -> Module:
    """Attention and convolution side by side, each over half of the width."""
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    kernels = Axis("kernels", c.n_heads * c.d_conv)
    parts = (
        linear("self.query", heads, embed, bias=True),
        linear("self.key", heads, embed, bias=True),
        linear("self.value", heads, embed, bias=True),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
        _separable_convolution(c, embed, heads),
        linear("self.conv_kernel_layer", kernels, heads, bias=True),
        linear("self.conv_out_layer", heads, embed, bias=True),
        Op("mixing", "conv", {"channels": heads.size, "kernel": c.d_conv}),
        linear("output.dense", embed, 2 * heads, bias=True),
        layer_norm("output.LayerNorm", embed),
    )
    return Module(name, parts, component="attention")


def _separable_convolution(c: ConvBertConfig, embed: Axis, heads: Axis) -> Module:
    one, kernel = Axis("one", 1), Axis("kernel", c.d_conv)
    return Module(
        "self.key_conv_attn_layer",
        (
            Param("bias", (heads, one)),
            Param("depthwise.weight", (embed, one, kernel)),
            Op("depthwise", "conv", {"channels": c.d_model, "kernel": c.d_conv}),
            Param("pointwise.weight", (heads, embed, one), "matmul"),
        ),
    )


def _grouped_mlp(c: ConvBertConfig) -> Children:
    groups, inner, outer = Axis("groups", c.n_groups), Axis("ffn", c.d_ff_group), Axis("embed", c.d_group)
    embed, ffn = Axis("embed", c.d_model), Axis("ffn", c.d_ff)
    up = (Param("weight", (groups, outer, inner), "matmul"), Param("bias", (ffn,)))
    down = (Param("weight", (groups, inner, outer), "matmul"), Param("bias", (embed,)))
    return (
        Module("intermediate.dense", up, component="mlp"),
        Op("act", c.act, {"width": c.d_ff}, component="mlp"),
        Module("output.dense", down, component="mlp"),
        layer_norm("output.LayerNorm", embed),
    )


ARCHITECTURES = {"convbert": Architecture(ConvBertConfig, convbert)}


def _convbert(hf: HFConfig) -> Reading:
    given = {
        "prefix": "convbert",
        "head": "electra",
        "n_heads": max(hf["num_attention_heads"] // hf["head_ratio"], 1),
        "d_conv": hf["conv_kernel_size"],
        "n_groups": None if hf["num_groups"] == 1 else hf["num_groups"],
    }
    return Reading("convbert", summary_fields(hf, ConvBertConfig, **given))


HF_READERS = {"convbert": _convbert}
