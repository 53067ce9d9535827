"""ResNet: stages of residual blocks of convolutions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children
from sizer.architectures.vision.convolutional import normed
from sizer.architectures.vision.grid import Grid, ImageConfig, image_sides
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import first_and_rest, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import ONCE, Axis, Module, Places
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# A bottleneck's inner convolution has a quarter of the channels.
REDUCTION = 4


@configuration
class ResNetConfig(ImageConfig):
    """Sizes and switches of a ResNet.

    `widths`, `inner`: channels of each stage, and inside its bottlenecks; `depths`: its blocks.
    `shortcuts`: the stages whose first block changes its input on the way around. `steps`: of the first
    block of each stage, which takes them in its first convolution where it is `early`.
    """

    d_stem: Dim
    widths: PerLayer
    depths: PerLayer
    inner: PerLayer | None = None
    n_channels: Dim = 3
    shortcuts: tuple[bool, ...] = (True, True, True, True)
    steps: tuple[int, ...] = (1, 2, 2, 2)
    early: bool = False
    task: str = "base"

    letters = {
        **ImageConfig.letters,
        "d_stem": "Cs",
        "widths": "C",
        "depths": "L",
        "inner": "Ci",
        "n_channels": "Nc",
    }
    meanings = {
        **ImageConfig.meanings,
        "d_stem": "channels after the first convolution",
        "n_channels": "colour channels",
    }

    @cached_property
    def grids(self) -> list[Grid]:
        """After the first convolution, after its pooling, and after each stage."""
        first = self.image.convolved(7, 2, 3)
        found = [first, first.convolved(3, 2, 1)]
        for step in self.steps:
            found.append(found[-1].convolved(3, step, 1))
        return found


def resnet(c: ResNetConfig) -> Module:
    """ResNet (arXiv:1512.03385), with the names of `ResNetForImageClassification`.

    Source: transformers `modeling_resnet.py`.
    """
    stem = Axis("channels", c.d_stem)
    widths = [Axis("channels", width) for width in c.widths.sizes()]
    inner = [Axis("channels", width) for width in c.inner.sizes()] if c.inner else [None] * len(widths)
    inputs = [stem, *widths[:-1]]
    stages = (
        Module(f"encoder.stages.{i}", _stage(c, i, inputs[i], widths[i], inner[i], depth))
        for i, depth in enumerate(c.depths.sizes())
    )
    pixels = Axis("image", c.n_channels)
    first = Module("embedder.embedder", normed(pixels, stem, 7), places=c.grids[0].places)
    if c.task == "base":
        return Module("", (first, *stages))
    labels = Axis("labels", c.n_labels)
    classifier = linear("classifier.1", labels, widths[-1], bias=True, component="head", places=ONCE)
    return Module("", (Module("resnet", (first, *stages)), classifier))


def _stage(c: ResNetConfig, i: int, inp: Axis, out: Axis, inner: Axis | None, depth: Dim) -> Children:
    before, after = c.grids[i + 1].places, c.grids[i + 2].places
    around = (Module("shortcut", normed(inp, out, 1), places=after),) if c.shortcuts[i] else ()
    # Of a bottleneck, the convolution over squares takes the steps, unless the first one does.
    entry = after if inner is None or c.early else before
    first = (*around, *_block(inp, out, inner, entry, after))
    return (first_and_rest("layers", first, _block(out, out, inner, after, after), depth),)


def _block(inp: Axis, out: Axis, inner: Axis | None, entry: Places, rest: Places) -> Children:
    if inner is None:
        layers: tuple[Children, ...] = (normed(inp, out, 3), normed(out, out, 3))
    else:
        layers = (normed(inp, inner, 1), normed(inner, inner, 3), normed(inner, out, 1))
    return tuple(Module(f"layer.{i}", layer, places=rest if i else entry) for i, layer in enumerate(layers))


ARCHITECTURES = {"resnet": Architecture(ResNetConfig, resnet)}


def _resnet(hf: HFConfig) -> Reading:
    if hf.task not in ("base", "image_classification"):
        known = ("ResNetModel", "ResNetForImageClassification")
        raise UnknownName("class", hf.cls, known, hint="of a resnet")
    widths, depths, kind = tuple(hf["hidden_sizes"]), tuple(hf["depths"]), hf["layer_type"]
    if len(widths) != len(depths):
        raise InvalidConfig(f"hidden_sizes lists {len(widths)} stages and depths {len(depths)}")
    if kind not in ("basic", "bottleneck"):
        raise InvalidConfig(f"layer_type = {clip(repr(kind))} is neither basic nor bottleneck")
    # Each stage but the first halves the sides of the image; that one may.
    before = (hf["embedding_size"], *widths)
    changes = tuple(before[i] != width for i, width in enumerate(widths))
    given = {
        "task": hf.task,
        "n_labels": hf.n_labels,
        "d_stem": hf["embedding_size"],
        "widths": PerLayer(widths),
        "depths": PerLayer(depths),
        "inner": PerLayer(tuple(w // REDUCTION for w in widths)) if kind == "bottleneck" else None,
        "n_channels": hf["num_channels"],
        "shortcuts": (changes[0] or bool(hf["downsample_in_first_stage"]), *(True for _ in widths[1:])),
        "steps": (2 if hf["downsample_in_first_stage"] else 1, *(2 for _ in widths[1:])),
        "early": bool(hf["downsample_in_bottleneck"]),
        **image_sides(hf),
    }
    return Reading("resnet", given)


HF_READERS = {"resnet": _resnet}
