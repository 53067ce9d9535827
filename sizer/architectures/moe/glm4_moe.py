"""GLM-4.5, and Sarvam, the same in memory with a fused attention in its checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import qk_norms
from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.decoders.ways import windowed_core
from sizer.architectures.moe.moe_decoder import MoEConfig, moe_attention, moe_decoder
from sizer.architectures.moe.reading import moe_reading, sparse_layers
from sizer.architectures.mtp import layers_in_file
from sizer.architectures.registry import Architecture, Reading
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def sarvam_moe(c: MoEConfig) -> Module:
    """Sarvam (sarvam.ai), read as `Glm4MoeForCausalLM`.

    Source: transformers `configuration_sarvam_moe.py` and its conversion of checkpoint names.
    """
    return moe_decoder(c, fused_attention(c) if c.layout == "checkpoint" else moe_attention(c))


def fused_attention(c: MoEConfig) -> Module:
    """Queries, keys and values of all heads from one matrix."""
    embed = Axis("embed", c.d_model)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    norms = (
        one._replace(name=name)
        for one, name in zip(qk_norms(c, heads, kv_heads), ("query_layernorm", "key_layernorm"), strict=False)
    )
    return Module(
        "attention",
        (
            linear("query_key_value", heads + 2 * kv_heads, embed, bias=c.qkv_bias),
            *norms,
            *windowed_core(c),
            linear("dense", embed, heads),
        ),
        component="attention",
    )


ARCHITECTURES = {"sarvam_moe": Architecture(MoEConfig, sarvam_moe)}


def _glm4(hf: HFConfig, architecture: str, naming: str, rotated: float, **more: Any) -> Reading:
    return moe_reading(
        hf,
        architecture,
        naming=naming,
        correction="buffer",
        mlp_layers=sparse_layers(hf, lambda i: i >= hf["first_k_dense_replace"]),
        d_rotary=rotary_width(hf, default=rotated),
        qk_norm="head" if hf["use_qk_norm"] else None,
        qkv_bias=hf["attention_bias"],
        window=None,
        **more,
    )


def _glm4_moe(hf: HFConfig) -> Reading:
    return _glm4(hf, "moe", "deepseek", 0.5, mtp_layers=layers_in_file(hf))


def _sarvam_moe(hf: HFConfig) -> Reading:
    return _glm4(hf, "sarvam_moe", "sarvam_base" if hf.task == "base" else "sarvam", 1.0)


HF_READERS = {"glm4_moe": _glm4_moe, "sarvam_moe": _sarvam_moe}
