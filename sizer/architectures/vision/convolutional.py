"""RegNet, MobileNet V1 and PoolFormer: stages of convolutions."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.architectures.vision.grid import Grid, ImageConfig, image_sides, steps
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import first_and_rest, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import ONCE, Axis, Module, Op, Param
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
# The layers of MobileNet V1 that halve the sides of the image, and double its channels.
HALVING = (1, 3, 5, 11)
N_MOBILE = 13
# Kernel, step and padding of convolutions that halve the sides of an image, and that keep them.
HALVES, KEEPS = (3, 2, 1), (3, 1, 1)


@configuration
class StagesConfig(ImageConfig):
    """Sizes and switches of a network of stages.

    `steps`: of the first convolution, and then of each stage or layer: side of its kernel, step, padding.

    RegNet: `widths`, `depths`, `groups` (channels that a convolution sees), and `squeezed`, `first_squeezed`:
    channels of the gates of each stage and of its first block, in layers of type y. `shortcuts`: the
    stages whose first block changes its input on the way around.
    MobileNet: `widths` of each layer. PoolFormer: `kernels` before each stage, `ffns` in it.
    """

    widths: PerLayer
    d_stem: Dim | None = None
    depths: PerLayer | None = None
    groups: PerLayer | None = None
    squeezed: PerLayer | None = None
    first_squeezed: PerLayer | None = None
    kernels: PerLayer | None = None
    ffns: PerLayer | None = None
    n_channels: Dim = 3
    steps: tuple[tuple[int, int, int], ...] = ()
    shortcuts: tuple[bool, ...] = ()
    scaled: bool = True
    act: str = "relu"
    task: str = "base"

    letters = {
        **ImageConfig.letters,
        "widths": "C",
        "d_stem": "Cs",
        "depths": "L",
        "groups": "G",
        "squeezed": "Cq",
        "first_squeezed": "Cf",
        "kernels": "K",
        "ffns": "F",
        "n_channels": "Nc",
    }
    meanings = {
        **ImageConfig.meanings,
        "d_stem": "channels after the first convolution",
        "n_channels": "colour channels",
    }

    @cached_property
    def grids(self) -> list[Grid]:
        """The image, and what each of the `steps` leaves of it."""
        found = [self.image]
        for step in self.steps:
            found.append(found[-1].convolved(*step))
        return found


def normed(inp: Axis, out: Axis, kernel: Dim) -> Children:
    """A convolution without a bias, and the norm of its batch."""
    side = Axis("kernel", kernel)
    return (
        convolution("convolution", out, inp, side, side, bias=False, component="mixer"),
        batch_norm("normalization", out),
    )


def _classified(c: StagesConfig, name: str, model: Children, head: str, width: Axis) -> Module:
    if c.task == "base":
        return Module("", model)
    labels = Axis("labels", c.n_labels)
    classifier = linear(head, labels, width, bias=True, component="head", places=ONCE)
    return Module("", (Module(name, model), classifier))


def regnet(c: StagesConfig) -> Module:
    """RegNet (arXiv:2003.13678). Source: transformers `modeling_regnet.py`."""
    assert c.depths is not None
    stem, image = Axis("channels", c.d_stem), Axis("image", c.n_channels)
    widths = [Axis("channels", width) for width in c.widths.sizes()]
    inputs = [stem, *widths[:-1]]
    stages = []
    for i, depth in enumerate(c.depths.sizes()):
        around = (Module("shortcut", normed(inputs[i], widths[i], 1)),) if c.shortcuts[i] else ()
        first = (*around, *_regnet_block(c, i, inputs[i], widths[i], first=True))
        rest = _regnet_block(c, i, widths[i], widths[i], first=False)
        layers = first_and_rest("layers", first, rest, depth)
        stages.append(Module(f"encoder.stages.{i}", (layers,), places=c.grids[i + 2].places))
    model = (Module("embedder.embedder", normed(image, stem, 3), places=c.grids[1].places), *stages)
    return _classified(c, "regnet", model, "classifier.1", widths[-1])


def _regnet_block(c: StagesConfig, i: int, inp: Axis, out: Axis, *, first: bool) -> Children:
    assert c.groups is not None
    group = Axis("group", c.groups.sizes()[i])
    layers: list[Children] = [normed(inp, out, 1), normed(group, out, 3)]
    squeezed = c.first_squeezed if first else c.squeezed
    if squeezed is not None:
        narrow = Axis("squeezed", squeezed.sizes()[i])
        layers.append(
            (
                pooled_convolution("attention.0", narrow, out),
                Op("act", "relu", {"width": narrow.size}),
                pooled_convolution("attention.2", out, narrow),
            )
        )
    layers.append(normed(out, out, 1))
    # The second convolution of the first block takes the steps.
    entry = c.grids[i + 1].places if first else None
    return tuple(Module(f"layer.{j}", layer, places=None if j else entry) for j, layer in enumerate(layers))


def pooled_convolution(name: str, out: Axis, inp: Axis) -> Module:
    """A convolution over the mean of an image."""
    return Module(
        name, (Param("weight", (out, inp, ONE, ONE), "pooled"), Param("bias", (out,))), component="mixer"
    )


def mobilenet_v1(c: StagesConfig) -> Module:
    """MobileNet (arXiv:1704.04861): each channel by itself, then all of a pixel.

    Source: transformers `modeling_mobilenet_v1.py`.
    """
    widths = [Axis("channels", width) for width in c.widths.sizes()]
    layers = []
    for i, (inp, out) in enumerate(pairwise(widths)):
        places = c.grids[i + 2].places
        layers.append(Module(f"layer.{2 * i}", normed(ONE, inp, 3), places=places))
        layers.append(Module(f"layer.{2 * i + 1}", normed(inp, out, 1), places=places))
    stem = normed(Axis("image", c.n_channels), widths[0], 3)
    model = (Module("conv_stem", stem, places=c.grids[1].places), *layers)
    return _classified(c, "mobilenet_v1", model, "classifier", widths[-1])


def poolformer(c: StagesConfig) -> Module:
    """PoolFormer (arXiv:2111.11418): the mean of its neighbours stands for attention.

    Source: transformers `modeling_poolformer.py`.
    """
    assert c.depths is not None
    assert c.kernels is not None
    assert c.ffns is not None
    widths = [Axis("channels", width) for width in c.widths.sizes()]
    inputs = [Axis("image", c.n_channels), *widths[:-1]]
    parts: list[Module] = []
    for i, depth in enumerate(c.depths.sizes()):
        side, width, ffn = Axis("kernel", c.kernels.sizes()[i]), widths[i], Axis("ffn", c.ffns.sizes()[i])
        scales = tuple(Param(f"layer_scale_{j}", (width,)) for j in (1, 2)) if c.scaled else ()
        block: Children = (
            *scales,
            layer_norm("before_norm", width),
            layer_norm("after_norm", width),
            convolution("output.conv1", ffn, width, ONE, ONE, act=c.act, component="mlp"),
            convolution("output.conv2", width, ffn, ONE, ONE, component="mlp"),
        )
        name, places = f"encoder.patch_embeddings.{i}.projection", c.grids[i + 1].places
        parts.append(convolution(name, width, inputs[i], side, side, places=places))
        parts.append(Module(f"encoder.block.{i}", block, repeat=depth, places=places))
    # The norm belongs to the classifier, though both classes of images have it.
    if c.task == "base":
        return Module("", tuple(parts))
    out = Axis("labels", c.n_labels)
    labels = linear("classifier", out, widths[-1], bias=True, component="head", places=ONCE)
    return Module("", (Module("poolformer", tuple(parts)), layer_norm("norm", widths[-1]), labels))


ARCHITECTURES = {
    "mobilenet_v1": Architecture(StagesConfig, mobilenet_v1),
    "poolformer": Architecture(StagesConfig, poolformer),
    "regnet": Architecture(StagesConfig, regnet),
}


def _stages(hf: HFConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    widths, depths = tuple(hf["hidden_sizes"]), tuple(hf["depths"])
    if len(widths) != len(depths):
        raise InvalidConfig(f"hidden_sizes lists {len(widths)} stages and depths {len(depths)}")
    return widths, depths


def _regnet(hf: HFConfig) -> Reading:
    widths, depths = _stages(hf)
    before = (hf["embedding_size"], *widths)
    gated = hf["layer_type"] == "y"
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "widths": PerLayer(widths),
        "depths": PerLayer(depths),
        "d_stem": hf["embedding_size"],
        "groups": PerLayer(tuple(w // max(1, w // hf["groups_width"]) for w in widths)),
        "squeezed": PerLayer(tuple(round(w / 4) for w in widths)) if gated else None,
        "first_squeezed": PerLayer(tuple(round(w / 4) for w in before[:-1])) if gated else None,
        "n_channels": hf["num_channels"],
        "shortcuts": (
            before[0] != widths[0] or bool(hf["downsample_in_first_stage"]),
            *(True for _ in widths[1:]),
        ),
        "act": hf["hidden_act"],
        "steps": (
            HALVES,
            HALVES if hf["downsample_in_first_stage"] else KEEPS,
            *(HALVES for _ in widths[1:]),
        ),
        **image_sides(hf),
    }
    return Reading("regnet", given)


def _mobilenet_v1(hf: HFConfig) -> Reading:
    depths, depth = [32], 32
    for i in range(N_MOBILE):
        depth *= 2 if i == 0 or i in HALVING else 1
        depths.append(depth)
    widths = tuple(max(int(depth * hf["depth_multiplier"]), hf["min_depth"]) for depth in depths)
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "widths": PerLayer(widths),
        "n_channels": hf["num_channels"],
        "act": hf["hidden_act"],
        "steps": (HALVES, *(HALVES if i in HALVING else KEEPS for i in range(N_MOBILE))),
        **image_sides(hf),
    }
    return Reading("mobilenet_v1", given)


def _poolformer(hf: HFConfig) -> Reading:
    widths, depths = _stages(hf)
    if (stages := hf["num_encoder_blocks"]) != len(depths):
        raise InvalidConfig(f"num_encoder_blocks = {clip(repr(stages))}, and depths lists {len(depths)}")
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "widths": PerLayer(widths),
        "depths": PerLayer(depths),
        "kernels": PerLayer(tuple(hf["patch_sizes"])),
        "ffns": PerLayer(tuple(int(width * hf["mlp_ratio"]) for width in widths)),
        "n_channels": hf["num_channels"],
        "scaled": bool(hf["use_layer_scale"]),
        "act": hf["hidden_act"],
        "steps": steps(hf, "patch_sizes", "strides", "padding"),
        **image_sides(hf),
    }
    return Reading("poolformer", given)


HF_READERS = {"mobilenet_v1": _mobilenet_v1, "poolformer": _poolformer, "regnet": _regnet}
