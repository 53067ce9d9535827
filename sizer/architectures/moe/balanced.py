"""Decoders of routed and always-on experts, most with a bias that balances the router."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.moe.mixtral import step_pattern
from sizer.architectures.moe.reading import (
    layer_kinds,
    layered_rotary,
    mlp_pattern,
    moe_reading,
    sparse_layers,
    windows,
)
from sizer.architectures.mtp import layers_in_file
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def biases(hf: HFConfig) -> dict[str, Any]:
    """The one switch for the biases of all four projections."""
    return {"qkv_bias": hf["attention_bias"], "o_bias": hf["attention_bias"]}


def _dots1(hf: HFConfig) -> Reading:
    first_sliding = hf["max_window_layers"]
    return moe_reading(
        hf,
        naming="deepseek",
        correction="buffer",
        mlp_layers=sparse_layers(hf, lambda i: i >= hf["first_k_dense_replace"]),
        qk_norm="head",
        **biases(hf),
        **windows(hf, lambda i: i >= first_sliding),
    )


def _ernie4_5_moe(hf: HFConfig) -> Reading:
    bias, n_layers = hf["use_bias"], hf["num_hidden_layers"]
    start, end, interval = (hf[f"moe_layer_{x}"] for x in ("start_index", "end_index", "interval"))
    end = n_layers - 1 if end == -1 else end
    sparse = [(i + 1) % interval == 0 and start <= i <= end for i in range(n_layers)]
    return moe_reading(
        hf,
        naming="ernie",
        correction="frozen_row",
        mlp_layers=mlp_pattern(sparse),
        n_shared_experts=hf["moe_num_shared_experts"] or None,
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=bias,
        expert_bias=bias,
        head_bias=bias,
        mtp_layers=layers_in_file(hf),
        dense_mtp=True,
    )


def _minimax_m2(hf: HFConfig) -> Reading:
    default = hf["rotary_dim"] / hf["head_dim"] if hf.given("rotary_dim") and hf["rotary_dim"] else 1.0
    return moe_reading(
        hf,
        naming="mixtral",
        correction="buffer",
        d_ff=None,
        d_ff_expert=hf["intermediate_size"],
        d_rotary=rotary_width(hf, default=default),
        qk_norm="full",
        window=None,
    )


def _solar_open(hf: HFConfig) -> Reading:
    return moe_reading(
        hf,
        naming="deepseek",
        correction="buffer",
        d_ff=None,
        d_rotary=rotary_width(hf, default=1.0),
        qkv_bias=hf["attention_bias"],
    )


def _exaone_moe(hf: HFConfig) -> Reading:
    window, every = hf["sliding_window"], hf["sliding_window_pattern"]
    return moe_reading(
        hf,
        naming="exaone",
        correction="buffer",
        mlp_layers=sparse_layers(hf, lambda i: i >= hf["first_k_dense_replace"]),
        qk_norm="head",
        **windows(hf, lambda i: bool(window) and (i + 1) % every != 0),
    )


def _afmoe(hf: HFConfig) -> Reading:
    every = hf["global_attn_every_n_layers"]
    return moe_reading(
        hf,
        naming="afmoe",
        correction="frozen",
        mlp_layers=mlp_pattern([i >= hf["num_dense_layers"] for i in range(hf["num_hidden_layers"])]),
        norms=("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"),
        qk_norm="head",
        output_gate="gate_proj",
        **biases(hf),
        **windows(hf, lambda i: bool((i + 1) % every)),
    )


def _hy_v3(hf: HFConfig) -> Reading:
    # The reference takes the width of a dense layer where there is no shared expert.
    shared = hf["num_shared_experts"] * hf["moe_intermediate_size"] or hf["intermediate_size"]
    return moe_reading(
        hf,
        naming="hy_v3",
        correction="buffer",
        mlp_layers=sparse_layers(hf, lambda i: i > 0),
        n_shared_experts=hf["num_shared_experts"] or None,
        d_ff_shared=None if hf["num_shared_experts"] else shared,
        qk_norm="head",
        **biases(hf),
    )


def _kolibri1(hf: HFConfig) -> Reading:
    return moe_reading(
        hf,
        naming="kolibri1",
        correction="buffer",
        d_ff=None,
        d_ff_shared=hf["shared_expert_intermediate_size"],
        norms=(
            "input_layernorm",
            "post_self_attn_layernorm",
            "post_attention_layernorm",
            "post_mlp_layernorm",
        ),
        qk_norm="head",
        **windows(hf, lambda i: (i + 1) % 5 != 0),
    )


def _beam(hf: HFConfig) -> Reading:
    last = hf["num_hidden_layers"] - 1

    def sliding(i: int) -> bool:
        return bool((i + 1) % 6) and i != last

    kinds = layer_kinds(hf, "layer_types", lambda i: "sliding_attention" if sliding(i) else "full_attention")
    fractions = {"sliding_attention": 1.0, "full_attention": None}
    return moe_reading(
        hf,
        naming="deepseek",
        correction="buffer",
        mlp_layers=sparse_layers(hf, lambda i: i >= 3),
        norms=(
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
        ),
        qk_norm="head",
        output_gate="gate_proj",
        output_gate_bias=True,
        **biases(hf),
        **windows(hf, sliding),
        **layered_rotary(hf, kinds, fractions, partial=False),
    )


def _flint(hf: HFConfig) -> Reading:
    last, dense = hf["num_hidden_layers"] - 1, hf["mlp_only_layers"]
    return moe_reading(
        hf,
        naming="flint",
        mlp_layers=step_pattern(hf, [0, 1] if dense is None else dense),
        d_ff_shared=hf["shared_expert_intermediate_size"],
        sinks=True,
        qk_norm="head",
        **biases(hf),
        **windows(hf, lambda i: not (i < 2 or i % 4 == 1 or i == last)),
    )


def _aria_text(hf: HFConfig) -> Reading:
    return moe_reading(
        hf,
        naming="aria",
        n_experts=hf["moe_num_experts"],
        top_k=hf["moe_topk"],
        n_shared_experts=hf["moe_num_shared_experts"] or None,
        d_ff=None,
        d_ff_expert=hf["intermediate_size"],
        transposed_experts=True,
        **biases(hf),
    )


def _gpt_oss(hf: HFConfig) -> Reading:
    return moe_reading(
        hf,
        naming="gpt_oss",
        d_ff=None,
        d_ff_expert=hf["intermediate_size"],
        transposed_experts=True,
        expert_bias=True,
        router_bias=True,
        sinks=True,
        **biases(hf),
        **windows(hf, lambda i: bool((i + 1) % 2)),
    )


def _llama4_text(hf: HFConfig) -> Reading:
    """Layers with experts and dense layers have widths of their own; one shared expert."""
    n_layers, step, listed = hf["num_hidden_layers"], hf["interleave_moe_layer_step"], hf["moe_layers"]
    sparse = range(step - 1, n_layers, step) if listed is None else listed
    rotated = hf["no_rope_layers"] or [(i + 1) % hf["no_rope_layer_interval"] != 0 for i in range(n_layers)]
    return moe_reading(
        hf,
        naming="llama4",
        d_ff=hf["intermediate_size_mlp"],
        d_ff_expert=hf["intermediate_size"],
        d_ff_shared=hf["intermediate_size"],
        mlp_layers=mlp_pattern([i in sparse for i in range(n_layers)]),
        transposed_experts=True,
        **biases(hf),
        **windows(hf, lambda i: bool(rotated[i]), key="attention_chunk_size"),
    )


HF_READERS = {
    "dots1": _dots1,
    "ernie4_5_moe": _ernie4_5_moe,
    "minimax_m2": _minimax_m2,
    "solar_open": _solar_open,
    "exaone_moe": _exaone_moe,
    "afmoe": _afmoe,
    "hy_v3": _hy_v3,
    "kolibri1": _kolibri1,
    "beam": _beam,
    "flint": _flint,
    "aria_text": _aria_text,
    "gpt_oss": _gpt_oss,
    "llama4_text": _llama4_text,
}
