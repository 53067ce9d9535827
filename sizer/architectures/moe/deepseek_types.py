"""The model types of DeepSeek's block, read from their configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.latent import rotary_part
from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.moe.deepseek import DeepseekConfig, kinds_of_mlp
from sizer.architectures.moe.deepseek_layers import every_nth, indexers
from sizer.architectures.mtp import layers_in_file
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def _read(hf: HFConfig, mlp_types: Sequence[str] | None, **given: Any) -> Reading:
    given.setdefault("d_rotary", rotary_part(hf))
    given.setdefault("rotary", "pairs" if hf.get("rope_interleave", True) else "halves")
    first_dense = hf.get("first_k_dense_replace", 0)
    dense = kinds_of_mlp(mlp_types, hf["num_hidden_layers"], first_dense)
    given["n_shared_experts"] = hf["n_shared_experts"] or None
    given["mtp_layers"] = layers_in_file(hf)
    return Reading("deepseek_v3", hf.fill(DeepseekConfig, **dense, **given))


def _deepseek_v2(hf: HFConfig) -> Reading:
    return _read(hf, None, router_bias=False, rotary="complex")


def _deepseek_v3(hf: HFConfig) -> Reading:
    return _read(hf, None, mlp_bias=False)


def _kimi_k2(hf: HFConfig) -> Reading:
    return _read(hf, None, mlp_bias=False, router_bias_param=True)


def _sarvam_mla(hf: HFConfig) -> Reading:
    return _read(hf, None, mlp_bias=False)


def _mistral4(hf: HFConfig) -> Reading:
    """Mistral 4: no bias balances the router, and positions turn a fraction of the whole head."""
    more: dict[str, Any] = {"task": "causal"} if hf.cls.endswith("ForCausalLM") else {}
    d_rope = hf["qk_rope_head_dim"]
    d_head = hf["qk_nope_head_dim"] + d_rope
    part = d_rope / d_head
    d_head = hf.in_file("head_dim", d_head)
    more["d_rotary"] = rotary_width(hf, d_head, default=part) or d_head
    return _read(hf, None, mlp_bias=False, router_bias=False, stacked=True, **more)


def _deepseek_v32(hf: HFConfig) -> Reading:
    return _read(hf, hf.per_layer("mlp_layer_types", hf["num_hidden_layers"]), mlp_bias=False)


def _glm_moe_dsa(hf: HFConfig) -> Reading:
    return _read(
        hf,
        hf.per_layer("mlp_layer_types", hf["num_hidden_layers"]),
        mlp_bias=False,
        indexers=indexers(hf),
    )


def _glm4_moe_lite(hf: HFConfig) -> Reading:
    types = hf.per_layer("mlp_layer_types", hf["num_hidden_layers"]) or ["dense"] + ["sparse"] * (
        hf["num_hidden_layers"] - 1
    )
    rotary = rotary_part(hf, default=1.0)
    return _read(hf, types, mlp_bias=False, d_rotary=rotary)


def _axk1(hf: HFConfig) -> Reading:
    return _read(
        hf,
        hf.per_layer("mlp_layer_types", hf["num_hidden_layers"]) or every_nth(hf, 1),
        mlp_bias=False,
        mlp_norm=True,
    )


def _axk2(hf: HFConfig) -> Reading:
    types = hf.per_layer("mlp_layer_types", hf["num_hidden_layers"]) or every_nth(hf, 1)
    return _read(hf, types, mlp_bias=False, output_gate=True)


HF_READERS = {
    "axk1": _axk1,
    "axk2": _axk2,
    "deepseek_v2": _deepseek_v2,
    "deepseek_v3": _deepseek_v3,
    "deepseek_v32": _deepseek_v32,
    "glm4_moe_lite": _glm4_moe_lite,
    "glm_moe_dsa": _glm_moe_dsa,
    "kimi_k2": _kimi_k2,
    "mistral4": _mistral4,
    "sarvam_mla": _sarvam_mla,
}
