"""LFM3's vision tower: layers of attention among layers of short convolutions over the image."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import listed_layers, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import (
    TowerConfig,
    TowerNames,
    attention,
    convolution,
    feed_forward,
    rotary,
)
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import gate_op, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import EACH, Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(block="layers", mlp=("feed_forward", "w1", "w3", "w2"), rotary="rotary_pos_emb")


@configuration
class LfmVisionConfig(TowerConfig):
    """Sizes of the tower. `kinds`: "conv" or "attention" for each layer."""

    n_pixels: Dim
    d_conv: Dim
    kinds: Pattern

    letters = {**TowerConfig.letters, "n_pixels": "Np", "d_conv": "Kc", "kinds": "L"}
    meanings = {
        **TowerConfig.meanings,
        "n_pixels": "numbers of a patch",
        "d_conv": "side of the convolutions",
    }


def lfm_vision(c: LfmVisionConfig) -> Module:
    """The tower, with the names of `Lfm3VlVisionModel`. Source: transformers `modeling_lfm3_vl.py`."""
    embed, side = Axis("embed", c.d_model), Axis("kernel", c.d_conv)
    stored = c.layout == "checkpoint"
    if stored:
        c = replace(c, module_names=c.module_names._replace(qk_norms=("q_layernorm", "k_layernorm")))
    convolve = Module(
        "conv",
        (
            linear("in_proj", 3 * embed, embed),
            convolution(
                "spatial_conv",
                embed,
                Axis("one", 1),
                side,
                side,
                bias=False,
                component="mixer",
                places=EACH,
            ),
            gate_op("identity", 2 * c.d_model),
            linear("out_proj", embed, embed),
        ),
        component="mixer",
        at=c.kinds.layers("conv"),
    )
    block = Module(
        "layers",
        (
            rms_norm("operator_norm", embed),
            convolve,
            attention(c)._replace(at=c.kinds.layers("attention")),
            rms_norm("ffn_norm", embed),
            feed_forward(c),
        ),
        repeat=c.n_layers,
    )
    first = linear(
        "patchifier" if stored else "patch_embed", embed, Axis("pixels", c.n_pixels), component="embedding"
    )
    return Module("", (first, *rotary(c), rms_norm("embedding_norm", embed), block))


ARCHITECTURES = {"lfm_vision": Architecture(LfmVisionConfig, lfm_vision)}


def _vision(hf: HFConfig) -> Reading:
    n_layers, width = listed_layers(hf), whole(hf, "hidden_size")
    kinds = hf.per_layer("layer_types", n_layers)
    if kinds is None:
        kinds = ["conv" if i < 2 or i % 2 else "full_attention" for i in range(n_layers)]
    half = width // whole(hf, "num_attention_heads") // 2
    given = {
        "d_model": width,
        "n_layers": n_layers,
        "n_heads": hf["num_attention_heads"],
        "n_kv_heads": hf["num_key_value_heads"],
        "d_ff": hf["intermediate_size"],
        "n_pixels": whole(hf, "in_channels")
        * whole(hf, "temporal_patch_size")
        * whole(hf, "patch_size") ** 2,
        "d_conv": hf["conv_kernel_size"],
        "kinds": Pattern(tuple("conv" if kind == "conv" else "attention" for kind in kinds)),
        "d_rotary": half + half % 2,
        "bias": "",
        "mlp_bias": False,
        "down_bias": False,
        "gated": True,
        "norm": "rms",
        "qk_norm": "head",
        "act": "silu",
        "module_names": NAMES,
    }
    return Reading("lfm_vision", given)


HF_READERS = {"lfm3_vl_vision": _vision}
