"""SEANet: the encoder and the decoder of waveforms that EnCodec and Mimi share."""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

from sizer.architectures.audio.parts import ONE, doubled, lstm, numbered, transposed, weight_normed
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, layer_norm
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class SeanetConfig(Config):
    """Sizes and switches of both halves, and of the codebooks between them.

    Channels double from `d_base` at each stage; `ratios` are how many frames become one at each, the
    last of the encoder first. `inner`: channels inside of the `n_residual` blocks of a stage.
    `conv_norm`: what a convolution has besides, "weight_norm", "time_group_norm", or nothing.
    """

    d_model: Dim
    d_base: Dim
    ratios: PerLayer
    inner: PerLayer
    kernel_size: Dim
    last_kernel: Dim
    residual_kernel: Dim
    n_codebooks: Dim
    codebook_size: Dim
    d_code: Dim
    n_channels: Dim = 1
    n_residual: int = 1
    n_lstm: int = 0
    shortcut: bool = False
    conv_norm: str = ""
    task: str = "base"

    letters = {
        "d_base": "Cb",
        "ratios": "R",
        "inner": "Ci",
        "kernel_size": "Kf",
        "last_kernel": "Kl",
        "residual_kernel": "Kr",
        "n_codebooks": "Nq",
        "codebook_size": "Vq",
        "d_code": "Dq",
        "n_channels": "Nc",
    }
    meanings = {
        "d_model": "width that the encoder gives",
        "d_base": "channels of the first stage",
        "kernel_size": "samples under the first convolution",
        "last_kernel": "frames under the last convolution",
        "residual_kernel": "frames under the convolutions of a block",
        "n_codebooks": "codebooks",
        "codebook_size": "codes of a codebook",
        "d_code": "width of a code",
        "n_channels": "channels of the sound",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def encodec(c: SeanetConfig) -> Module:
    """EnCodec (arXiv:2210.13438), with the names of `EncodecModel`.

    Source: transformers `modeling_encodec.py`.
    """
    size, width = Axis("codes", c.codebook_size), Axis("code", c.d_code)
    book = (
        buffer("inited", ONE),
        buffer("cluster_size", size),
        buffer("embed", size, width),
        buffer("embed_avg", size, width),
    )
    books = Module("layers", (Module("codebook", book),), repeat=c.n_codebooks)
    return Module(
        "",
        (
            Module("encoder", encoder(c)),
            Module("decoder", decoder(c)),
            Module("quantizer", (books,)),
        ),
        component="other",
    )


def encoder(c: SeanetConfig) -> Children:
    """From samples to frames."""
    ratios, inner = c.ratios.sizes()[::-1], c.inner.sizes()
    widths = doubled(c.d_base, len(ratios))
    layers: list[Module | None] = [_conv(c, widths[0], Axis("sound", c.n_channels), c.kernel_size)]
    for i, ratio in enumerate(ratios):
        layers += [_block(c, widths[i], Axis("inner", inner[i]))] * c.n_residual
        layers += [None, _conv(c, widths[i + 1], widths[i], 2 * ratio)]
    layers += _memory(c, widths[-1])
    layers += [None, _conv(c, Axis("embed", c.d_model), widths[-1], c.last_kernel)]
    return numbered("layers", layers)


def decoder(c: SeanetConfig) -> Children:
    """From frames to samples."""
    ratios, inner = c.ratios.sizes(), c.inner.sizes()[::-1]
    widths = doubled(c.d_base, len(ratios))[::-1]
    layers: list[Module | None] = [_conv(c, widths[0], Axis("embed", c.d_model), c.kernel_size)]
    layers += _memory(c, widths[0])
    for i, ratio in enumerate(ratios):
        layers += [None, _spread(c, widths[i + 1], widths[i], 2 * ratio)]
        layers += [_block(c, widths[i + 1], Axis("inner", inner[i]))] * c.n_residual
    layers += [None, _conv(c, Axis("sound", c.n_channels), widths[-1], c.last_kernel)]
    return numbered("layers", layers)


def _memory(c: SeanetConfig, width: Axis) -> list[Module | None]:
    return [Module("", (lstm("lstm", width, c.n_lstm),))] if c.conv_norm else []


def _block(c: SeanetConfig, width: Axis, inner: Axis) -> Module:
    shortcut = (_conv(c, width, width, 1)._replace(name="shortcut"),) if c.shortcut else ()
    layers = (None, _conv(c, inner, width, c.residual_kernel), None, _conv(c, width, inner, 1))
    return Module("", (*numbered("block", layers), *shortcut))


def _conv(c: SeanetConfig, out: Axis, inp: Axis, kernel: Dim) -> Module:
    frames = Axis("kernel", kernel)
    if c.conv_norm == "weight_norm":
        conv = weight_normed("conv", out, inp, frames)
    else:
        conv = convolution("conv", out, inp, frames, component="other")
    return Module("", (conv, *_group_norm(c, out), *counters(c.layout)))


def _spread(c: SeanetConfig, out: Axis, inp: Axis, kernel: Dim) -> Module:
    conv = transposed("conv", out, inp, Axis("kernel", kernel), normed=c.conv_norm == "weight_norm")
    return Module("", (conv, *_group_norm(c, out)))


def _group_norm(c: SeanetConfig, width: Axis) -> Children:
    return (
        (layer_norm("norm", width)._replace(kind="group_norm"),) if c.conv_norm == "time_group_norm" else ()
    )


def counters(layout: str) -> Children:
    """What a convolution in memory knows of itself."""
    if layout == "checkpoint":
        return ()
    return tuple(buffer(name, persistent=False) for name in ("stride", "kernel_size", "padding_total"))


ARCHITECTURES = {"encodec": Architecture(SeanetConfig, encodec)}


def few(hf: HFConfig, key: str, least: int = 0) -> int:
    """How many layers a key says there are, which are written one by one."""
    value = hf[key]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 64:
        raise InvalidConfig(f"{key} = {clip(repr(value))} is not a number of layers up to 64")
    return value


def listed(hf: HFConfig, key: str) -> tuple[int, ...]:
    """A list of positive whole numbers, one a stage."""
    values = tuple(hf[key])
    if not 0 < len(values) <= 64 or not all(type(value) is int and 0 < value <= 4096 for value in values):
        raise InvalidConfig(f"{key} = {clip(repr(hf[key]))} is not a whole number for each stage")
    return values


def seanet_fields(hf: HFConfig, ratios: tuple[int, ...], **own: Any) -> dict[str, Any]:
    """The fields of both halves."""
    base = whole(hf, "num_filters")
    return {
        "task": "base",
        "d_model": hf["hidden_size"],
        "d_base": base,
        "ratios": PerLayer(ratios),
        "inner": PerLayer(tuple(2**i * base // whole(hf, "compress") for i in range(len(ratios)))),
        "kernel_size": hf["kernel_size"],
        "last_kernel": hf["last_kernel_size"],
        "residual_kernel": hf["residual_kernel_size"],
        "codebook_size": hf["codebook_size"],
        "d_code": hf["codebook_dim"] or hf["hidden_size"],
        "n_channels": hf["audio_channels"],
        "n_residual": few(hf, "num_residual_layers"),
        "shortcut": bool(hf["use_conv_shortcut"]),
        **own,
    }


def _encodec(hf: HFConfig) -> Reading:
    if hf["norm_type"] not in ("weight_norm", "time_group_norm"):
        raise InvalidConfig(f"norm_type = {clip(repr(hf['norm_type']))} is neither of the two there are")
    ratios = listed(hf, "upsampling_ratios")
    frames = ceil(whole(hf, "sampling_rate") / prod(ratios))
    bits = (whole(hf, "codebook_size") - 1).bit_length()
    own = {
        "n_codebooks": int(1000 * hf["target_bandwidths"][-1] // (frames * bits)),
        "n_lstm": few(hf, "num_lstm_layers", least=1),
        "conv_norm": hf["norm_type"],
    }
    return Reading("encodec", seanet_fields(hf, ratios, **own))


HF_READERS = {"encodec": _encodec}
