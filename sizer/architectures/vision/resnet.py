"""ResNet: stages of residual blocks of convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children
from sizer.architectures.vision.convolutional import normed
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import first_and_rest, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# A bottleneck's inner convolution has a quarter of the channels.
REDUCTION = 4


@configuration
class ResNetConfig(Config):
    """Sizes and switches of a ResNet.

    `widths`, `inner`: channels of each stage, and inside its bottlenecks; `depths`: its blocks.
    `shortcuts`: the stages whose first block changes its input on the way around.
    """

    d_stem: Dim
    widths: PerLayer
    depths: PerLayer
    inner: PerLayer | None = None
    n_channels: Dim = 3
    shortcuts: tuple[bool, ...] = (True, True, True, True)
    task: str = "base"

    letters = {"d_stem": "Cs", "widths": "C", "depths": "L", "inner": "Ci", "n_channels": "Nc"}
    meanings = {"d_stem": "channels after the first convolution", "n_channels": "colour channels"}

    def __post_init__(self) -> None:
        check_sizes(self)


def resnet(c: ResNetConfig) -> Module:
    """ResNet (arXiv:1512.03385), with the names of `ResNetForImageClassification`.

    Source: transformers `modeling_resnet.py`.
    """
    stem = Axis("channels", c.d_stem)
    widths = [Axis("channels", width) for width in c.widths.sizes()]
    inner = [Axis("channels", width) for width in c.inner.sizes()] if c.inner else [None] * len(widths)
    inputs = [stem, *widths[:-1]]
    stages = (
        Module(f"encoder.stages.{i}", _stage(inputs[i], widths[i], inner[i], depth, c.shortcuts[i]))
        for i, depth in enumerate(c.depths.sizes())
    )
    first = Module("embedder.embedder", normed(Axis("image", c.n_channels), stem, 7))
    if c.task == "base":
        return Module("", (first, *stages))
    labels = Axis("labels", c.n_labels)
    classifier = linear("classifier.1", labels, widths[-1], bias=True, component="head")
    return Module("", (Module("resnet", (first, *stages)), classifier))


def _stage(inp: Axis, out: Axis, inner: Axis | None, depth: Dim, shortcut: bool) -> Children:
    around = (Module("shortcut", normed(inp, out, 1)),) if shortcut else ()
    first = (*around, *_block(inp, out, inner))
    return (first_and_rest("layers", first, _block(out, out, inner), depth),)


def _block(inp: Axis, out: Axis, inner: Axis | None) -> Children:
    if inner is None:
        layers: tuple[Children, ...] = (normed(inp, out, 3), normed(out, out, 3))
    else:
        layers = (normed(inp, inner, 1), normed(inner, inner, 3), normed(inner, out, 1))
    return tuple(Module(f"layer.{i}", layer) for i, layer in enumerate(layers))


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
    }
    return Reading("resnet", given)


HF_READERS = {"resnet": _resnet}
