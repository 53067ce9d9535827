"""Whisper: convolutions over a spectrogram, a BART-like encoder, and a decoder of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoder_decoders.bart import BartConfig, decoder
from sizer.architectures.encoder_decoders.bart_layers import encoder_layer, final_norm
from sizer.architectures.encoder_decoders.bart_types import sizes
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import ONCE, Axis, Leaf, Module, Op, Param, Places

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class WhisperConfig(BartConfig):
    """Sizes and switches of a Whisper.

    `task` "audio_classification" is the encoder with a classifier; `weighted_layers` gives that
    a weight for the output of each layer.
    """

    n_layers: Dim
    n_mels: Dim
    d_projection: Dim | None = None
    weighted_layers: bool = False

    letters = {**BartConfig.letters, "n_mels": "Nm", "d_projection": "Dpj"}
    meanings = {
        **BartConfig.meanings,
        "n_mels": "mel bands of the spectrogram",
        "d_projection": "width before the classifier",
    }


def whisper(c: WhisperConfig) -> Module:
    """Whisper (Radford et al. 2022), with the tensor names of `WhisperForConditionalGeneration`.

    Source: transformers `modeling_whisper.py`.
    """
    embed = Axis("embed", c.d_model)
    text = Module("decoder", decoder(c, embed))
    tokens = "model.decoder.embed_tokens.weight" if c.tie_embeddings else None
    vocab, labels = Axis("vocab", c.vocab_size), Axis("labels", c.n_labels)
    head = linear("proj_out", vocab, embed, tied_to=tokens, component="head")
    if c.task == "causal":
        return Module("", (Module("model", (text,)), head))
    # Whatever is heard is cut, or filled, to half a minute.
    audio = Module("encoder", _encoder(c, embed), places=Places(c.n_source_ctx))
    if c.task == "audio_classification":
        projection = Axis("projection", c.d_projection)
        layer_weights = (Param("layer_weights", (Axis("layers", c.n_layers + 1),), component="head"),)
        return Module(
            "",
            (
                audio,
                *(layer_weights if c.weighted_layers else ()),
                linear("projector", projection, embed, bias=True, component="head", places=audio.places),
                linear("classifier", labels, projection, bias=True, component="head", places=ONCE),
            ),
        )
    model = (audio._replace(stream="encoder"), text)
    return Module("", model) if c.task == "base" else Module("", (Module("model", model), head))


def _encoder(c: WhisperConfig, embed: Axis) -> tuple[Module, ...]:
    table = Param("weight", (Axis("context", c.n_source_ctx), embed), "lookup", trainable=False)
    return (
        # The second convolution halves the length, so the first runs at twice the encoder's.
        _conv("conv1", embed, Axis("mels", c.n_mels))._replace(uses=2),
        _conv("conv2", embed, embed),
        Module("embed_positions", (table,), kind="embedding", component="position"),
        encoder_layer(c, embed),
        *final_norm(c, embed),
    )


def _conv(name: str, out: Axis, inp: Axis) -> Module:
    """A convolution over time of width three, which multiplies as a matrix of that many inputs."""
    leaves: tuple[Leaf, ...] = (
        Param("weight", (out, inp, Axis("kernel", 3)), "matmul"),
        Param("bias", (out,)),
        Op("act", "gelu", {"width": out.size}),
    )
    return Module(name, leaves, component="embedding")


ARCHITECTURES = {"whisper": Architecture(WhisperConfig, whisper)}


def _whisper(hf: HFConfig) -> Reading:
    given = hf.fill(
        WhisperConfig,
        **sizes(hf),
        n_ctx=hf["max_target_positions"],
        n_source_ctx=hf["max_source_positions"],
        n_mels=hf["num_mel_bins"],
        d_projection=hf["classifier_proj_size"],
        weighted_layers=hf["use_weighted_layer_sum"],
        embeddings="separate",
        position_offset=0,
        embedding_norm=False,
        final_norm=True,
        key_bias=False,
    )
    return Reading("whisper", given)


HF_READERS = {"whisper": _whisper}
