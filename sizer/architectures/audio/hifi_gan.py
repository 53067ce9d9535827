"""SeamlessM4T's vocoder: from units of speech to a waveform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture
from sizer.architectures.tower import Children, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
# Both ends of the reference's HiFi-GAN see seven samples.
END_KERNEL = 7


@configuration
class HifiGanConfig(Config):
    """Sizes of a unit vocoder.

    `channels`: of each stage, the first before any upsampling; `kernels`: of each upsampling;
    `block_kernels`, `dilations`: of the blocks of a stage, and how many convolutions each has.
    """

    d_model: Dim
    n_units: Dim
    n_speakers: Dim
    n_languages: Dim
    d_speaker: Dim
    d_language: Dim
    predictor_kernel: Dim
    channels: PerLayer
    kernels: PerLayer
    block_kernels: PerLayer
    n_dilations: PerLayer
    task: str = "base"

    letters = {
        "n_units": "Vu",
        "n_speakers": "Ns",
        "n_languages": "Nlg",
        "d_speaker": "Ds",
        "d_language": "Dl",
        "predictor_kernel": "Kp",
        "channels": "C",
        "kernels": "Ku",
        "block_kernels": "Kb",
        "n_dilations": "Nd",
    }
    meanings = {
        "d_model": "width of a unit",
        "n_units": "units of speech",
        "n_speakers": "speakers",
        "n_languages": "languages",
        "d_speaker": "width of a speaker's vector",
        "d_language": "width of a language's vector",
        "predictor_kernel": "units under the predictor of durations",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def hifi_gan(c: HifiGanConfig) -> Module:
    """The vocoder (arXiv:2010.05646, arXiv:2104.00355), with the names of `SeamlessM4TCodeHifiGan`.

    Source: transformers `modeling_seamless_m4t.py`.
    """
    unit, speaker, language = (
        Axis("unit", c.d_model),
        Axis("speaker", c.d_speaker),
        Axis("language", c.d_language),
    )
    whole_input = Axis("input", c.d_model + c.d_speaker + c.d_language)
    end, kernels = Axis("kernel", END_KERNEL), c.kernels.sizes()
    widths = [Axis("channels", width) for width in c.channels.sizes()]
    upsampler = tuple(
        _upsample(f"upsampler.{i}", widths[i], widths[i + 1], kernel) for i, kernel in enumerate(kernels)
    )
    per_stage = len(c.block_kernels.sizes())
    blocks = (
        Module(f"resblocks.{i * per_stage + j}", _block(c, j, widths[i + 1]))
        for i in range(len(kernels))
        for j in range(per_stage)
    )
    gan = (
        convolution("conv_pre", widths[0], whole_input, end, component="other"),
        *upsampler,
        *blocks,
        convolution("conv_post", ONE, widths[-1], end, component="other"),
    )
    return Module(
        "",
        (
            predictor("dur_predictor", unit, unit, c.predictor_kernel),
            embedding("unit_embedding", Axis("units", c.n_units), unit),
            embedding("speaker_embedding", Axis("speakers", c.n_speakers), speaker),
            embedding("language_embedding", Axis("languages", c.n_languages), language),
            Module("hifi_gan", gan),
        ),
        component="other",
    )


def _upsample(name: str, inp: Axis, out: Axis, kernel: Dim) -> Module:
    """A transposed convolution, which stores its inputs first."""
    weight = Param("weight", (inp, out, Axis("kernel", kernel)), "matmul")
    return Module(name, (weight, Param("bias", (out,))), kind="conv", component="other")


def _block(c: HifiGanConfig, j: int, width: Axis) -> Children:
    kernel, times = Axis("kernel", c.block_kernels.sizes()[j]), c.n_dilations.sizes()[j]
    return tuple(
        convolution(name, width, width, kernel, component="other")._replace(repeat=times)
        for name in ("convs1", "convs2")
    )


def predictor(name: str, embed: Axis, hidden: Axis, kernel: Dim) -> Module:
    """Two convolutions and a number for each unit: how long it lasts."""
    frames = Axis("kernel", kernel)
    return Module(
        name,
        (
            convolution("conv1", hidden, embed, frames, act="relu", component="other"),
            layer_norm("ln1", hidden),
            convolution("conv2", hidden, hidden, frames, act="relu", component="other"),
            layer_norm("ln2", hidden),
            linear("proj", ONE, hidden, bias=True),
        ),
        component="other",
    )


ARCHITECTURES = {"hifi_gan": Architecture(HifiGanConfig, hifi_gan)}


def vocoder_fields(hf: HFConfig) -> dict[str, Any]:
    """The vocoder's fields in the configuration of a SeamlessM4T."""
    kernels, first = tuple(hf["upsample_kernel_sizes"]), whole(hf, "upsample_initial_channel")
    if first % 2 ** len(kernels):
        raise InvalidConfig(f"upsample_initial_channel = {first} cannot be halved {len(kernels)} times")
    return {
        "task": "base",
        "d_model": hf["unit_embed_dim"],
        "n_units": hf["unit_hifi_gan_vocab_size"],
        "n_speakers": hf["vocoder_num_spkrs"],
        "n_languages": hf["vocoder_num_langs"],
        "d_speaker": hf["spkr_embed_dim"],
        "d_language": hf["lang_embed_dim"],
        "predictor_kernel": hf["variance_predictor_kernel_size"],
        "channels": PerLayer(tuple(first // 2**i for i in range(len(kernels) + 1))),
        "kernels": PerLayer(kernels),
        "block_kernels": PerLayer(tuple(hf["resblock_kernel_sizes"])),
        "n_dilations": PerLayer(tuple(len(dilations) for dilations in hf["resblock_dilation_sizes"])),
    }
