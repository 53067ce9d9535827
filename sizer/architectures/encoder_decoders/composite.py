"""An encoder of one model type and a decoder of another, each read by the reader of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.parts import Part, part_of
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class EncoderDecoderConfig(Config):
    """The two parts; where their widths differ, a matrix from `d_encoder` to `d_decoder`."""

    encoder: Part
    decoder: Part
    d_encoder: Dim | None = None
    d_decoder: Dim | None = None
    task: str = "seq2seq"

    # The widths are those of the parts, and so are their letters.
    letters = {"encoder": "enc", "decoder": "dec", "d_encoder": "D_enc", "d_decoder": "D_dec"}

    def __post_init__(self) -> None:
        check_sizes(self)


def encoder_decoder(c: EncoderDecoderConfig) -> Module:
    """Any encoder and decoder (Rothe et al. 2020), with the names of `EncoderDecoderModel`.

    Source: transformers `modeling_encoder_decoder.py`.
    """
    widen: tuple[Module, ...] = ()
    if c.d_encoder is not None:
        inp, out = Axis("source", c.d_encoder), Axis("embed", c.d_decoder)
        widen = (linear("enc_to_dec_proj", out, inp, bias=True)._replace(stream="encoder"),)
    return Module(
        "",
        (
            c.encoder.module("encoder", layout=c.layout, stream="encoder"),
            *widen,
            c.decoder.module("decoder", layout=c.layout),
        ),
    )


ARCHITECTURES = {"encoder_decoder": Architecture(EncoderDecoderConfig, encoder_decoder)}


def _encoder_decoder(hf: HFConfig) -> Reading:
    for side in ("encoder", "decoder"):
        if not hf.given(side):
            raise InvalidConfig(f"{hf.name}: an encoder-decoder needs the configuration of its {side}")
    encoder, decoder = hf.nested("encoder").as_task("base"), hf.nested("decoder").as_task("causal")
    same = encoder["hidden_size"] == decoder["hidden_size"]
    reads = decoder.given("cross_attention_hidden_size") and decoder["cross_attention_hidden_size"]
    given = {
        "task": "seq2seq",
        "encoder": part_of(encoder),
        "decoder": part_of(decoder),
        "d_encoder": None if same or reads else encoder["hidden_size"],
        "d_decoder": None if same or reads else decoder["hidden_size"],
    }
    return Reading("encoder_decoder", given)


HF_READERS = {"encoder-decoder": _encoder_decoder, "vision-encoder-decoder": _encoder_decoder}
