"""MiMo: a Qwen2 with layers that predict tokens further ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, attention, decoder, feed_forward
from sizer.architectures.decoders.decoder_names import LLAMA
from sizer.architectures.decoders.reading import dense
from sizer.architectures.heads import with_parts
from sizer.architectures.mtp import mtp_layers
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear, rms_norm
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

_NAMES = LLAMA._replace(rotary=())


@configuration
class MiMoConfig(DecoderConfig):
    """Sizes and switches of a MiMo.

    `mtp_layers`: layers for multi-token prediction, in the count where `count_mtp` says so.
    """

    mtp_layers: Dim | None = None
    count_mtp: bool = False


def mimo(c: MiMoConfig) -> Module:
    """MiMo (arXiv:2505.07608), with the tensor names of `MiMoForCausalLM`.

    Source: XiaomiMiMo/MiMo-7B-RL `modeling_mimo.py`.
    """
    return with_parts(decoder(c), c, *mtp_layers(c, "mtp_layers", _mtp_layer(c)))


def _mtp_layer(c: MiMoConfig) -> tuple[Module, ...]:
    """A block over the next token's embedding and the last hidden state, side by side."""
    embed = Axis("embed", c.d_model)
    return (
        rms_norm("token_layernorm", embed),
        rms_norm("hidden_layernorm", embed),
        linear("input_proj", embed, 2 * embed),
        rms_norm("input_layernorm", embed),
        attention(c),
        rms_norm("post_attention_layernorm", embed),
        feed_forward(c),
        rms_norm("final_layernorm", embed),
    )


ARCHITECTURES = {"mimo": Architecture(MiMoConfig, mimo)}


def _mimo(hf: HFConfig) -> Reading:
    return dense(
        hf,
        "mimo",
        MiMoConfig,
        module_names=_NAMES,
        qkv_bias=True,
        mtp_layers=hf.get("num_nextn_predict_layers") or None,
        count_mtp=bool(hf.get("count_mtp")),
    )


HF_READERS = {"mimo": _mimo}
