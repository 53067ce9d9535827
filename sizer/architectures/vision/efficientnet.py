"""EfficientNet: stages of blocks that widen, look at each channel by itself, gate and narrow."""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import positive, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.architectures.vision.convolutional import pooled_convolution
from sizer.architectures.vision.grid import Grid, ImageConfig, image_sides
from sizer.architectures.vision.lists import activation
from sizer.architectures.vision.scaled import listed, rounded
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import check_size, configuration
from sizer.core.dims import MAX_LAYERS, Dim
from sizer.core.layers import linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import ONCE, Axis, Layers, Module, Op
from sizer.errors import InvalidConfig, shown

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
# Channels of the first and the last convolution, before they are scaled.
STEM, TOP = 32, 1280


@configuration
class EfficientNetConfig(ImageConfig):
    """Sizes and switches of an EfficientNet.

    `inputs`, `widths`: channels into the first block of each stage and out of every block; `depths`: its
    blocks; `kernels`: sides of the windows of single channels. `expands`: the stages whose blocks widen
    their input, to `first_expanded` and `expanded`. `first_squeezed`, `squeezed`: channels of the gates.
    `steps`: of the first block of each stage, over pixels; what is left is rounded up where it is `padded`.
    `d_top`, `d_out`: channels of the last convolution and of its norm, which `AlignVisionModel` lacks.
    """

    d_stem: Dim
    inputs: PerLayer
    widths: PerLayer
    depths: PerLayer
    kernels: PerLayer
    first_expanded: PerLayer
    expanded: PerLayer
    first_squeezed: PerLayer
    squeezed: PerLayer
    expands: tuple[bool, ...]
    steps: tuple[int, ...]
    padded: tuple[bool, ...]
    d_top: Dim | None = None
    d_out: Dim | None = None
    n_channels: Dim = 3
    act: str = "swish"
    task: str = "base"

    letters = {
        **ImageConfig.letters,
        "d_stem": "Cs",
        "inputs": "Ci",
        "widths": "C",
        "depths": "L",
        "kernels": "K",
        "first_expanded": "Ef",
        "expanded": "E",
        "first_squeezed": "Cf",
        "squeezed": "Cq",
        "d_top": "Ct",
        "d_out": "Co",
        "n_channels": "Nc",
    }
    meanings = {
        **ImageConfig.meanings,
        "d_stem": "channels after the first convolution",
        "d_top": "channels of the last convolution",
        "d_out": "channels of the output",
        "n_channels": "colour channels",
    }

    @cached_property
    def grids(self) -> list[Grid]:
        """After the first convolution, and after each stage."""
        found = [self.image.patched(2)]
        for step, padded in zip(self.steps, self.padded, strict=True):
            found.append((found[-1].covered(step) if padded else found[-1]).patched(step))
        return found


def efficientnet(c: EfficientNetConfig) -> Module:
    """EfficientNet (arXiv:1905.11946), with the names of `EfficientNetModel`.

    Source: transformers `modeling_efficientnet.py`, `modeling_align.py`.
    """
    stem, side = Axis("channels", c.d_stem), Axis("kernel", 3)
    first = (
        convolution("convolution", stem, Axis("image", c.n_channels), side, side, bias=False),
        batch_norm("batchnorm", stem),
    )
    depths = c.depths.sizes()
    blocks = Module("blocks", _stages(c, depths), repeat=sum(depths[1:], depths[0]))
    model = (
        Module("embeddings", first, places=c.grids[0].places),
        Module("encoder", (blocks, *_top(c)), places=c.grids[-1].places),
    )
    if c.task == "base":
        return Module("", model)
    labels = Axis("labels", c.n_labels)
    head = linear("classifier", labels, Axis("channels", c.d_out), bias=True, component="head", places=ONCE)
    return Module("", (Module("efficientnet", model), head))


def _top(c: EfficientNetConfig) -> Children:
    if c.d_top is None:
        return ()
    last = Axis("channels", c.widths.sizes()[-1])
    conv = convolution("top_conv", Axis("channels", c.d_top), last, ONE, ONE, bias=False, component="mixer")
    return (conv, batch_norm("top_bn", Axis("channels", c.d_out)))


def _stages(c: EfficientNetConfig, depths: list[Dim]) -> Children:
    """The blocks of all stages, numbered through: the first of each stage, and those after it."""
    inputs, widths = c.inputs.sizes(), c.widths.sizes()
    wide = (c.first_expanded.sizes(), c.expanded.sizes())
    narrow = (c.first_squeezed.sizes(), c.squeezed.sizes())
    found, start = [], 0
    for i, depth in enumerate(depths):
        counted = c.depths.values[i]
        assert counted is not None
        numbered = isinstance(depth, int)
        where = (
            Layers(1, (start,) if numbered else None),
            Layers(depth - 1, range(start + 1, start + counted) if numbered else None),
        )
        for j, inp in enumerate((inputs[i], widths[i])):
            sizes = (inp, wide[j][i], narrow[j][i], widths[i])
            block = _block(c, i, *(Axis("channels", size) for size in sizes), first=j == 0)
            found.append(Module("", block, at=where[j], places=c.grids[i + 1].places))
        start += counted
    return tuple(found)


def _block(
    c: EfficientNetConfig, i: int, inp: Axis, wide: Axis, narrow: Axis, out: Axis, *, first: bool
) -> Children:
    side = Axis("kernel", c.kernels.sizes()[i])
    expansion = _normed("expand_conv", "expand_bn", wide, inp, ONE)
    # The window over single channels takes the steps.
    entry = c.grids[i].places if first else None
    gate = (
        pooled_convolution("reduce", narrow, wide),
        Op("act", c.act, {"width": narrow.size}),
        pooled_convolution("expand", wide, narrow),
    )
    return (
        *((Module("expansion", expansion, places=entry),) if c.expands[i] else ()),
        Module("depthwise_conv", _normed("depthwise_conv", "depthwise_norm", wide, ONE, side)),
        Module("squeeze_excite", gate, component="mixer"),
        Module("projection", _normed("project_conv", "project_bn", out, wide, ONE)),
    )


def _normed(conv: str, norm: str, out: Axis, inp: Axis, side: Axis) -> Children:
    return (
        convolution(conv, out, inp, side, side, bias=False, component="mixer"),
        batch_norm(norm, out),
    )


ARCHITECTURES = {"efficientnet": Architecture(EfficientNetConfig, efficientnet)}


def _scaled(hf: HFConfig, name: str, channels: int) -> int:
    factor = positive("width_coefficient", hf["width_coefficient"])
    return rounded(name, channels * factor, whole(hf, "depth_divisor"))


def _depths(hf: HFConfig, n_stages: int) -> tuple[int, ...]:
    factor = positive("depth_coefficient", hf["depth_coefficient"])
    depths = tuple(ceil(factor * n) for n in listed(hf, "num_block_repeats", n_stages))
    if sum(depths) > MAX_LAYERS:
        raise InvalidConfig(f"num_block_repeats come to {sum(depths):,} blocks, the most is {MAX_LAYERS:,}")
    return depths


def efficientnet_fields(hf: HFConfig) -> dict[str, Any]:
    """The sizes of the stages, as the factors of a file scale them."""
    if (pooling := hf["pooling_type"]) not in ("mean", "max"):
        raise InvalidConfig(f"pooling_type = {shown(pooling)} is neither mean nor max")
    before = listed(hf, "in_channels")
    if any(stride not in (1, 2) for stride in listed(hf, "strides", len(before))):
        raise InvalidConfig(f"strides = {shown(hf['strides'])}; each of them must be 1 or 2")
    inputs = tuple(_scaled(hf, "in_channels", width) for width in before)
    widths = tuple(_scaled(hf, "out_channels", n) for n in listed(hf, "out_channels", len(before)))
    ratios, ratio = (
        listed(hf, "expand_ratios", len(before)),
        positive("squeeze_expansion_ratio", hf["squeeze_expansion_ratio"]),
    )

    depths = _depths(hf, len(before))
    padded = hf["depthwise_padding"]
    if not isinstance(padded, list | tuple):
        raise InvalidConfig(f"depthwise_padding = {shown(padded)} is not a list of blocks")

    def expanded(sizes: tuple[int, ...]) -> PerLayer:
        found = tuple(size * ratio for size, ratio in zip(sizes, ratios, strict=True))
        for size in found:
            check_size("expand_ratios times a width", size)
        return PerLayer(found)

    def squeezed(sizes: tuple[int, ...]) -> PerLayer:
        found = tuple(max(1, int(size * ratio)) for size in sizes)
        for size in found:
            check_size("squeeze_expansion_ratio times a width", size)
        return PerLayer(found)

    return {
        "d_stem": _scaled(hf, "the first convolution", STEM),
        "inputs": PerLayer(inputs),
        "widths": PerLayer(widths),
        "depths": PerLayer(depths),
        "kernels": PerLayer(listed(hf, "kernel_sizes", len(before))),
        "first_expanded": expanded(inputs),
        "expanded": expanded(widths),
        "first_squeezed": squeezed(inputs),
        "squeezed": squeezed(widths),
        "expands": tuple(ratio != 1 for ratio in ratios),
        "steps": listed(hf, "strides", len(before)),
        "padded": tuple(start in padded for start in (sum(depths[:i]) for i in range(len(before)))),
        **image_sides(hf),
        "n_channels": hf["num_channels"],
        "act": activation(hf, "hidden_act"),
    }


def _efficientnet(hf: HFConfig) -> Reading:
    given = {
        **efficientnet_fields(hf),
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "d_top": _scaled(hf, "the last convolution", TOP),
        "d_out": whole(hf, "hidden_dim"),
    }
    return Reading("efficientnet", given)


HF_READERS = {"efficientnet": _efficientnet}
