"""PP-LCNet: each channel by itself, then all of a pixel, with gates in the last stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import positive, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.convolutional import ONE, normed
from sizer.architectures.vision.lists import activation, as_list, as_size, flag, listed
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Op, Param
from sizer.errors import InvalidConfig, UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

N_STAGES = 5
# What a file without `block_configs` has in each stage: side of the kernel, channels in and out,
# stride, and whether there are gates.
STAGES = (
    ((3, 16, 32, 1, False),),
    ((3, 32, 64, 2, False), (3, 64, 64, 1, False)),
    ((3, 64, 128, 2, False), (3, 128, 128, 1, False)),
    ((3, 128, 256, 2, False), *(((5, 256, 256, 1, False),) * 5)),
    ((5, 256, 512, 2, True), (5, 512, 512, 1, True)),
)


@configuration
class PPLCNetConfig(Config):
    """Sizes of a PP-LCNet, an entry a layer.

    `inputs`, `widths`: channels before and after each; `kernels`: the side of its window; `squeezed`:
    channels inside its gates, none where it has none. `places`: the names of the layers.
    """

    d_stem: Dim
    inputs: PerLayer
    widths: PerLayer
    kernels: PerLayer
    squeezed: PerLayer
    places: tuple[str, ...]
    d_last: Dim = 1280
    n_channels: Dim = 3
    act: str = "hardswish"
    task: str = "image_classification"

    letters = {
        "d_stem": "Cs",
        "inputs": "Ci",
        "widths": "C",
        "kernels": "K",
        "squeezed": "Cq",
        "d_last": "Cl",
        "n_channels": "Nc",
    }
    meanings = {
        "d_stem": "channels after the first convolution",
        "d_last": "channels before the classifier",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def pp_lcnet(c: PPLCNetConfig) -> Module:
    """PP-LCNet (arXiv:2109.15099). Source: transformers `modeling_pp_lcnet.py`."""
    stem, last = Axis("channels", c.d_stem), Axis("channels", c.d_last)
    inputs, widths, kernels, squeezed = (x.sizes() for x in (c.inputs, c.widths, c.kernels, c.squeezed))
    layers = (
        Module(place, _layer(Axis("channels", inp), Axis("channels", out), Axis("kernel", kernel), gate))
        for place, inp, out, kernel, gate in zip(c.places, inputs, widths, kernels, squeezed, strict=True)
    )
    encoder = (Module("convolution", normed(Axis("image", c.n_channels), stem, 3)), *layers)
    final = Axis("channels", widths[-1])
    return Module(
        "",
        (
            Module("encoder", encoder),
            convolution("last_convolution", last, final, ONE, ONE, bias=False, act=c.act, component="head"),
            linear("head", Axis("labels", c.n_labels), last, bias=True, component="head"),
        ),
    )


def _layer(inp: Axis, out: Axis, kernel: Axis, squeezed: Dim | None) -> Children:
    return (
        Module("depthwise_convolution", window(inp, kernel)),
        *(() if squeezed is None else (gates(inp, Axis("squeezed", squeezed)),)),
        Module("pointwise_convolution", normed(inp, out, 1)),
    )


def window(width: Axis, kernel: Axis) -> Children:
    """A convolution of each channel by itself, and the norm of its batch."""
    (_, norm) = normed(ONE, width, 1)
    return (convolution("convolution", width, ONE, kernel, kernel, bias=False, component="mixer"), norm)


def gates(width: Axis, squeezed: Axis) -> Module:
    """A factor for each channel, from the mean of the image."""
    return Module(
        "squeeze_excitation_module.convolutions",
        (
            _of_the_mean("0", squeezed, width),
            Op("act", "relu", {"width": squeezed.size}),
            _of_the_mean("2", width, squeezed),
        ),
        component="mixer",
    )


def _of_the_mean(name: str, out: Axis, inp: Axis) -> Module:
    return Module(name, (Param("weight", (out, inp, ONE, ONE), "pooled"), Param("bias", (out,))))


ARCHITECTURES = {"pp_lcnet": Architecture(PPLCNetConfig, pp_lcnet)}


def rounded(value: float, divisor: int) -> int:
    """The nearest multiple of a divisor, and the next if that is less than nine tenths of the value."""
    nearest = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * value else nearest


def block_sizes(hf: HFConfig) -> dict[str, Any]:
    """The sizes of each layer, from `block_configs` and the scale of all channels."""
    scale, divisor = positive("scale", hf["scale"]), whole(hf, "divisor")
    reduction = whole(hf, "reduction")
    found: dict[str, list[Any]] = {key: [] for key in ("inputs", "widths", "kernels", "squeezed", "places")}
    stages = STAGES if hf["block_configs"] is None else listed(hf, "block_configs", N_STAGES)
    for i, stage in enumerate(stages):
        for j, layer in enumerate(as_list(f"block_configs[{i}]", stage)):
            where = f"block_configs[{i}][{j}]"
            kernel, inp, out, _, gated = as_list(where, layer, 5)
            inp, out = (rounded(as_size(where, width) * scale, divisor) for width in (inp, out))
            squeezed = inp // reduction if flag(where, gated) else None
            if squeezed == 0:
                raise InvalidConfig(f"{where}: reduction = {reduction} leaves none of {inp} channels")
            values = (inp, out, as_size(where, kernel), squeezed, f"blocks.{i}.layers.{j}")
            for key, value in zip(found, values, strict=True):
                found[key].append(value)
    places = tuple(found.pop("places"))
    return {"places": places, **{key: PerLayer(tuple(values)) for key, values in found.items()}}


def _pp_lcnet(hf: HFConfig) -> Reading:
    if hf.cls != "PPLCNetForImageClassification":
        raise UnknownName("class", hf.cls, ("PPLCNetForImageClassification",), hint="of a pp_lcnet")
    scale, divisor = positive("scale", hf["scale"]), whole(hf, "divisor")
    given = {
        "task": "image_classification",
        "n_labels": hf.n_labels,
        "d_stem": rounded(whole(hf, "stem_channels") * scale, divisor),
        "d_last": whole(hf, "class_expand"),
        "act": activation(hf, "hidden_act"),
        **block_sizes(hf),
    }
    return Reading("pp_lcnet", given)


HF_READERS = {"pp_lcnet": _pp_lcnet}
