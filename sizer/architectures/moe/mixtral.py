"""Mixtral, and decoders of routed experts without a balancing bias."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import rope_parameters
from sizer.architectures.moe.reading import (
    layer_kinds,
    layered_rotary,
    mlp_pattern,
    moe_reading,
    sparse_layers,
    windows,
)
from sizer.architectures.registry import Reading
from sizer.core.pattern import Pattern
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def _all_sparse(hf: HFConfig) -> dict[str, Any]:
    """Every layer has experts, whose width is the file's only one."""
    return {"d_ff": None, "d_ff_expert": hf["intermediate_size"], "window": None}


def _mixtral(hf: HFConfig) -> Reading:
    return moe_reading(hf, **_all_sparse(hf) | {"window": hf["sliding_window"]})


def _phimoe(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    given = _all_sparse(hf) | {"window": hf["sliding_window"], "head_bias": hf["lm_head_bias"]}
    return moe_reading(hf, naming="phimoe", norm="layer", qkv_bias=bias, o_bias=bias, **given)


def _weights(hf: HFConfig, *more: str) -> tuple[str, ...]:
    """How Qwen's routers weigh experts: normalized on demand, in the type of the logits."""
    return ("cast", *more, *(("normalized",) if hf["norm_topk_prob"] else ()))


def step_pattern(hf: HFConfig, dense: list[int]) -> Pattern | None:
    """Experts in every `decoder_sparse_step`-th layer but those listed as dense."""
    step, any_experts = hf["decoder_sparse_step"], hf["num_experts"] > 0
    layers = range(hf["num_hidden_layers"])
    return mlp_pattern([any_experts and i not in dense and (i + 1) % step == 0 for i in layers])


def _qwen2_moe(hf: HFConfig) -> Reading:
    windowed: dict[str, Any] = {"window": None}
    if hf["use_sliding_window"]:
        windowed = windows(hf, lambda i: i % 2 == 0 and i < hf["max_window_layers"])
    return moe_reading(
        hf,
        naming="qwen2_moe",
        mlp_layers=step_pattern(hf, hf["mlp_only_layers"] or []),
        d_ff_shared=hf["shared_expert_intermediate_size"],
        shared_gate=True,
        routing=_weights(hf),
        **windowed,
    )


def _qwen3_moe(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    return moe_reading(
        hf,
        naming="qwen2_moe",
        mlp_layers=step_pattern(hf, hf["mlp_only_layers"] or []),
        qk_norm="head",
        qkv_bias=bias,
        o_bias=bias,
        qa_prefix="transformer",
        window=hf["sliding_window"] if hf["use_sliding_window"] else None,
        routing=_weights(hf, "made_last"),
    )


def _olmoe(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    given = _all_sparse(hf) | {"routing": _weights(hf)}
    return moe_reading(hf, naming="qwen2_moe", qk_norm="full", qkv_bias=bias, o_bias=bias, **given)


def _flex_olmo(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    return moe_reading(
        hf,
        naming="qwen2_moe",
        qk_norm="full",
        qkv_bias=bias,
        o_bias=bias,
        norms=("", "post_attention_layernorm", "", "post_feedforward_layernorm"),
        routing=_weights(hf),
        **_all_sparse(hf),
    )


def _granitemoe(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    return moe_reading(hf, naming="granitemoe", qkv_bias=bias, o_bias=bias, **_all_sparse(hf))


def _granitemoeshared(hf: HFConfig) -> Reading:
    bias, shared = hf["attention_bias"], hf["shared_intermediate_size"] or None
    given = _all_sparse(hf) | {"d_ff_shared": shared}
    return moe_reading(hf, naming="granitemoe", qkv_bias=bias, o_bias=bias, **given)


def _granitemoe_swa(hf: HFConfig) -> Reading:
    bias, thetas = hf["attention_bias"], hf["layer_rope_theta"]
    n_rotary = 1 if thetas is None else len({theta for theta in thetas if theta})
    if thetas is None and rope_parameters(hf).get("rope_theta", 1) in (0, None):
        n_rotary = 0
    return moe_reading(
        hf,
        naming="granitemoe_swa",
        qkv_bias=bias,
        o_bias=bias,
        sinks=True,
        d_ff_shared=hf["shared_intermediate_size"] or None,
        n_rotary=n_rotary or None,
        **_all_sparse(hf) | windows(hf, lambda i: i % 4 != 0),
    )


def _hunyuan_v1_moe(hf: HFConfig) -> Reading:
    bias, top_k = hf["attention_bias"], hf["num_experts_per_tok"]
    if isinstance(top_k, list):
        if len(set(top_k)) != 1:
            raise InvalidConfig(f"moe_topk = {top_k[:4]}…: layers that differ in it are not supported")
        top_k = top_k[0]
    return moe_reading(
        hf,
        naming="hunyuan",
        top_k=top_k,
        d_ff_shared=hf["intermediate_size"],
        qk_norm="head",
        qk_norm_names=("query_layernorm", "key_layernorm"),
        routing=("normalized", "fp32"),
        qkv_bias=bias,
        o_bias=bias,
        **_all_sparse(hf),
    )


def _mellum(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    kinds = layer_kinds(hf, "layer_types", lambda _: "full_attention")
    every = {"full_attention": 1.0, "sliding_attention": 1.0}
    return moe_reading(
        hf,
        naming="qwen2_moe",
        mlp_layers=sparse_layers(hf, lambda _: True),
        qk_norm="head",
        qkv_bias=bias,
        o_bias=bias,
        routing=_weights(hf, "made_last"),
        **windows(hf, lambda _: False),
        **layered_rotary(hf, kinds, every),
    )


def _cohere2_moe(hf: HFConfig) -> Reading:
    """One norm before attention and experts alike, which run side by side."""
    bias, width = hf["attention_bias"], hf["intermediate_size"]
    n_dense = hf.in_file("first_k_dense_replace", 0)
    prefix, rest = hf["prefix_dense_sliding_window_pattern"], hf["sliding_window_pattern"]
    dense_width = hf["prefix_dense_intermediate_size"]
    rms = hf.given("rms_norm_eps") and hf["rms_norm_eps"] is not None
    return moe_reading(
        hf,
        naming="deepseek",
        norm="rms" if rms else "layer_no_bias",
        norms=("input_layernorm", "", "", ""),
        d_ff=width if dense_width is None else dense_width,
        d_ff_expert=width,
        n_shared_experts=hf["num_shared_experts"] or None,
        mlp_layers=sparse_layers(hf, lambda i: i >= n_dense),
        qkv_bias=bias,
        o_bias=bias,
        routing=("cast", "chosen_first"),
        **windows(hf, lambda i: bool((i + 1) % prefix if i < n_dense else (i - n_dense + 1) % rest)),
    )


HF_READERS = {
    "mixtral": _mixtral,
    "phimoe": _phimoe,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "olmoe": _olmoe,
    "flex_olmo": _flex_olmo,
    "granitemoe": _granitemoe,
    "granitemoeshared": _granitemoeshared,
    "granitemoe_swa": _granitemoe_swa,
    "hunyuan_v1_moe": _hunyuan_v1_moe,
    "mellum": _mellum,
    "cohere2_moe": _cohere2_moe,
}
