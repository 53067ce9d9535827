"""RecurrentGemma (Griffin): a gated linear recurrence in most layers, local attention in the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, attention, feed_forward, rotary_buffers
from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.parts import (
    check_layers,
    in_layers,
    short_conv,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, gate_op, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Op, Param, State

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class RecurrentGemmaConfig(DecoderConfig):
    """Sizes and switches of a RecurrentGemma.

    `layers`: "linear" (the recurrence) or "window" (attention). The gates of the recurrence are
    block-diagonal, a block of `d_block` for each of the query heads.
    """

    layers: Pattern
    d_recurrent: Dim | None = None
    d_block: Dim | None = None
    d_conv: Dim = 4
    mlp_bias: bool = True
    o_bias: bool = True
    act: str = "gelu_pytorch_tanh"
    tie_embeddings: bool = True

    letters = {**DecoderConfig.letters, "d_recurrent": "Di", "d_block": "Db", "d_conv": "Kc"}
    meanings = {
        **DecoderConfig.meanings,
        "d_recurrent": "width of the recurrence",
        "d_block": "width of a block of its gates",
        "d_conv": "width of the convolution",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.derive(d_recurrent=self.d_model)
        self.derive_quotient("d_block", "d_recurrent", "n_heads")
        check_layers(self.n_layers, self.layers)


def recurrent_gemma(c: RecurrentGemmaConfig) -> Module:
    """RecurrentGemma (arXiv:2404.07839), with the tensor names of `RecurrentGemmaForCausalLM`.

    Source: transformers `modeling_recurrent_gemma.py`.
    """
    embed = Axis("embed", c.d_model)
    attends = attention(c, "temporal_block")
    attends = attends._replace(children=(*attends.children, *rotary_buffers(c.d_rotary, layout=c.layout)))
    block = Module(
        "layers",
        (
            rms_norm("temporal_pre_norm", embed),
            *in_layers(c.layers, _recurrence(c, embed), "linear"),
            *in_layers(c.layers, attends, "window"),
            rms_norm("channel_pre_norm", embed),
            feed_forward(c)._replace(name="mlp_block"),
        ),
        repeat=c.n_layers,
    )
    scale = (buffer("normalizer", persistent=False),) if c.layout == "transformers" else ()
    vocab = Axis("vocab", c.vocab_size)
    model = (embedding("embed_tokens", vocab, embed), *scale, block, rms_norm("final_norm", embed))
    return with_head(c, model)


def _recurrence(c: RecurrentGemmaConfig, embed: Axis) -> Module:
    """`out(gelu(y) · recurrence(conv(x)))`; decoding keeps one fp32 state a channel."""
    inner, heads, block = Axis("inner", c.d_recurrent), Axis("heads", c.n_heads), Axis("block", c.d_block)
    # One input less than the kernel is wide: the current one is at hand.
    conv = short_conv("conv_1d", inner, c.d_conv, bias=True, kept=c.d_conv - 1)
    gates = tuple(
        param
        for gate in ("input_gate", "recurrent_gate")
        for param in (
            Param(f"{gate}_weight", (heads, block, block), "matmul"),
            Param(f"{gate}_bias", (heads, block)),
        )
    )
    recurrence = Module(
        "rg_lru",
        (
            Param("recurrent_param", (inner,)),
            *gates,
            Op("scan", "rg_lru", {"width": c.d_recurrent}),
            State("ssm", per_sequence=c.d_recurrent, dtype="fp32"),
        ),
    )
    return Module(
        "temporal_block",
        (
            linear("linear_y", inner, embed, bias=True),
            linear("linear_x", inner, embed, bias=True),
            conv,
            recurrence,
            gate_op(c.act, inner.size),
            linear("linear_out", embed, inner, bias=True),
        ),
        component="mixer",
    )


ARCHITECTURES = {"recurrent_gemma": Architecture(RecurrentGemmaConfig, recurrent_gemma)}


def _recurrent_gemma(hf: HFConfig) -> Reading:
    kinds = ("linear" if kind == "recurrent" else "window" for kind in hf["block_types"])
    cycle, n_layers = tuple(kinds), hf["num_hidden_layers"]
    d_head = hf.in_file("head_dim") or hf["hidden_size"] // hf["num_attention_heads"]
    given = hf.fill(
        RecurrentGemmaConfig,
        layers=Pattern(tuple(cycle[i % len(cycle)] for i in range(n_layers))),
        d_recurrent=hf["lru_width"],
        d_conv=hf["conv1d_width"],
        d_ff=hf["intermediate_size"] // 2,
        window=hf["attention_window_size"],
        qkv_bias=hf["attention_bias"],
        act=hf["hidden_activation"],
        d_rotary=rotary_width(hf, d_head, default=0.5),
    )
    return Reading("recurrent_gemma", given)


HF_READERS = {"recurrent_gemma": _recurrent_gemma}
