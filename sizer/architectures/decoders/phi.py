"""Phi, Phi-3, Persimmon, StableLM, StarCoder2, Nemotron: LayerNorms, or part of a head rotated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder_names import LLAMA
from sizer.architectures.decoders.reading import dense, every, rotary_width
from sizer.architectures.decoders.ways import Ways
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

QK_LAYERNORMS = ("q_layernorm", "k_layernorm")
PHI = LLAMA._replace(output="dense", mlp=("fc1", "fc2"), final_norm="final_layernorm")
PHI3 = LLAMA._replace(qkv=("qkv_proj",), mlp=("gate_up_proj", "down_proj"))
PERSIMMON = LLAMA._replace(
    qkv=("query_key_value",),
    output="dense",
    mlp=("dense_h_to_4h", "dense_4h_to_h"),
    final_norm="final_layernorm",
)
# Positions turn the first part of a head, which the code names beside the rest.
PARTS = ("parted", "parts_named", "late_norms", "norms_by_head")
STARCODER = LLAMA._replace(mlp=("c_fc", "c_proj"))


def _phi(hf: HFConfig) -> Reading:
    """Phi-1 to Phi-2 (arXiv:2306.11644): attention and MLP side by side, biases everywhere."""
    return dense(
        hf,
        module_names=PHI,
        norm="layer",
        norms=("input_layernorm", "", "", ""),
        qk_norm="head" if hf["qk_layernorm"] else None,
        qk_norm_names=QK_LAYERNORMS,
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        head_bias=True,
        gated=False,
        d_rotary=rotary_width(hf, default=0.5),
        ways=Ways(core=PARTS, block="parallel_after"),
    )


def _phi3(hf: HFConfig) -> Reading:
    """Phi-3 and Phi-4 (arXiv:2404.14219): fused projections."""
    ways = Ways(core=("parted", "turned_in_turn", "sliced"))
    return dense(hf, module_names=PHI3, d_rotary=rotary_width(hf, default=1.0), ways=ways, **every(hf))


def _persimmon(hf: HFConfig) -> Reading:
    """Persimmon 8B (Adept 2023): fused projections, heads of equal number and width."""
    return dense(
        hf,
        module_names=PERSIMMON,
        norm="layer",
        qk_norm="head" if hf["qk_layernorm"] else None,
        qk_norm_names=QK_LAYERNORMS,
        n_kv_heads=None,
        d_head=None,
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        gated=False,
        d_rotary=rotary_width(hf, default=0.5),
    )


def _stablelm(hf: HFConfig) -> Reading:
    """StableLM (arXiv:2402.17834); side by side, attention and MLP share a norm."""
    before_mlp = "" if hf["use_parallel_residual"] else "post_attention_layernorm"
    return dense(
        hf,
        norm="layer",
        norms=("input_layernorm", "", before_mlp, ""),
        qk_norm="list" if hf["qk_layernorm"] else None,
        qk_norm_names=QK_LAYERNORMS,
        d_head=None,
        qkv_bias=hf["use_qkv_bias"],
        d_rotary=rotary_width(hf, default=0.25),
        ways=Ways(core=PARTS, block="named" if before_mlp else "parallel"),
    )


def _starcoder2(hf: HFConfig) -> Reading:
    """StarCoder2 (arXiv:2402.19173)."""
    bias = hf["use_bias"]
    return dense(
        hf,
        module_names=STARCODER,
        norm="layer",
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=bias,
        gated=False,
        d_rotary=rotary_width(hf),
        **every(hf),
    )


def _nemotron(hf: HFConfig) -> Reading:
    """Nemotron-4 and Minitron (arXiv:2402.16819)."""
    bias = hf["attention_bias"]
    return dense(
        hf,
        norm="layer",
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=hf["mlp_bias"],
        gated=False,
        d_rotary=rotary_width(hf, default=0.5),
    )


HF_READERS = {
    "nemotron": _nemotron,
    "persimmon": _persimmon,
    "phi": _phi,
    "phi3": _phi3,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
}
