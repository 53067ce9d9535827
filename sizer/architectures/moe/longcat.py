"""LongCat-Flash: two attentions and two dense MLPs a block, with experts beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.latent import LatentConfig, latent_attention, latent_model, rotary_part
from sizer.architectures.heads import with_head, with_parts
from sizer.architectures.mtp import layers_in_file, with_own_table
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, gate_op, gated_mlp, linear, rms_norm, stacked
from sizer.core.tree import Axis, Leaf, Module, Op

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class LongcatConfig(LatentConfig):
    """Sizes and switches of a LongCat-Flash.

    `n_zero_experts`: experts that return their input; the router may choose them, and they have
    no tensors; `zero_expert_rows`: but transformers 5 gives them gates and up projections, and
    saves them. `router_bias`: the router has a bias of its own, beside the one that balances it.
    `mtp_layers`: layers for multi-token prediction, in the count where `count_mtp` says so.
    """

    d_ff_expert: Dim
    n_experts: Dim
    top_k: Dim
    n_zero_experts: Dim | None = None
    zero_expert_rows: bool = False
    router_bias: bool = False
    mtp_layers: Dim | None = None
    count_mtp: bool = False

    letters = {**LatentConfig.letters, "n_zero_experts": "Ez"}
    meanings = {**LatentConfig.meanings, "n_zero_experts": "experts that return their input"}


def longcat(c: LongcatConfig) -> Module:
    """LongCat-Flash (arXiv:2509.01322), with the tensor names of `LongcatFlashForCausalLM`.

    Source: transformers `modeling_longcat_flash.py`.
    """
    embed = Axis("embed", c.d_model)
    half = (
        rms_norm("input_layernorm", embed),
        latent_attention(c, embed),
        rms_norm("post_attention_layernorm", embed),
        gated_mlp("mlps", Axis("ffn", c.d_ff), embed, act=c.act),
    )
    block = Module(
        "layers",
        (*(part._replace(repeat=2) for part in half), _experts(c, embed)),
        repeat=c.n_layers,
    )
    further = (
        rms_norm("input_layernorm", embed),
        latent_attention(c, embed),
        rms_norm("post_attention_layernorm", embed),
        Module("transformer_layer", (gated_mlp("mlp", Axis("ffn", c.d_ff), embed, act=c.act),)),
    )
    return with_parts(with_head(c, latent_model(c, embed, block)), c, *with_own_table(c, further))


def _experts(c: LongcatConfig, embed: Axis) -> Module:
    experts, ffn = Axis("expert", c.n_experts), Axis("expert_ffn", c.d_ff_expert)
    choices = experts if c.n_zero_experts is None else Axis("expert", c.n_experts + c.n_zero_experts)
    router = Module(
        "router",
        (
            buffer("e_score_correction_bias", choices),
            linear("classifier", choices, embed, bias=c.router_bias),
        ),
        component="router",
    )
    # How often a token picks an expert that computes nothing is not known.
    idle = () if c.n_zero_experts is None else (Op("zero_experts", "identity", {}),)
    rows = choices if c.zero_expert_rows else experts
    if c.layout == "transformers":
        routed: tuple[Module | Leaf, ...] = (
            gate_op(c.act, c.top_k * c.d_ff_expert),
            stacked("gate_up_proj", rows, c.top_k, 2 * ffn, embed),
            stacked("down_proj", experts, c.top_k, embed, ffn),
        )
        return Module("mlp", (Module("experts", routed, component="experts"), router, *idle))
    inner = (linear("gate_proj", ffn, embed), linear("up_proj", ffn, embed), gate_op(c.act, c.d_ff_expert))
    outer = (linear("down_proj", embed, ffn),)
    return Module(
        "mlp",
        (
            Module("experts", inner, repeat=rows.size, active=c.top_k, component="experts"),
            Module("experts", outer, repeat=experts.size, active=c.top_k, component="experts"),
            router,
            *idle,
        ),
    )


ARCHITECTURES = {"longcat_flash": Architecture(LongcatConfig, longcat)}


def _longcat_flash(hf: HFConfig) -> Reading:
    bias = bool(hf["router_bias"]) if "router_bias" in hf else False
    return Reading(
        "longcat_flash",
        hf.fill(
            LongcatConfig,
            d_ff=hf["ffn_hidden_size"],
            d_ff_expert=hf["expert_ffn_hidden_size"],
            top_k=hf["moe_topk"],
            n_zero_experts=hf["zero_expert_num"] or None,
            router_bias=bias,
            zero_expert_rows=hf.saved_by_transformers_5,
            d_qk=hf["qk_head_dim"],
            mlp_bias=False,
            mtp_layers=layers_in_file(hf),
            d_rotary=rotary_part(hf, "head_dim"),
        ),
        assumptions=("experts that return their input have no weights, as in the published checkpoints",),
    )


HF_READERS = {"longcat_flash": _longcat_flash}
