"""Nemotron-H: layers of one part each, a Mamba-2 mixer, attention, an MLP or routed experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, attention
from sizer.architectures.heads import with_head
from sizer.architectures.recurrent.mamba2 import mamba2_mixer
from sizer.architectures.recurrent.parts import check_layers, in_layers, layer_pattern
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, linear, mlp, rms_norm, stacked
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Op, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# The letters of `hybrid_override_pattern`.
LETTERS = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}


@configuration
class NemotronHConfig(DecoderConfig):
    """Sizes and switches of a Nemotron-H.

    `layers`: "linear" (a Mamba-2 mixer), "full" (attention), "mlp" or "moe".
    `d_latent`: the experts work on a projection of this width.
    """

    layers: Pattern
    n_ssm_heads: Dim
    d_ssm_head: Dim
    d_state: Dim
    n_groups: Dim = 8
    d_conv: Dim = 4
    ssm_bias: bool = False
    conv_bias: bool = True
    n_experts: Dim | None = None
    top_k: Dim | None = None
    d_ff_expert: Dim | None = None
    d_ff_shared: Dim | None = None
    d_latent: Dim | None = None
    gated: bool = False
    act: str = "relu2"

    letters = {
        **DecoderConfig.letters,
        "n_ssm_heads": "Hs",
        "d_ssm_head": "Ds",
        "n_groups": "G",
        "d_conv": "Kc",
        "d_ff_shared": "Fs",
        "d_latent": "De",
    }
    meanings = {
        **DecoderConfig.meanings,
        "n_ssm_heads": "heads of the mixer",
        "d_ssm_head": "width of a head of the mixer",
        "n_groups": "groups of heads that share B and C",
        "d_conv": "width of the convolution",
        "d_ff_shared": "hidden width of the shared expert",
        "d_latent": "width at which the experts work",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layers(self.n_layers, self.layers)


def nemotron_h(c: NemotronHConfig) -> Module:
    """Nemotron-H (arXiv:2504.03624), with the tensor names of `NemotronHForCausalLM`.

    Source: transformers `modeling_nemotron_h.py`. The head is never tied; there are no positions.
    """
    embed, ffn = Axis("embed", c.d_model), Axis("ffn", c.d_ff)
    ssm = mamba2_mixer(
        "mixer",
        embed,
        heads_axis("ssm_heads", c.n_ssm_heads, c.d_ssm_head),
        n_heads=c.n_ssm_heads,
        n_groups=c.n_groups,
        d_state=c.d_state,
        d_conv=c.d_conv,
        bias=c.ssm_bias,
        conv_bias=c.conv_bias,
    )
    dense = mlp("mixer", ffn, embed, bias=c.mlp_bias, act=c.act)
    block = Module(
        "layers",
        (
            rms_norm("norm", embed),
            *in_layers(c.layers, ssm, "linear"),
            *in_layers(c.layers, attention(c, "mixer"), "full"),
            *in_layers(c.layers, dense, "mlp"),
            *(in_layers(c.layers, _experts(c, embed), "moe") if c.n_experts is not None else ()),
        ),
        repeat=c.n_layers,
    )
    vocab = Axis("vocab", c.vocab_size)
    model = (embedding("embeddings", vocab, embed), block, rms_norm("norm_f", embed))
    prefix = "backbone" if c.layout == "checkpoint" else "model"
    return with_head(c, model, prefix=prefix, embedding="embeddings")


def _experts(c: NemotronHConfig, embed: Axis) -> Module:
    experts, shared = Axis("expert", c.n_experts), Axis("ffn", c.d_ff_shared)
    latent = embed if c.d_latent is None else Axis("latent", c.d_latent)
    router = Module(
        "gate",
        (*linear("", experts, embed).children, buffer("e_score_correction_bias", experts)),
        component="router",
        kind="linear",
    )
    routed = _routed(c, experts, latent)
    if c.d_latent is not None:
        down = linear("fc1_latent_proj", latent, embed, bias=c.mlp_bias, component="experts")
        up = linear("fc2_latent_proj", embed, latent, bias=c.mlp_bias, component="experts")
        routed = Module("", (down, routed, up))
    always_on = mlp("shared_experts", shared, embed, bias=c.mlp_bias, act=c.act, component="experts")
    return Module("mixer", (router, routed, always_on))


def _routed(c: NemotronHConfig, experts: Axis, width: Axis) -> Module:
    """Experts of two matrices each, stacked in memory."""
    ffn = Axis("expert_ffn", c.d_ff_expert)
    if c.layout == "checkpoint":
        expert = mlp("experts", ffn, width, bias=False, act=c.act, component="experts")
        return expert._replace(repeat=experts.size, active=c.top_k)
    return Module(
        "experts",
        (
            stacked("up_proj", experts, c.top_k, ffn, width),
            Op("act", c.act, {"width": c.top_k * ffn.size}),
            stacked("down_proj", experts, c.top_k, width, ffn),
        ),
        component="experts",
    )


ARCHITECTURES = {"nemotron_h": Architecture(NemotronHConfig, nemotron_h)}


def _nemotron_h(hf: HFConfig) -> Reading:
    kinds = hf["layers_block_type"]
    if kinds is None:
        kinds = [LETTERS.get(x, x) for x in hf.in_file("hybrid_override_pattern", "ME*-")]
    layers = layer_pattern(hf, kinds, "linear", "full", "mlp", "moe")
    routed = layers.has("moe")
    given = hf.fill(
        NemotronHConfig,
        n_layers=len(layers.kinds),
        layers=layers,
        n_ssm_heads=hf["mamba_num_heads"],
        d_ssm_head=hf["mamba_head_dim"],
        # Older names of these keys win, as in transformers.
        n_groups=hf.in_file("mamba_n_groups", hf["n_groups"]),
        d_conv=hf.in_file("mamba_d_conv", hf["conv_kernel"]),
        conv_bias=hf.in_file("mamba_conv_bias", hf["use_conv_bias"]),
        ssm_bias=hf["use_bias"],
        n_experts=hf["n_routed_experts"] if routed else None,
        top_k=hf["num_experts_per_tok"] if routed else None,
        d_ff_expert=hf["moe_intermediate_size"] if routed else None,
        d_ff_shared=hf["moe_shared_expert_intermediate_size"] if routed else None,
        d_latent=hf["moe_latent_size"] if routed else None,
        act=hf["mlp_hidden_act"],
        window=None,
        tie_embeddings=False,
    )
    return Reading("nemotron_h", given)


HF_READERS = {"nemotron_h": _nemotron_h}
