"""DAC: a codec of waveforms, of whose latents each codebook keeps a narrow view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.audio.parts import ONE, doubled, transposed
from sizer.architectures.audio.seanet import listed
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# Frames under the convolutions at both ends and in the blocks, and under the last of the encoder.
KERNEL = Axis("kernel", 7)
LAST_KERNEL = Axis("kernel", 3)
N_UNITS = 3


@configuration
class DacConfig(Config):
    """Sizes of a DAC.

    The encoder's channels double from `d_base`; `decoder_channels` are those of the decoder's stages.
    `ratios`: how many frames become one at each stage of the encoder; `decoder_ratios`: what one
    becomes at each of the decoder. `d_code`: width of a code.
    """

    d_base: Dim
    d_model: Dim
    ratios: PerLayer
    decoder_channels: PerLayer
    decoder_ratios: PerLayer
    n_codebooks: Dim
    codebook_size: Dim
    d_code: Dim
    task: str = "base"

    letters = {
        "d_base": "Cb",
        "ratios": "R",
        "decoder_channels": "Cd",
        "decoder_ratios": "Rd",
        "n_codebooks": "Nq",
        "codebook_size": "Vq",
        "d_code": "Dq",
    }
    meanings = {
        "d_model": "width that the encoder gives",
        "d_base": "channels of the encoder's first stage",
        "n_codebooks": "codebooks",
        "codebook_size": "codes of a codebook",
        "d_code": "width of a code",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def dac(c: DacConfig) -> Module:
    """DAC (arXiv:2306.06546), with the names of `DacModel`. Source: transformers `modeling_dac.py`."""
    embed = Axis("embed", c.d_model)
    return Module(
        "",
        (
            Module("encoder", encoder(c, embed)),
            Module("decoder", decoder(c, embed)),
            Module("quantizer", (Module("quantizers", _quantizer(c, embed), repeat=c.n_codebooks),)),
        ),
        component="other",
    )


def encoder(c: DacConfig, embed: Axis) -> Children:
    """From samples to frames."""
    ratios = c.ratios.sizes()
    widths = doubled(c.d_base, len(ratios))
    stages = (
        Module(
            f"block.{i}",
            (
                *_units(widths[i]),
                snake("snake1", widths[i]),
                conv("conv1", widths[i + 1], widths[i], 2 * ratio),
            ),
        )
        for i, ratio in enumerate(ratios)
    )
    return (
        conv("conv1", widths[0], ONE, KERNEL.size),
        *stages,
        snake("snake1", widths[-1]),
        conv("conv2", embed, widths[-1], LAST_KERNEL.size),
    )


def decoder(c: DacConfig, embed: Axis) -> Children:
    """From frames to samples."""
    widths = [Axis("channels", width) for width in c.decoder_channels.sizes()]
    stages = (
        Module(
            f"block.{i}",
            (
                snake("snake1", widths[i]),
                transposed("conv_t1", widths[i + 1], widths[i], Axis("kernel", 2 * ratio)),
                *_units(widths[i + 1]),
            ),
        )
        for i, ratio in enumerate(c.decoder_ratios.sizes())
    )
    return (
        conv("conv1", widths[0], embed, KERNEL.size),
        *stages,
        snake("snake1", widths[-1]),
        conv("conv2", ONE, widths[-1], KERNEL.size),
    )


def _units(width: Axis) -> Children:
    parts = (
        snake("snake1", width),
        conv("conv1", width, width, KERNEL.size),
        snake("snake2", width),
        conv("conv2", width, width, 1),
    )
    return tuple(Module(f"res_unit{i + 1}", parts) for i in range(N_UNITS))


def conv(name: str, out: Axis, inp: Axis, kernel: Dim) -> Module:
    """A convolution over a waveform."""
    return convolution(name, out, inp, Axis("kernel", kernel), component="other")


def snake(name: str, width: Axis) -> Module:
    """An activation with a frequency for each channel (arXiv:2006.08195)."""
    return Module(name, (Param("alpha", (ONE, width, ONE)),))


def _quantizer(c: DacConfig, embed: Axis) -> Children:
    code = Axis("code", c.d_code)
    return (
        conv("in_proj", code, embed, 1),
        conv("out_proj", embed, code, 1),
        embedding("codebook", Axis("codes", c.codebook_size), code, component="other"),
    )


ARCHITECTURES = {"dac": Architecture(DacConfig, dac)}


def dac_fields(hf: HFConfig) -> dict[str, Any]:
    """The fields of both halves.

    What follows from other sizes may stand in a file all the same, and counts where it does.
    """
    base, first = whole(hf, "encoder_hidden_size"), whole(hf, "decoder_hidden_size")
    ratios = listed(hf, "downsampling_ratios")
    spread = listed(hf, "upsampling_ratios") if hf.given("upsampling_ratios") else ratios[::-1]
    if first < 2 ** len(spread):
        raise InvalidConfig(f"decoder_hidden_size = {first} cannot be halved {len(spread)} times")
    return {
        "task": "base",
        "d_base": base,
        "d_model": hf.in_file("hidden_size", 2 ** len(ratios) * base),
        "ratios": PerLayer(ratios),
        "decoder_channels": PerLayer(tuple(first // 2**i for i in range(len(spread) + 1))),
        "decoder_ratios": PerLayer(spread),
        "n_codebooks": hf["n_codebooks"],
        "codebook_size": hf["codebook_size"],
        "d_code": hf["codebook_dim"],
    }


def _dac(hf: HFConfig) -> Reading:
    return Reading("dac", dac_fields(hf))


HF_READERS = {"dac": _dac}
