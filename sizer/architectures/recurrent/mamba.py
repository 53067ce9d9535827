"""Mamba: no attention; a short convolution and a selective scan whose state has a constant size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.parts import short_conv
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, linear, rms_norm
from sizer.core.tree import Axis, Module, Op, Param, State

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class MambaConfig(Config):
    """Sizes and switches of a Mamba.

    `scan_norms`: Falcon-Mamba's norms of Δ, B and C, which have no weight to learn.
    """

    d_model: Dim
    n_layers: Dim
    vocab_size: Dim
    dt_rank: Dim
    d_state: Dim = 16
    d_inner: Dim | None = None
    d_conv: Dim = 4
    bias: bool = False
    conv_bias: bool = True
    scan_norms: bool = False
    tie_embeddings: bool = True

    letters = {"d_inner": "Di", "d_conv": "Kc", "dt_rank": "Rt"}
    meanings = {
        "d_inner": "width of the mixer",
        "d_conv": "width of the convolution",
        "dt_rank": "rank of the time step",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_inner=2 * self.d_model)


def mamba(c: MambaConfig) -> Module:
    """Mamba (Gu and Dao 2023), with the tensor names of `MambaForCausalLM`.

    Source: transformers `modeling_mamba.py`, `modeling_falcon_mamba.py`.
    """
    embed, inner, state = Axis("embed", c.d_model), Axis("inner", c.d_inner), Axis("state", c.d_state)
    # The weightless norms hold ones, which are kept in memory and saved in no file.
    norms = zip(("dt", "b", "c"), (inner, state, state), strict=True)
    weightless = c.scan_norms and c.layout == "transformers"
    mixer = mamba_mixer(
        "mixer",
        embed,
        inner,
        d_state=c.d_state,
        d_conv=c.d_conv,
        dt_rank=c.dt_rank,
        bias=c.bias,
        conv_bias=c.conv_bias,
        norms=tuple(
            Module(f"{x}_layernorm", (buffer("weight", width, persistent=False),), component="norm")
            for x, width in norms
            if weightless
        ),
    )
    backbone = (
        embedding("embeddings", Axis("vocab", c.vocab_size), embed),
        Module("layers", (rms_norm("norm", embed), mixer), repeat=c.n_layers),
        rms_norm("norm_f", embed),
    )
    return with_head(c, backbone, prefix="backbone", embedding="embeddings")


def mamba_mixer(
    name: str,
    embed: Axis,
    inner: Axis,
    *,
    d_state: Dim,
    d_conv: Dim,
    dt_rank: Dim,
    bias: bool,
    conv_bias: bool,
    norms: tuple[Module, ...] = (),
) -> Module:
    """The mixer: x and a gate z; a convolution over x; Δ, B and C from it; a scan.

    `norms`: those of Δ, B and C. Decoding keeps the last inputs of the convolution and a state
    `[width, state]` in fp32.
    """
    state, rank = Axis("state", d_state), Axis("dt_rank", dt_rank)
    return Module(
        name,
        (
            Param("A_log", (inner, state)),
            Param("D", (inner,)),
            linear("in_proj", 2 * inner, embed, bias=bias),
            short_conv("conv1d", inner, d_conv, bias=conv_bias),
            linear("x_proj", rank + 2 * state, inner),
            *norms,
            linear("dt_proj", inner, rank, bias=True),
            *selective_scan(inner.size, d_state),
            linear("out_proj", embed, inner, bias=bias),
        ),
        component="mixer",
    )


def selective_scan(width: Dim, d_state: Dim) -> tuple[Op, State]:
    """Mamba's scan: a state of `d_state` for each channel, kept in fp32."""
    scan = Op("scan", "scan", {"width": width, "d_state": d_state})
    return scan, State("ssm", per_sequence=width * d_state, dtype="fp32")


def time_step_rank(hf: HFConfig, key: str) -> int:
    """The rank of the time step: a sixteenth of the width, rounded up, unless the file has a number."""
    rank = hf.in_file(key, "auto")
    return -(-int(hf["hidden_size"]) // 16) if rank == "auto" else int(rank)


ARCHITECTURES = {"mamba": Architecture(MambaConfig, mamba)}


def _mamba(hf: HFConfig) -> Reading:
    given = hf.fill(
        MambaConfig,
        d_inner=hf.in_file("intermediate_size") or int(hf["expand"] * hf["hidden_size"]),
        d_conv=hf["conv_kernel"],
        dt_rank=time_step_rank(hf, "time_step_rank"),
        bias=hf["use_bias"],
        conv_bias=hf["use_conv_bias"],
        scan_norms=hf.model_type == "falcon_mamba",
    )
    return Reading("mamba", given)


HF_READERS = {"mamba": _mamba, "falcon_mamba": _mamba}
