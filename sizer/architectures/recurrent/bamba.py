"""Bamba, Granite 4 and Falcon-H1: Mamba-2 mixers between the attention layers, or beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import (
    DecoderConfig,
    attention,
    feed_forward,
    rotary_buffers,
)
from sizer.architectures.decoders.reading import rope_parameters, rotary_width
from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.mamba2 import mamba2_mixer
from sizer.architectures.recurrent.parts import (
    check_layers,
    in_layers,
    layer_pattern,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, gate_op, linear, rms_norm, stacked
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class BambaConfig(DecoderConfig):
    """Sizes and switches of a decoder with Mamba-2 mixers.

    `layers`: "linear" (a mixer) or "full" (attention); without it every layer has both.
    `gated_norm`: the mixer's norm before its last projection. `mup`: Falcon-H1's vector of scales.
    `fused_mlp`: Granite's MLP, which is always on, and whose gate and input are one matrix;
    `n_experts`: the routed experts beside it.
    `final_norm`, `rotary`: the name of the last norm; whether there are rotary positions.
    """

    layers: Pattern | None = None
    n_ssm_heads: Dim
    d_inner: Dim
    d_state: Dim
    n_groups: Dim = 1
    d_conv: Dim = 4
    ssm_bias: bool = False
    ssm_out_bias: bool = False
    conv_bias: bool = True
    gated_norm: bool = True
    mup: bool = False
    fused_mlp: bool = False
    n_experts: Dim | None = None
    top_k: Dim | None = None
    d_ff_expert: Dim | None = None
    final_norm: str = "final_layernorm"
    rotary: bool = True

    letters = {
        **DecoderConfig.letters,
        "n_ssm_heads": "Hs",
        "d_inner": "Di",
        "n_groups": "G",
        "d_conv": "Kc",
    }
    meanings = {
        **DecoderConfig.meanings,
        "n_ssm_heads": "heads of the mixer",
        "d_inner": "width of the mixer",
        "n_groups": "groups of heads that share B and C",
        "d_conv": "width of the convolution",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layers(self.n_layers, self.layers)


def bamba(c: BambaConfig) -> Module:
    """Bamba, with the tensor names of `BambaForCausalLM`.

    Source: transformers `modeling_bamba.py`, `modeling_granitemoehybrid.py`, `modeling_falcon_h1.py`.
    """
    embed = Axis("embed", c.d_model)
    before, _, before_mlp, _ = c.norms
    if c.layers is None:
        mixing: tuple[Module, ...] = (_mixer(c, embed), attention(c))
    else:
        mixing = (
            *in_layers(c.layers, _mixer(c, embed), "linear"),
            *in_layers(c.layers, attention(c), "full"),
        )
    block = Module(
        "layers",
        (rms_norm(before, embed), *mixing, rms_norm(before_mlp, embed), *_mlps(c, embed)),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        block,
        rms_norm(c.final_norm, embed),
        *(rotary_buffers(c.d_rotary, layout=c.layout) if c.rotary else ()),
    )
    return with_head(c, model)


def _mixer(c: BambaConfig, embed: Axis) -> Module:
    projected = Axis("inner", 2 * c.d_inner + 2 * c.n_groups * c.d_state + c.n_ssm_heads)
    one = Axis("one", 1)
    scales = (
        (buffer("mup_vector", one, one, projected, persistent=False),)
        if c.mup and c.layout == "transformers"
        else ()
    )
    return mamba2_mixer(
        "mamba",
        embed,
        Axis("ssm_heads", c.d_inner),
        n_heads=c.n_ssm_heads,
        n_groups=c.n_groups,
        d_state=c.d_state,
        d_conv=c.d_conv,
        bias=c.ssm_bias,
        out_bias=c.ssm_out_bias,
        conv_bias=c.conv_bias,
        gated_norm=c.gated_norm,
        extra=scales,
    )


def _mlps(c: BambaConfig, embed: Axis) -> tuple[Module, ...]:
    if not c.fused_mlp:
        return (feed_forward(c)._replace(name="feed_forward"),)
    ffn = Axis("ffn", c.d_ff)
    always_on = Module(
        "shared_mlp",
        (
            linear("input_linear", 2 * ffn, embed),
            gate_op(c.act, c.d_ff),
            linear("output_linear", embed, ffn),
        ),
        component="mlp" if c.n_experts is None else "experts",
    )
    return (always_on,) if c.n_experts is None else (_experts(c, embed), always_on)


def _experts(c: BambaConfig, embed: Axis) -> Module:
    """Granite's routed experts, whose tensors are stacked in its checkpoints too."""
    experts, ffn = Axis("expert", c.n_experts), Axis("expert_ffn", c.d_ff_expert)
    router, up, down = (
        ("router.layer", "input_linear.weight", "output_linear.weight")
        if c.layout == "checkpoint"
        else ("router", "experts.gate_up_proj", "experts.down_proj")
    )
    return Module(
        "block_sparse_moe",
        (
            linear(router, experts, embed, component="router"),
            gate_op(c.act, ffn.size * c.top_k),
            stacked(up, experts, c.top_k, 2 * ffn, embed),
            stacked(down, experts, c.top_k, embed, ffn),
        ),
        component="experts",
    )


ARCHITECTURES = {"bamba": Architecture(BambaConfig, bamba)}


def _mamba_sizes(hf: HFConfig) -> dict[str, Any]:
    bias = hf["attention_bias"]
    return {
        "qkv_bias": bias,
        "o_bias": bias,
        "window": None,
        "act": hf["hidden_act"],
        "n_ssm_heads": hf["mamba_n_heads"],
        "d_inner": int(hf["mamba_expand"] * hf["hidden_size"]),
        "n_groups": hf["mamba_n_groups"],
        "d_conv": hf["mamba_d_conv"],
        "ssm_bias": hf["mamba_proj_bias"],
        "ssm_out_bias": hf["mamba_proj_bias"],
        "conv_bias": hf["mamba_conv_bias"],
        "norms": ("input_layernorm", "", "pre_ff_layernorm", ""),
    }


def _d_head(hf: HFConfig) -> int:
    return int(hf.in_file("head_dim") or hf["hidden_size"] // hf["num_attention_heads"])


def _bamba(hf: HFConfig) -> Reading:
    attends = hf["attn_layer_indices"] or ()
    kinds = tuple("full" if i in attends else "linear" for i in range(hf["num_hidden_layers"]))
    # Only a fraction among the rotary settings is heeded; beside them, 0.5 overwrites it.
    rope = {"partial_rotary_factor": 0.5, **rope_parameters(hf)}
    given = hf.fill(
        BambaConfig,
        **_mamba_sizes(hf),
        layers=Pattern(kinds),
        d_rotary=rotary_width(hf, _d_head(hf), default=0.5, rope=rope),
        mlp_bias=hf["mlp_bias"],
    )
    return Reading("bamba", given)


def _falcon_h1(hf: HFConfig) -> Reading:
    sizes = _mamba_sizes(hf)
    given = hf.fill(
        BambaConfig,
        **{
            **sizes,
            "d_inner": sizes["d_inner"] if hf["mamba_d_ssm"] is None else hf["mamba_d_ssm"],
            "ssm_out_bias": hf["projectors_bias"],
        },
        gated_norm=hf["mamba_rms_norm"],
        mup=True,
        d_rotary=rotary_width(hf, _d_head(hf)),
        mlp_bias=hf["mlp_bias"],
    )
    return Reading("bamba", given)


def _granite(hf: HFConfig) -> Reading:
    n_layers, experts = hf["num_hidden_layers"], hf["num_local_experts"] or None
    layers = layer_pattern(hf, hf["layer_types"] or ["linear_attention"] * n_layers, "linear", "full")
    given = hf.fill(
        BambaConfig,
        **{**_mamba_sizes(hf), "norms": ("input_layernorm", "", "post_attention_layernorm", "")},
        # The heads divide the width where there is attention; a model of mixers has the number alone.
        **({} if "full" in layers.kinds else {"d_head": _d_head(hf)}),
        layers=layers,
        d_rotary=rotary_width(hf, _d_head(hf)),
        d_ff=hf["shared_intermediate_size"],
        fused_mlp=True,
        n_experts=experts,
        top_k=hf["num_experts_per_tok"] if experts else None,
        d_ff_expert=hf["intermediate_size"] if experts else None,
        final_norm="norm",
        rotary=hf["position_embedding_type"] == "rope",
    )
    return Reading("bamba", given)


HF_READERS = {"bamba": _bamba, "falcon_h1": _falcon_h1, "granitemoehybrid": _granite}
