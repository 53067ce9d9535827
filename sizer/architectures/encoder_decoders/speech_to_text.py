"""Speech2Text: convolutions over a spectrogram, gated, and a BART of both halves with waves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoder_decoders.bart import BartConfig
from sizer.architectures.encoder_decoders.bart_layers import decoder_layer, encoder_layer
from sizer.architectures.encoder_decoders.bart_types import sizes
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, gate_op, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# Rows of a table of waves before the first position.
OFFSET = 2


@configuration
class Speech2TextConfig(BartConfig):
    """Sizes of a Speech2Text.

    `kernels`: frames under each convolution over `n_mels` numbers. `d_stem`: channels between them,
    a gate and a value of `d_half` each.
    """

    n_layers: Dim
    n_mels: Dim
    kernels: PerLayer
    d_stem: Dim
    d_half: Dim

    letters = {**BartConfig.letters, "n_mels": "Nm", "kernels": "K", "d_stem": "Cv", "d_half": "Ch"}
    meanings = {
        **BartConfig.meanings,
        "n_mels": "mel bands of the spectrogram",
        "d_stem": "channels of the convolutions",
        "d_half": "half of them",
    }


def speech_to_text(c: Speech2TextConfig) -> Module:
    """Speech2Text (arXiv:2010.05171), with the names of `Speech2TextForConditionalGeneration`.

    Source: transformers `modeling_speech_to_text.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    encoder = (
        *_convolutions(c, embed),
        *_waves(c, c.n_source_ctx, embed),
        encoder_layer(c, embed),
        layer_norm("layer_norm", embed),
    )
    decoder = (
        embedding("embed_tokens", vocab, embed),
        *_waves(c, c.n_ctx, embed),
        decoder_layer(c, embed),
        layer_norm("layer_norm", embed),
    )
    model = (Module("encoder", encoder, stream="encoder"), Module("decoder", decoder))
    if c.task == "base":
        return Module("", model)
    tied = "model.decoder.embed_tokens.weight" if c.tie_embeddings else None
    return Module(
        "", (Module("model", model), linear("lm_head", vocab, embed, tied_to=tied, component="head"))
    )


def _convolutions(c: Speech2TextConfig, embed: Axis) -> list[Module]:
    """Each gives a gate and a value."""
    half, found = Axis("half", c.d_half), []
    kernels = c.kernels.sizes()
    for i, frames in enumerate(kernels):
        inp = Axis("mels", c.n_mels) if i == 0 else half
        last = i == len(kernels) - 1
        out = 2 * embed if last else Axis("stem", c.d_stem)
        leaves = (
            Param("weight", (out, inp, Axis("kernel", frames)), "matmul"),
            Param("bias", (out,)),
            gate_op("sigmoid", c.d_model if last else c.d_half),
        )
        found.append(Module(f"conv.conv_layers.{i}", leaves, component="embedding", kind="conv"))
    return found


def _waves(c: Speech2TextConfig, rows: Dim, embed: Axis) -> tuple[Module, ...]:
    if c.layout == "checkpoint":
        return ()
    table = buffer("weights", Axis("context", rows + OFFSET), embed, persistent=False)
    return (Module("embed_positions", (table,)),)


ARCHITECTURES = {"speech_to_text": Architecture(Speech2TextConfig, speech_to_text)}


def _speech_to_text(hf: HFConfig) -> Reading:
    kernels = tuple(hf["conv_kernel_sizes"])
    if len(kernels) != hf["num_conv_layers"]:
        raise InvalidConfig(f"conv_kernel_sizes lists {len(kernels)} of {hf['num_conv_layers']} convolutions")
    given = hf.fill(
        Speech2TextConfig,
        **{**sizes(hf), "task": "base" if hf.cls.endswith("Model") else "seq2seq"},
        n_ctx=hf["max_target_positions"],
        n_source_ctx=hf["max_source_positions"],
        n_mels=hf["input_feat_per_channel"] * hf["input_channels"],
        kernels=PerLayer(kernels),
        d_stem=hf["conv_channels"],
        d_half=hf["conv_channels"] // 2,
    )
    return Reading("speech_to_text", given)


HF_READERS = {"speech_to_text": _speech_to_text}
