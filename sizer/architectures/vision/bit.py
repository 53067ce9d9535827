"""BiT: a ResNet whose convolutions are standardized, and whose norms are over groups of channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import positive, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.lists import activation
from sizer.architectures.vision.scaled import listed, rounded
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import first_and_rest, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig, shown

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# A bottleneck's inner convolutions have a quarter of the channels, and all channels are multiples of this.
REDUCTION, DIVISOR = 0.25, 8


@configuration
class BitConfig(Config):
    """Sizes and switches of a BiT.

    `widths`, `inner`: channels of each stage, and inside its bottlenecks; `depths`: its blocks.
    `norm_first`: norms stand before the convolutions. `d_out`: channels of the last norm and the head.
    """

    d_stem: Dim
    widths: PerLayer
    inner: PerLayer
    depths: PerLayer
    d_out: Dim
    n_channels: Dim = 3
    norm_first: bool = True
    task: str = "base"

    letters = {
        "d_stem": "Cs",
        "widths": "C",
        "inner": "Ci",
        "depths": "L",
        "d_out": "Co",
        "n_channels": "Nc",
    }
    meanings = {
        "d_stem": "channels after the first convolution",
        "d_out": "channels of the output",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def bit(c: BitConfig) -> Module:
    """Big Transfer (arXiv:1912.11370), with the names of `BitModel`.

    Source: transformers `modeling_bit.py`.
    """
    stem, image, out = Axis("channels", c.d_stem), Axis("image", c.n_channels), Axis("channels", c.d_out)
    widths = [Axis("channels", width) for width in c.widths.sizes()]
    inner = [Axis("channels", width) for width in c.inner.sizes()]
    inputs = [stem, *widths[:-1]]
    stages = []
    for i, depth in enumerate(c.depths.sizes()):
        first = (*_around(c, inputs[i], widths[i]), *_block(c, inputs[i], inner[i], widths[i]))
        rest = _block(c, widths[i], inner[i], widths[i])
        stages.append(Module(f"encoder.stages.{i}", (first_and_rest("layers", first, rest, depth),)))
    norm = () if c.norm_first else (layer_norm("norm", stem),)
    embedder = Module("embedder", (_conv("convolution", stem, image, 7), *norm))
    model = (embedder, *stages, *((layer_norm("norm", out),) if c.norm_first else ()))
    if c.task == "base":
        return Module("", model)
    head = linear("classifier.1", Axis("labels", c.n_labels), out, bias=True, component="head")
    return Module("", (Module("bit", model), head))


def _conv(name: str, out: Axis, inp: Axis, kernel: int) -> Module:
    side = Axis("kernel", kernel)
    return convolution(name, out, inp, side, side, bias=False, component="mixer")


def _around(c: BitConfig, inp: Axis, out: Axis) -> Children:
    """What a stage's first block makes of its input on the way around."""
    norm = () if c.norm_first else (layer_norm("norm", out),)
    return (Module("downsample", (_conv("conv", out, inp, 1), *norm)),)


def _block(c: BitConfig, inp: Axis, inner: Axis, out: Axis) -> Children:
    convs = (_conv("conv1", inner, inp, 1), _conv("conv2", inner, inner, 3), _conv("conv3", out, inner, 1))
    widths = (inp, inner, inner) if c.norm_first else (inner, inner, out)
    norms = tuple(layer_norm(f"norm{i}", width) for i, width in enumerate(widths, 1))
    pairs = zip(norms, convs, strict=True) if c.norm_first else zip(convs, norms, strict=True)
    return tuple(part for pair in pairs for part in pair)


ARCHITECTURES = {"bit": Architecture(BitConfig, bit)}


def _bit(hf: HFConfig) -> Reading:
    """Stages that `depths` does not list are not built."""
    before, depths, kind = listed(hf, "hidden_sizes"), listed(hf, "depths"), hf["layer_type"]
    if len(depths) > len(before):
        raise InvalidConfig(f"hidden_sizes lists {len(before)} stages and depths {len(depths)}")
    if kind not in ("preactivation", "bottleneck"):
        raise InvalidConfig(f"layer_type = {shown(kind)} is neither preactivation nor bottleneck")
    if (padding := hf["global_padding"]) is not None and str(padding).upper() not in ("SAME", "VALID"):
        raise InvalidConfig(f"global_padding = {shown(padding)} is neither same nor valid")
    activation(hf, "hidden_act")
    factor = positive("width_factor", hf["width_factor"])
    widths = tuple(rounded("hidden_sizes", width * factor, DIVISOR) for width in before[: len(depths)])
    inner = tuple(rounded("hidden_sizes", width * REDUCTION, DIVISOR) for width in widths)
    norm_first, stem, groups = kind == "preactivation", whole(hf, "embedding_size"), whole(hf, "num_groups")
    for width in (stem, *widths, *inner, *(before[-1:] if norm_first else ())):
        if width % groups:
            raise InvalidConfig(f"{width} channels have no num_groups = {groups} groups of one size")
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "d_stem": stem,
        "widths": PerLayer(widths),
        "inner": PerLayer(inner),
        "depths": PerLayer(depths),
        "d_out": before[-1],
        "n_channels": hf["num_channels"],
        "norm_first": norm_first,
    }
    return Reading("bit", given)


HF_READERS = {"bit": _bit}
