"""SEW: wav2vec 2.0 whose blocks run over frames squeezed together, and spread again after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.audio.wav2vec2 import (
    Wav2Vec2Config,
    feature_layers,
    positions,
    with_speech_head,
)
from sizer.architectures.audio.wav2vec2_types import wav2vec2_fields
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import blocks
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, Places

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class SewConfig(Wav2Vec2Config):
    """Sizes of a SEW. `n_squeezed`: frames that the blocks see as one; `projected`: it changes widths."""

    n_squeezed: Dim = 2
    projected: bool = True

    letters = {**Wav2Vec2Config.letters, "n_squeezed": "Nq"}
    meanings = {**Wav2Vec2Config.meanings, "n_squeezed": "frames that the blocks see as one"}


def sew(c: SewConfig) -> Module:
    """SEW (arXiv:2109.06870), with the names of `SEWForCTC`. Source: transformers `modeling_sew.py`."""
    embed, waveform = Axis("embed", c.d_model), Axis("channels", c.channels.sizes()[-1])
    spread = c.n_squeezed * embed.size
    upsample = (
        linear("projection", Axis("spread", spread), embed, bias=True, component="other"),
        Op("act", "gelu", {"width": spread}),
    )
    encoder = (
        Module("pos_conv_embed", positions(c, embed), component="position"),
        layer_norm("layer_norm", embed),
        blocks(c),
        Module("upsample", upsample),
    )
    # T tokens go through the blocks; each is made of so many frames, and becomes them again.
    frames = Places(each=c.n_squeezed)
    narrow = linear("feature_projection", embed, waveform, bias=True, component="embedding", places=frames)
    model = (
        *((Param("masked_spec_embed", (embed,), component="embedding"),) if c.masked else ()),
        Module("feature_extractor", feature_layers(c, frames)),
        layer_norm("layer_norm", waveform),
        *((narrow,) if c.projected else ()),
        Module("encoder", encoder),
    )
    return with_speech_head(c, model, embed, waveform, frames)


ARCHITECTURES = {"sew": Architecture(SewConfig, sew)}


def _sew(hf: HFConfig) -> Reading:
    given = {
        "prefix": "sew",
        "n_squeezed": whole(hf, "squeeze_factor"),
        "projected": list(hf["conv_dim"])[-1] != hf["hidden_size"],
    }
    return Reading("sew", wav2vec2_fields(hf, **given))


HF_READERS = {"sew": _sew}
