"""The text model of Voxtral Realtime: a decoder whose MLPs are told how far it lags behind the sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, decoder
from sizer.architectures.decoders.reading import dense, every
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module, Op

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# The reference writes the width of the bottleneck into its code.
DELAY_RANK = 32


@configuration
class VoxtralTextConfig(DecoderConfig):
    """A LLaMA-like decoder, and the rank of what the delay adds to the norm before an MLP."""

    delay_rank: Dim = DELAY_RANK

    letters = {**DecoderConfig.letters, "delay_rank": "Rt"}
    meanings = {**DecoderConfig.meanings, "delay_rank": "rank of the scale by the delay"}


def voxtral_text(c: VoxtralTextConfig) -> Module:
    """Voxtral Realtime's text, with the names of `VoxtralRealtimeTextModel`.

    Source: transformers `modeling_voxtral_realtime.py`.
    """
    embed, rank = Axis("embed", c.d_model), Axis("rank", c.delay_rank)
    scale = Module(
        "ada_rms_norm",
        (
            linear("linear1", rank, embed),
            Op("act", "gelu", {"width": rank.size}),
            linear("linear2", embed, rank),
        ),
        component="norm",
    )
    tree = decoder(c)
    tokens, block, *rest = tree.children
    assert isinstance(block, Module)
    return tree._replace(children=(tokens, block._replace(children=(*block.children, scale)), *rest))


ARCHITECTURES = {"voxtral_realtime_text": Architecture(VoxtralTextConfig, voxtral_text)}


def _voxtral_text(hf: HFConfig) -> Reading:
    return dense(hf, "voxtral_realtime_text", **every(hf))


HF_READERS = {"voxtral_realtime_text": _voxtral_text}
