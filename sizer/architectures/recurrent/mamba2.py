"""Mamba-2: no attention; a short convolution and a scan whose state has a constant size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.parts import short_conv
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear, rms_norm
from sizer.core.tree import Axis, Leaf, Module, Op, Param, State

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class Mamba2Config(Config):
    """Sizes and switches of a Mamba-2."""

    d_model: Dim
    n_layers: Dim
    vocab_size: Dim
    n_heads: Dim
    d_state: Dim = 128
    d_head: Dim | None = None
    d_inner: Dim | None = None
    n_groups: Dim = 8
    d_conv: Dim = 4
    bias: bool = False
    conv_bias: bool = True
    tie_embeddings: bool = False

    letters = {"d_inner": "Di", "n_groups": "G", "d_conv": "Kc"}
    meanings = {
        "d_inner": "width of the mixer",
        "n_groups": "groups of heads that share B and C",
        "d_conv": "width of the convolution",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_inner=2 * self.d_model)
        self.derive_quotient("d_head", "d_inner", "n_heads")


def mamba2(c: Mamba2Config) -> Module:
    """Mamba-2 (Dao and Gu 2024), with the tensor names of `Mamba2ForCausalLM`.

    Source: transformers `modeling_mamba2.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    mixer = mamba2_mixer(
        "mixer",
        embed,
        Axis("ssm_heads", c.d_inner, c.d_head),
        n_heads=c.n_heads,
        n_groups=c.n_groups,
        d_state=c.d_state,
        d_conv=c.d_conv,
        bias=c.bias,
        conv_bias=c.conv_bias,
    )
    backbone = (
        embedding("embeddings", vocab, embed),
        Module("layers", (rms_norm("norm", embed), mixer), repeat=c.n_layers),
        rms_norm("norm_f", embed),
    )
    return with_head(c, backbone, prefix="backbone", embedding="embeddings")


def mamba2_mixer(
    name: str,
    embed: Axis,
    inner: Axis,
    *,
    n_heads: Dim,
    n_groups: Dim,
    d_state: Dim,
    d_conv: Dim,
    bias: bool,
    conv_bias: bool,
    out_bias: bool | None = None,
    gated_norm: bool = True,
    extra: tuple[Leaf, ...] = (),
) -> Module:
    """The mixer: one projection into gate z, x, B, C and Δ; a convolution over x, B and C; a scan.

    `out_bias`: that of the last projection, where it is not the first one's. `extra`: other leaves.
    Decoding keeps the last inputs of the convolution and a state `[heads, width, d_state]` in fp32.
    """
    heads = Axis("ssm_heads", n_heads)
    convolved = inner + Axis("groups", 2 * n_groups * d_state)
    return Module(
        name,
        (
            Param("dt_bias", (heads,)),
            Param("A_log", (heads,)),
            Param("D", (heads,)),
            *extra,
            linear("in_proj", inner + convolved + heads, embed, bias=bias),
            short_conv("conv1d", convolved, d_conv, bias=conv_bias),
            Op("scan", "ssd", {"width": inner.size, "d_state": d_state}),
            State("ssm", per_sequence=inner.size * d_state, dtype="fp32"),
            *((rms_norm("norm", inner),) if gated_norm else ()),
            linear("out_proj", embed, inner, bias=bias if out_bias is None else out_bias),
        ),
        component="mixer",
    )


ARCHITECTURES = {"mamba2": Architecture(Mamba2Config, mamba2)}


def _mamba2(hf: HFConfig) -> Reading:
    given = hf.fill(
        Mamba2Config,
        d_inner=int(hf["expand"] * hf["hidden_size"]),
        d_conv=hf["conv_kernel"],
        bias=hf["use_bias"],
        conv_bias=hf["use_conv_bias"],
    )
    return Reading("mamba2", given)


HF_READERS = {"mamba2": _mamba2}
