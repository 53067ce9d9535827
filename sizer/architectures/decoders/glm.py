"""GLM-4 (arXiv:2406.12793) and GLM-4-0414, which adds a norm after attention and after the MLP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder_names import LLAMA
from sizer.architectures.decoders.reading import dense, rotary_width
from sizer.architectures.decoders.ways import Ways
from sizer.architectures.registry import Reading

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

GLM = LLAMA._replace(mlp=("gate_up_proj", "down_proj"))
# Each layer repeats the angles for the pairs that they turn.
WAYS = Ways(core=("pairs", "parted", "angles_again"))
NORMS = ("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm")


def _glm(hf: HFConfig, **given: Any) -> Reading:
    rotary = rotary_width(hf, default=0.5)
    bias = hf["attention_bias"]
    return dense(hf, module_names=GLM, qkv_bias=bias, d_rotary=rotary, ways=WAYS, **given)


def _glm4(hf: HFConfig) -> Reading:
    return _glm(hf, norms=NORMS)


HF_READERS = {"glm": _glm, "glm4": _glm4}
