"""MobileNet V2 and MobileViT: blocks that widen, look at each channel by itself, and narrow again."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

from sizer.architectures.registry import Architecture
from sizer.architectures.tower import Children, TowerConfig, TowerNames, blocks, convolution
from sizer.architectures.vision.convolutional import normed
from sizer.architectures.vision.grid import Grid, ImageConfig
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import first_and_rest, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import ONCE, Axis, Module, Op, Places

ONE = Axis("one", 1)
MOBILE_VIT = TowerNames(
    block="transformer.layer",
    attention="attention",
    qkv=("attention.query", "attention.key", "attention.value"),
    output="output.dense",
    mlp=("", "intermediate.dense", "output.dense"),
    norms=("layernorm_before", "", "layernorm_after", ""),
)


@configuration
class MobileConfig(ImageConfig):
    """Sizes and switches of a mobile network of inverted residuals.

    `widths`: channels out of each block of MobileNet, or of each stage of MobileViT; `expanded`: what a
    block widens them to; `steps` of its blocks, over pixels. `d_top`: channels of the last convolution.
    `expands_first`: the first block widens. MobileViT: `depths` of its stages; of those that attend,
    `d_models`, `ffns`, and `head_widths` of `n_heads`. `inner`: what the blocks after the first of a stage
    of convolutions widen to. `kernel`: side of the windows around attention. `second`: V2, whose attention
    is linear.
    """

    d_stem: Dim
    widths: PerLayer
    expanded: PerLayer
    inner: PerLayer | None = None
    depths: PerLayer | None = None
    d_models: PerLayer | None = None
    ffns: PerLayer | None = None
    head_widths: PerLayer | None = None
    n_heads: Dim | None = None
    kernel: Dim | None = None
    d_top: Dim | None = None
    n_channels: Dim = 3
    steps: tuple[int, ...] = ()
    expands_first: bool = False
    qkv_bias: bool = True
    second: bool = False
    act: str = "relu6"
    task: str = "base"

    letters = {
        **ImageConfig.letters,
        "d_stem": "Cs",
        "widths": "C",
        "expanded": "E",
        "inner": "Ei",
        "d_models": "D",
        "ffns": "F",
        "depths": "L",
        "head_widths": "Dh",
        "kernel": "K",
        "d_top": "Ct",
        "n_channels": "Nc",
    }
    meanings = {
        **ImageConfig.meanings,
        "d_stem": "channels after the first convolution",
        "d_top": "channels of the last convolution",
        "kernel": "side of the windows around attention",
        "n_channels": "colour channels",
    }

    @cached_property
    def grids(self) -> list[Grid]:
        """After the first convolution, and after each block."""
        found = [self.image.convolved(3, 2, 1)]
        for step in self.steps:
            found.append(found[-1].convolved(3, step, 1))
        return found


def inverted(inp: Axis, wide: Axis, out: Axis, before: Places | None = None) -> Children:
    """A block that is wide inside and narrow at both ends; it is widened at the places `before` its steps."""
    return (
        Module("expand_1x1", normed(inp, wide, 1), places=before),
        Module("conv_3x3", normed(ONE, wide, 3)),
        Module("reduce_1x1", normed(wide, out, 1)),
    )


def _classified(c: MobileConfig, name: str, model: Children, width: Axis) -> Module:
    if c.task == "base":
        return Module("", model)
    labels = Axis("labels", c.n_labels)
    head = linear("classifier", labels, width, bias=True, component="head", places=ONCE)
    return Module("", (Module(name, model), head))


def mobilenet_v2(c: MobileConfig) -> Module:
    """MobileNet V2 (arXiv:1801.04381). Source: transformers `modeling_mobilenet_v2.py`."""
    first, image, top = Axis("channels", c.d_stem), Axis("image", c.n_channels), Axis("channels", c.d_top)
    widths = [Axis("channels", width) for width in c.widths.sizes()]
    wide = [Axis("channels", width) for width in c.expanded.sizes()]
    stem = (
        Module("first_conv", normed(image, first, 3)),
        *((Module("expand_1x1", normed(first, first, 1)),) if c.expands_first else ()),
        Module("conv_3x3", normed(ONE, first, 3)),
        Module("reduce_1x1", normed(first, widths[0], 1)),
    )
    places = [grid.places for grid in c.grids]
    layers = (
        Module(f"layer.{i}", inverted(inp, wide[i], out, places[i]), places=places[i + 1])
        for i, (inp, out) in enumerate(pairwise(widths))
    )
    last = Module("conv_1x1", normed(widths[-1], top, 1), places=places[-1])
    model = (Module("conv_stem", stem, places=places[0]), *layers, last)
    return _classified(c, "mobilenet_v2", model, top)


def mobilevit(c: MobileConfig) -> Module:
    """MobileViT (arXiv:2110.02178) and V2 (arXiv:2206.02680): convolutions around attention.

    Source: transformers `modeling_mobilevit.py`, `modeling_mobilevitv2.py`.
    """
    assert c.depths is not None
    assert c.inner is not None
    stem, image = Axis("channels", c.d_stem), Axis("image", c.n_channels)
    widths = [Axis("channels", width) for width in c.widths.sizes()]
    inputs = [stem, *widths[:-1]]
    wide = [Axis("channels", width) for width in c.expanded.sizes()]
    depths, stages = c.depths.sizes(), []
    for i, inner in enumerate(c.inner.sizes()):
        rest = inverted(widths[i], Axis("channels", inner), widths[i])
        block = first_and_rest("layer", inverted(inputs[i], wide[i], widths[i]), rest, depths[i])
        stages.append(Module(f"encoder.layer.{i}", (block,)))
    n_first = len(stages)
    for i in range(n_first, len(widths)):
        down = Module("downsampling_layer", inverted(inputs[i], wide[i], widths[i]))
        attends = _attends_linearly if c.second else _attends
        parts = attends(c, i - n_first, widths[i], depths[i])
        stages.append(Module(f"encoder.layer.{i}", (down, *parts)))
    model: Children = (Module("conv_stem", normed(image, stem, 3)), *stages)
    if c.d_top is None:
        return _classified(c, "mobilevitv2", model, widths[-1])
    top = Axis("channels", c.d_top)
    return _classified(c, "mobilevit", (*model, Module("conv_1x1_exp", normed(widths[-1], top, 1))), top)


def _attends(c: MobileConfig, i: int, width: Axis, depth: Dim) -> Children:
    """Convolutions over windows, attention over the patches, and both joined."""
    assert c.d_models is not None
    assert c.ffns is not None
    assert c.head_widths is not None
    embed = Axis("embed", c.d_models.sizes()[i])
    tower = TowerConfig(
        d_model=embed.size,
        n_layers=depth,
        n_heads=c.n_heads,
        d_head=c.head_widths.sizes()[i],
        d_ff=c.ffns.sizes()[i],
        bias="qkvo" if c.qkv_bias else "o",
        act=c.act,
        module_names=MOBILE_VIT,
    )
    return (
        Module("conv_kxk", normed(width, width, c.kernel)),
        _plain("conv_1x1", embed, width, bias=False),
        blocks(tower),
        layer_norm("layernorm", embed),
        Module("conv_projection", normed(embed, width, 1)),
        Module("fusion", normed(2 * width, width, c.kernel)),
    )


def _attends_linearly(c: MobileConfig, i: int, width: Axis, depth: Dim) -> Children:
    """One score a patch weighs the keys, and the values are scaled by their sum."""
    assert c.d_models is not None
    assert c.ffns is not None
    embed, ffn = Axis("embed", c.d_models.sizes()[i]), Axis("ffn", c.ffns.sizes()[i])
    attention = (
        _plain("qkv_proj", ONE + 2 * embed, embed, component="attention"),
        _plain("out_proj", embed, embed, component="attention"),
    )
    mlp = (
        _plain("conv1", ffn, embed, component="mlp"),
        Op("act", c.act, {"width": ffn.size}, component="mlp"),
        _plain("conv2", embed, ffn, component="mlp"),
    )
    block = (
        layer_norm("layernorm_before", embed),
        Module("attention", attention),
        layer_norm("layernorm_after", embed),
        Module("ffn", mlp),
    )
    return (
        Module("conv_kxk", normed(ONE, width, c.kernel)),
        _plain("conv_1x1", embed, width, bias=False),
        Module("transformer.layer", block, repeat=depth),
        layer_norm("layernorm", embed),
        Module("conv_projection", normed(embed, width, 1)),
    )


def _plain(name: str, out: Axis, inp: Axis, *, bias: bool = True, component: str = "mixer") -> Module:
    conv = convolution("convolution", out, inp, ONE, ONE, bias=bias, component=component)
    return Module(name, (conv,))


ARCHITECTURES = {
    "mobilenet_v2": Architecture(MobileConfig, mobilenet_v2),
    "mobilevit": Architecture(MobileConfig, mobilevit),
}
