"""EXAONE 3 (arXiv:2408.03541), a LLaMA under GPT-2's names, and EXAONE 4 (arXiv:2507.11407)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, decoder
from sizer.architectures.decoders.decoder_names import LLAMA
from sizer.architectures.decoders.olmo import POST_NORMS
from sizer.architectures.decoders.reading import dense, rotary_width, sliding, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.core.tree import Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# transformers renames what stands inside of a block in any class, and the rest below a head alone.
BLOCK = LLAMA._replace(attention="attn.attention", output="out_proj", mlp=("c_fc_0", "c_fc_1", "c_proj"))
PUBLISHED = BLOCK._replace(model="transformer", embedding="wte", block="h", final_norm="ln_f")


def exaone(c: DecoderConfig) -> Module:
    """EXAONE 3, published under names of its own; transformers loads it as a `LlamaModel`."""
    if c.layout == "transformers":
        return decoder(c)
    names = BLOCK if c.task == "base" else PUBLISHED
    return decoder(replace(c, module_names=names, norms=("ln_1", "", "ln_2", "")))


ARCHITECTURES = {"exaone": Architecture(DecoderConfig, exaone)}


def _exaone(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    return dense(hf, "exaone", qkv_bias=bias, o_bias=bias, mlp_bias=hf["mlp_bias"], d_rotary=rotary_width(hf))


def _exaone4(hf: HFConfig) -> Reading:
    """Norms after each part; of every `sliding_window_pattern` layers the last sees all tokens."""
    pattern = hf["sliding_window_pattern"]

    def slides(i: int) -> bool:
        if isinstance(pattern, str) and pattern:
            # Early files spell it out: "LLLG", three local layers and a global one.
            return pattern[i % len(pattern)] == "L"
        return (i + 1) % whole(hf, "sliding_window_pattern") != 0

    return dense(
        hf,
        norms=POST_NORMS,
        qk_norm="head",
        d_rotary=rotary_width(hf),
        **sliding(hf, slides, window=hf["sliding_window"]),
    )


HF_READERS = {"exaone": _exaone, "exaone4": _exaone4}
