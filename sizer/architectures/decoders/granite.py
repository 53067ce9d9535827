"""Granite (IBM 2024) and HyperCLOVA X: LLaMA with multipliers, which have no parameters.

`granite_swa` adds windows and attention sinks, HyperCLOVA X norms after each part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder_names import LLAMA
from sizer.architectures.decoders.reading import dense, per_layer, rotary_width, sliding
from sizer.architectures.decoders.ways import SCALED, Ways
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


# Each of its multipliers is a number that is always multiplied with.
WAYS = Ways(scales_embedding=True, scales_parts=True, logits=SCALED)


def granite(hf: HFConfig, **given: Any) -> Reading:
    """What all of them share."""
    bias = hf["attention_bias"]
    usual = {"mlp_bias": hf["mlp_bias"], "d_rotary": rotary_width(hf), "ways": WAYS}
    return dense(hf, qkv_bias=bias, o_bias=bias, **{**usual, **given})


def _granite_swa(hf: HFConfig) -> Reading:
    """Every fourth layer, from the first, sees all tokens.

    A rotary module stands in memory for each base of the layers, beside one that nothing uses.
    """
    thetas = per_layer(hf, "layer_rope_theta")
    bases = 1 if thetas is None else len({theta for theta in thetas if theta})
    rotary = ("rotary_emb", *(f"rotary_embs.{i}" for i in range(bases)))
    windows = sliding(hf, lambda i: i % 4 != 0, window=hf["sliding_window"])
    return granite(hf, sinks=True, module_names=LLAMA._replace(rotary=rotary), **windows)


def _hyperclovax(hf: HFConfig) -> Reading:
    after = ("post_norm1", "post_norm2") if hf["use_post_norm"] else ("", "")
    return granite(hf, norms=("input_layernorm", after[0], "post_attention_layernorm", after[1]))


HF_READERS = {"granite": granite, "granite_swa": _granite_swa, "hyperclovax": _hyperclovax}
