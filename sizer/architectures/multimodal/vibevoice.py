"""VibeVoice ASR: two convolutional encoders of the waveform, for its sound and its sense, and the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, PartNames, bare, multimodal, reading
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear, mlp, rms_norm
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
PLACES = PartNames(audio="acoustic_tokenizer_encoder")


@configuration
class TokenizerConfig(Config):
    """Sizes of an encoder.

    Channels double from `d_base` at each stage; `depths` are the blocks of each, `ratios` how many
    frames become one between two of them. `expansion`: width of an MLP in multiples of its channels.
    """

    d_base: Dim
    d_model: Dim
    depths: PerLayer
    ratios: PerLayer
    kernel_size: Dim
    expansion: Dim
    n_channels: Dim = 1
    act: str = "gelu"
    task: str = "base"

    letters = {
        "d_base": "Cb",
        "depths": "Nb",
        "ratios": "R",
        "kernel_size": "Kc",
        "expansion": "X",
        "n_channels": "Nc",
    }
    meanings = {
        "d_model": "width that the encoder gives",
        "d_base": "channels of the first stage",
        "kernel_size": "frames under a convolution",
        "expansion": "width of an MLP in multiples of its channels",
        "n_channels": "channels of the sound",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


@configuration
class VibeVoiceConfig(MultimodalConfig):
    """The parts, and the second encoder."""

    semantic: Part
    d_semantic: Dim

    letters = {**MultimodalConfig.letters, "semantic": "sem", "d_semantic": "D_sem"}
    meanings = {**MultimodalConfig.meanings, "d_semantic": "width of the second encoder"}


def encoder(c: TokenizerConfig) -> Module:
    """The encoder, with the names of `VibeVoiceAcousticTokenizerEncoderModel`.

    Source: transformers `modeling_vibevoice_acoustic_tokenizer.py`.
    """
    kernel, depths = Axis("kernel", c.kernel_size), c.depths.sizes()
    widths = [Axis("channels", 2**i * c.d_base) for i in range(len(depths))]
    stem = convolution("conv.conv", widths[0], Axis("sound", c.n_channels), kernel)
    stages = (
        Module(
            f"conv_layers.{i}",
            (
                convolution("conv.conv", widths[i + 1], widths[i], Axis("kernel", 2 * ratio)),
                _stage(c, widths[i + 1], depths[i + 1]),
            ),
        )
        for i, ratio in enumerate(c.ratios.sizes())
    )
    head = convolution("head.conv", Axis("embed", c.d_model), widths[-1], kernel, component="other")
    return Module("", (Module("stem", (stem, _stage(c, widths[0], depths[0]))), *stages, head))


def _stage(c: TokenizerConfig, width: Axis, depth: Dim) -> Module:
    """Blocks like ConvNeXt's: a convolution of each channel, and an MLP, both scaled."""
    ffn, kernel = Axis("ffn", c.expansion * width.size), Axis("kernel", c.kernel_size)
    parts: Children = (
        rms_norm("norm", width),
        convolution("mixer.conv", width, ONE, kernel, component="mixer"),
        Param("gamma", (width,)),
        rms_norm("ffn_norm", width),
        mlp("ffn", ffn, width, act=c.act, names=("linear1", "linear2")),
        Param("ffn_gamma", (width,)),
    )
    return Module("stage", parts, repeat=depth)


def vibevoice_asr(c: VibeVoiceConfig) -> Module:
    """VibeVoice ASR, with the names of `VibeVoiceAsrForConditionalGeneration`."""
    embed = Axis("embed", c.d_model)

    def path(name: str, width: Dim) -> Children:
        return (
            linear(f"{name}_linear_1", embed, Axis("audio", width), bias=True),
            rms_norm(f"{name}_norm", embed),
            linear(f"{name}_linear_2", embed, embed, bias=True),
        )

    bridge = (*path("acoustic", c.d_audio), *path("semantic", c.d_semantic))
    return multimodal(
        c,
        c.semantic.module("semantic_tokenizer_encoder", layout=c.layout, stream="encoder"),
        Module(c.places.bridge, bridge, component="other", stream="encoder"),
    )


ARCHITECTURES = {
    "vibevoice_asr": Architecture(VibeVoiceConfig, vibevoice_asr),
    "vibevoice_tokenizer": Architecture(TokenizerConfig, encoder),
}


def _encoder(hf: HFConfig) -> Reading:
    depths, ratios = tuple(hf["depths"]), tuple(hf["downsampling_ratios"])
    if len(depths) != len(ratios) + 1:
        raise InvalidConfig(
            f"depths lists {len(depths)} stages and downsampling_ratios {len(ratios)}; "
            "there is one ratio between two stages"
        )
    given = {
        "task": "base",
        "d_base": hf["num_filters"],
        "d_model": hf["hidden_size"],
        "depths": PerLayer(depths),
        "ratios": PerLayer(ratios),
        "kernel_size": hf["kernel_size"],
        "expansion": hf["ffn_expansion"],
        "n_channels": hf["channels"],
        "act": hf["hidden_act"],
    }
    return Reading("vibevoice_tokenizer", given)


def _vibevoice_asr(hf: HFConfig) -> Reading:
    acoustic = hf.nested("acoustic_tokenizer_encoder_config")
    semantic = hf.nested("semantic_tokenizer_encoder_config")
    return reading(
        hf,
        "vibevoice_asr",
        audio=acoustic,
        d_audio=acoustic["hidden_size"],
        semantic=bare(semantic),
        d_semantic=semantic["hidden_size"],
        places=PLACES,
        files="whole_text",
    )


HF_READERS = {"vibevoice_asr": _vibevoice_asr, "vibevoice_acoustic_tokenizer_encoder": _encoder}
