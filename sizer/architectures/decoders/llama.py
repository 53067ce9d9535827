"""LLaMA and the model types that are a LLaMA with other defaults, a window or other biases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder_names import LLAMA
from sizer.architectures.decoders.reading import (
    dense,
    every,
    listed_layers,
    per_layer,
    rotary_width,
    sliding,
    whole,
)
from sizer.architectures.decoders.ways import Ways
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# The later classes for question answering call the decoder as all others do.
MISTRAL = LLAMA._replace(qa="model")


def _llama(hf: HFConfig) -> Reading:
    """LLaMA; InternLM3 and IQuest-Coder are read into the same class."""
    bias = hf["attention_bias"]
    return dense(hf, qkv_bias=bias, o_bias=bias, mlp_bias=hf["mlp_bias"], d_rotary=rotary_width(hf))


def _arcee(hf: HFConfig) -> Reading:
    """Arcee's AFM: an MLP of two matrices around a squared ReLU."""
    bias = hf["attention_bias"]
    return dense(
        hf, gated=False, qkv_bias=bias, o_bias=bias, mlp_bias=hf["mlp_bias"], d_rotary=rotary_width(hf)
    )


def _mistral(hf: HFConfig) -> Reading:
    return dense(hf, module_names=MISTRAL, d_rotary=rotary_width(hf), **every(hf))


def _ministral3(hf: HFConfig) -> Reading:
    return dense(hf, module_names=MISTRAL, d_rotary=rotary_width(hf, kind="yarn"), **every(hf))


def _ministral(hf: HFConfig) -> Reading:
    return dense(hf, d_rotary=rotary_width(hf), **every(hf))


def _smollm3(hf: HFConfig) -> Reading:
    """SmolLM3: the layers without rotary positions are those that may slide."""
    bias = hf["attention_bias"]
    turned = per_layer(hf, "no_rope_layers")
    if not turned:
        interval = whole(hf, "no_rope_layer_interval")
        turned = tuple((i + 1) % interval for i in range(listed_layers(hf)))

    def slides(i: int) -> bool:
        return bool(hf["use_sliding_window"] and not turned[i])

    unturned = tuple(i for i in range(listed_layers(hf)) if not turned[i])
    return dense(
        hf,
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=hf["mlp_bias"],
        d_rotary=rotary_width(hf),
        ways=Ways(core=("full_mask",), unturned=unturned),
        **sliding(hf, slides, window=hf["sliding_window"]),
    )


def _seed_oss(hf: HFConfig) -> Reading:
    return dense(
        hf,
        qkv_bias=hf["attention_bias"],
        o_bias=hf["attention_out_bias"],
        mlp_bias=hf["mlp_bias"],
        d_rotary=rotary_width(hf),
    )


def _ernie(hf: HFConfig) -> Reading:
    bias = hf["use_bias"]
    return dense(hf, qkv_bias=bias, o_bias=bias, mlp_bias=bias, d_rotary=rotary_width(hf))


def _helium(hf: HFConfig) -> Reading:
    return dense(
        hf,
        qkv_bias=hf["attention_bias"],
        mlp_bias=hf["mlp_bias"],
        square_output=True,
        d_rotary=rotary_width(hf),
    )


def _hunyuan(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    return dense(
        hf,
        qkv_bias=bias,
        o_bias=bias,
        qk_norm="head",
        qk_norm_names=("query_layernorm", "key_layernorm"),
        d_rotary=rotary_width(hf),
    )


def _cwm(hf: HFConfig) -> Reading:
    """Code World Model: every fourth layer, from the first, sees all tokens."""
    windows = sliding(hf, lambda i: i % 4 != 0, window=hf["sliding_window"])
    return dense(hf, mlp_bias=hf["mlp_bias"], d_rotary=rotary_width(hf, kind="llama3"), **windows)


HF_READERS = {
    "arcee": _arcee,
    "cwm": _cwm,
    "ernie4_5": _ernie,
    "helium": _helium,
    "hunyuan_v1_dense": _hunyuan,
    "hunyuan_vl_text": _hunyuan,
    "internlm3": _llama,
    "iquestcoder": _llama,
    "llama": _llama,
    "ministral": _ministral,
    "ministral3": _ministral3,
    "mistral": _mistral,
    "seed_oss": _seed_oss,
    "smollm3": _smollm3,
}
