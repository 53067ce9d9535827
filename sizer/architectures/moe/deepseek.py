"""DeepSeek-V2, V3 and V3.2, and their kin: latent attention, dense blocks, then routed experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.latent import (
    LatentConfig,
    latent_attention,
    latent_model,
)
from sizer.architectures.heads import with_head, with_parts
from sizer.architectures.mtp import next_layers
from sizer.architectures.registry import Architecture
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, gated_mlp, linear, residual, rms_norm, routed_experts
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Layers, Module, Op, Param

if TYPE_CHECKING:
    pass


@configuration
class DeepseekConfig(LatentConfig):
    """Sizes and switches of a DeepSeek-V3.

    `mlp_layers`: "dense" or "sparse" for each layer, where the dense ones do not simply lead.
    `router_bias`: a bias that balances the router without a gradient; a buffer in transformers,
    and with `router_bias_param` a parameter, as in the code of DeepSeek's own repositories.
    `stacked`: files, too, have all experts of a layer in one tensor.
    `gated_norm_rank`: rank of the gate of A.X K2's norms. `mlp_norm`: A.X K1's norm after experts.
    `mtp_layers`: layers for multi-token prediction, in the count where `count_mtp` says so.
    `n_group`, `topk_group`: groups of experts, and how many of them a token may visit. `norm_topk_prob`:
    the weights of a token's experts sum to one. `rotary`: positions turn neighbours ("pairs"), the two
    halves of a head ("halves"), or complex numbers ("complex").
    """

    n_dense_layers: Dim = 0
    mlp_layers: Pattern | None = None
    d_ff_expert: Dim
    n_experts: Dim
    top_k: Dim | None = None
    n_shared_experts: Dim | None = None
    d_ff_shared: Dim | None = None
    router_bias: bool = True
    router_bias_param: bool = False
    stacked: bool = False
    mlp_norm: bool = False
    gated_norm_rank: Dim | None = None
    mtp_layers: Dim | None = None
    count_mtp: bool = False
    n_group: Dim | None = None
    topk_group: Dim | None = None
    norm_topk_prob: bool = True
    rotary: str = "pairs"

    letters = {
        **LatentConfig.letters,
        "mlp_layers": "L",
        "d_ff_shared": "Fs",
        "gated_norm_rank": "Rg",
        "n_group": "Ng",
        "topk_group": "Kg",
    }
    meanings = {
        **LatentConfig.meanings,
        "d_ff_shared": "hidden width of one shared expert",
        "gated_norm_rank": "rank of the gate of a norm",
        "n_group": "groups of experts",
        "topk_group": "groups of experts that a token may visit",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        # DeepSeek-V2's configuration class leaves it open; no tensor depends on it.
        self.derive(top_k=1, d_ff_shared=self.d_ff_expert)


def deepseek(c: DeepseekConfig) -> Module:
    """DeepSeek-V3 (arXiv:2412.19437), with the tensor names of `DeepseekV3ForCausalLM`.

    Source: transformers `modeling_deepseek_v3.py`, `_deepseek_v2`, `_deepseek_v32`,
    `_glm_moe_dsa`, `_glm4_moe_lite`, `_axk1`, `_axk2`.
    """
    embed = Axis("embed", c.d_model)
    dense, sparse = dense_and_sparse(c)
    # The others differ in what their attention or their norms keep for a backward pass.
    usual = c.n_index_heads is None and c.gated_norm_rank is None and not c.output_gate
    flow = "latent" if usual and c.rotary != "complex" else ""
    block = Module(
        "layers",
        (
            residual(*_block_norm(c, "input_layernorm", embed), latent_attention(c, embed, flow=flow)),
            residual(
                *_block_norm(c, "post_attention_layernorm", embed, plain=dense, gated=sparse),
                gated_mlp("mlp", Axis("ffn", c.d_ff), embed, bias=c.mlp_bias, act=c.act)._replace(at=dense),
                _routed(c, mixture(c, embed, stacked=c.stacked, learned_bias=c.router_bias_param))._replace(
                    at=sparse
                ),
                *_mlp_norm(c, embed, sparse),
            ),
        ),
        repeat=c.n_layers,
        flow="block" if flow else "",
    )
    further = (
        rms_norm("input_layernorm", embed),
        latent_attention(c, embed),
        rms_norm("post_attention_layernorm", embed),
        mixture(c, embed, stacked=c.stacked, learned_bias=c.router_bias_param),
    )
    return with_parts(with_head(c, latent_model(c, embed, block)), c, *next_layers(c, further))


def _routed(c: DeepseekConfig, experts: Module) -> Module:
    """The experts with how their router chooses: sigmoids, and groups before experts."""
    if not c.router_bias or c.n_group is None:
        return experts
    gate, *others = experts.children
    assert isinstance(gate, Module)
    sizes = {"groups": c.n_group, "top_groups": c.topk_group, "top_k": c.top_k}
    traits = ("fp32", "made_last", *(("normalized",) if c.norm_topk_prob else ()))
    choice = Op("choice", "grouped_choice", sizes, traits=traits)
    gate = gate._replace(children=(*gate.children, choice))
    return experts._replace(children=(gate, *others), flow="experts")


def dense_and_sparse(c: Any) -> tuple[Layers, Layers]:
    """The layers with a dense MLP, and those with experts."""
    if c.mlp_layers is not None:
        return c.mlp_layers.layers("dense"), c.mlp_layers.layers("sparse")
    if isinstance(c.n_layers, int) and isinstance(c.n_dense_layers, int):
        n_dense = min(c.n_dense_layers, c.n_layers)
        dense, sparse = range(n_dense), range(n_dense, c.n_layers)
        return Layers(len(dense), dense), Layers(len(sparse), sparse)
    return Layers(c.n_dense_layers), Layers(c.n_layers - c.n_dense_layers)


def mixture(
    c: Any,
    embed: Axis,
    *,
    stacked: bool = False,
    learned_bias: bool = False,
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
) -> Module:
    """The router, E routed experts of which a token visits k, and the shared ones as one MLP.

    `stacked`: a checkpoint, too, has all experts of a layer in one tensor.
    `learned_bias`: the bias that balances the router is a parameter.
    """
    experts = Axis("expert", c.n_experts)
    shared: tuple[Module, ...] = ()
    if c.n_shared_experts is not None:
        width = Axis("ffn", c.n_shared_experts * c.d_ff_shared)
        shared = (gated_mlp("shared_experts", width, embed, bias=c.mlp_bias, act=c.act, names=names),)
    routed = routed_experts(
        "experts",
        experts,
        c.top_k,
        Axis("expert_ffn", c.d_ff_expert),
        embed,
        layout="transformers" if stacked else c.layout,
        act=c.act,
    )
    gate = router("gate", experts, embed, balanced=c.router_bias, learned=learned_bias)
    return Module("mlp", (gate, routed, *(part._replace(component="experts") for part in shared)))


def router(name: str, experts: Axis, embed: Axis, *, balanced: bool = True, learned: bool = False) -> Module:
    """A score for each expert; `balanced`: with the bias that no gradient changes."""
    bias_name = "e_score_correction_bias"
    kept = Param(bias_name, (experts,)) if learned else buffer(bias_name, experts)
    bias = (kept,) if balanced else ()
    scores = linear(name, experts, embed, component="router")
    return scores._replace(children=(*scores.children, *bias))


def _block_norm(
    c: DeepseekConfig, name: str, embed: Axis, *, plain: Layers | None = None, gated: Layers | None = None
) -> tuple[Module, ...]:
    """A norm of a block; in A.X K2 one whose output a low-rank MLP of itself gates."""
    if c.gated_norm_rank is None:
        return (rms_norm(name, embed),)
    rank = Axis("norm_rank", c.gated_norm_rank)
    stored = c.layout == "checkpoint"
    down, up = ("W_down", "W_up") if stored else ("mlp.fc1", "mlp.fc2")
    gate = (
        rms_norm("norm", embed),
        linear(down, rank, embed),
        Op("act", "silu", {"width": c.gated_norm_rank}),
        linear(up, embed, rank),
    )
    norm = Module(name, gate, at=gated, component="norm")
    return (norm,) if plain is None else (rms_norm(name, embed)._replace(at=plain), norm)


def _mlp_norm(c: DeepseekConfig, embed: Axis, sparse: Layers) -> tuple[Module, ...]:
    """A.X K1's norm after the experts, which stands beside them in a checkpoint."""
    if not c.mlp_norm:
        return ()
    name = "post_mlp_layernorm" if c.layout == "checkpoint" else "mlp.post_mlp_layernorm"
    return (rms_norm(name, embed)._replace(at=sparse),)


def kinds_of_mlp(types: Sequence[str] | None, n_layers: int, n_dense: int | None) -> dict[str, Any]:
    """The dense layers of a file: how many lead, or a pattern where they do not."""
    if types is None:
        return {"n_dense_layers": min(n_dense or 0, n_layers)}
    kinds = tuple("sparse" if kind == "sparse" else "dense" for kind in types[:n_layers])
    leading = kinds.index("sparse") if "sparse" in kinds else len(kinds)
    if "dense" not in kinds[leading:] and len(kinds) == n_layers:
        return {"n_dense_layers": leading}
    return {"n_dense_layers": kinds.count("dense"), "mlp_layers": Pattern(kinds)}


ARCHITECTURES = {"deepseek_v3": Architecture(DeepseekConfig, deepseek)}
