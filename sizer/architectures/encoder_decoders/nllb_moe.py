"""NLLB-MoE: an M2M-100 whose every fourth block is a mixture of experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoder_decoders.bart import BartConfig, bart
from sizer.architectures.encoder_decoders.bart_layers import attention
from sizer.architectures.encoder_decoders.bart_types import sizes
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear, mlp
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class NllbMoeConfig(BartConfig):
    """Sizes and switches of an NLLB-MoE.

    `encoder_kinds`, `decoder_kinds`: "dense" or "sparse" for each block.
    """

    n_experts: Dim
    top_k: Dim = 2
    encoder_kinds: Pattern
    decoder_kinds: Pattern
    router_bias: bool = False

    letters = {
        **BartConfig.letters,
        "encoder_kinds": "L",
        "decoder_kinds": "M",
    }


def nllb_moe(c: NllbMoeConfig) -> Module:
    """NLLB-200 (arXiv:2207.04672), with the tensor names of `NllbMoeForConditionalGeneration`.

    Source: transformers `modeling_nllb_moe.py`.
    """
    return bart(c, layers=(_encoder_layer, _decoder_layer))


def _encoder_layer(c: NllbMoeConfig, embed: Axis) -> Module:
    return Module(
        "layers",
        (
            attention("self_attn", embed, n=c.n_heads, d_head=c.d_head, cached=False),
            layer_norm("self_attn_layer_norm", embed),
            *_feed_forward(c, c.d_ff, embed, c.encoder_kinds),
            layer_norm("ff_layer_norm", embed),
        ),
        repeat=c.n_layers,
    )


def _decoder_layer(c: NllbMoeConfig, embed: Axis) -> Module:
    n, d_head = c.n_decoder_heads, c.d_decoder_head
    return Module(
        "layers",
        (
            attention("self_attn", embed, n=n, d_head=d_head),
            layer_norm("self_attn_layer_norm", embed),
            attention("cross_attention", embed, n=n, d_head=d_head, source=embed),
            layer_norm("cross_attention_layer_norm", embed),
            *_feed_forward(c, c.d_ff_decoder, embed, c.decoder_kinds),
            layer_norm("ff_layer_norm", embed),
        ),
        repeat=c.n_decoder_layers,
    )


def _feed_forward(c: NllbMoeConfig, width: Dim, embed: Axis, kinds: Pattern) -> tuple[Module, Module]:
    """Dense in some blocks; in the others two of the experts, each with biases."""
    ffn = Axis("ffn", width)
    dense = mlp("ffn", ffn, embed, act=c.act, names=("fc1", "fc2"))
    expert = mlp(
        "experts.expert_{}", ffn, embed, act=c.act, names=("fc1", "fc2"), component="experts"
    )._replace(repeat=c.n_experts, active=c.top_k)
    experts = Axis("expert", c.n_experts)
    router = linear("router.classifier", experts, embed, bias=c.router_bias, component="router")
    return (
        dense._replace(at=kinds.layers("dense")),
        Module("ffn", (router, expert), at=kinds.layers("sparse")),
    )


ARCHITECTURES = {"nllb_moe": Architecture(NllbMoeConfig, nllb_moe)}


def _nllb_moe(hf: HFConfig) -> Reading:
    given = hf.fill(
        NllbMoeConfig,
        **sizes(hf),
        encoder_kinds=_kinds(hf["encoder_layers"], hf["encoder_sparse_step"]),
        decoder_kinds=_kinds(hf["decoder_layers"], hf["decoder_sparse_step"]),
        positions="buffer",
        embedding_norm=False,
        final_norm=True,
        logits_bias=False,
    )
    return Reading("nllb_moe", given)


def _kinds(n_layers: int, step: int) -> Pattern:
    """The last block of every `step` is sparse; with a step of 0 none is."""
    return Pattern(tuple("sparse" if step > 0 and (i + 1) % step == 0 else "dense" for i in range(n_layers)))


HF_READERS = {"nllb-moe": _nllb_moe}
