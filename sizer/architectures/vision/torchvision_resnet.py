"""ResNet, ResNeXt and Wide ResNet under torchvision's names, and the narrow ResNets of CIFAR-10."""

from __future__ import annotations

from sizer.architectures.registry import Architecture
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import first_and_rest, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module

# A bottleneck gives back four times the channels of its stage.
EXPANSION = 4


@configuration
class TorchvisionResNetConfig(Config):
    """Sizes and switches, in the sense of the arguments of `torchvision.models.ResNet`.

    `d_stem`: channels of the first stage, which double from stage to stage. `depths`: blocks of each
    stage. `d_inner`: channels inside the bottlenecks of the first stage, `None` for blocks of two 3×3
    convolutions; `groups` of them see each other. `projection`: a 1×1 convolution goes around a block
    that changes its input's shape; without it the input is padded with zeros (option A of the paper).
    `head`: the name of the classifier.
    """

    depths: PerLayer
    d_stem: Dim = 64
    d_inner: Dim | None = None
    groups: Dim = 1
    stem_kernel: Dim = 7
    n_channels: Dim = 3
    n_labels: Dim = 1000
    projection: bool = True
    head: str = "fc"
    d_group: Dim | None = None
    task: str = "image_classification"

    letters = {
        "depths": "L",
        "d_stem": "Cs",
        "d_inner": "Ci",
        "groups": "G",
        "stem_kernel": "Ks",
        "n_channels": "Nc",
    }
    meanings = {
        "d_stem": "channels of the first stage",
        "d_inner": "channels inside a bottleneck of the first stage",
        "groups": "groups of channels that see each other",
        "stem_kernel": "side of the first kernel",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.d_inner is not None:
            self.derive(d_group=divide(self.d_inner, self.groups, names="d_inner / groups"))


def torchvision_resnet(c: TorchvisionResNetConfig) -> Module:
    """ResNet (arXiv:1512.03385), ResNeXt (1611.05431), Wide ResNet (1605.07146).

    Source: torchvision `models/resnet.py`; for CIFAR-10, section 4.2 of the first paper.
    """
    stem = Axis("channels", c.d_stem)
    stages = []
    inp = stem
    for i, depth in enumerate(c.depths.sizes()):
        stage, inp = _stage(c, i, depth, inp)
        stages.append(stage)
    side = Axis("kernel", c.stem_kernel)
    first = convolution("conv1", stem, Axis("image", c.n_channels), side, side, bias=False, component="mixer")
    classifier = linear(c.head, Axis("labels", c.n_labels), inp, bias=True, component="head")
    return Module("", (first, batch_norm("bn1", stem), *stages, classifier))


def _stage(c: TorchvisionResNetConfig, i: int, depth: Dim, inp: Axis) -> tuple[Module, Axis]:
    wide = c.d_stem * 2**i * (1 if c.d_inner is None else EXPANSION)
    out = Axis("channels", wide)
    # The first block of the first stage keeps the width unless its blocks are bottlenecks.
    changes = i > 0 or c.d_inner is not None
    around: Children = ()
    if changes and c.projection:
        around = (Module("downsample", _unit("0", "1", out, inp, 1)),)
    first = (*_block(c, i, inp, out), *around)
    return first_and_rest(f"layer{i + 1}", first, _block(c, i, out, out), depth), out


def _block(c: TorchvisionResNetConfig, i: int, inp: Axis, out: Axis) -> Children:
    if c.d_inner is None:
        return (*_unit("conv1", "bn1", out, inp, 3), *_unit("conv2", "bn2", out, out, 3))
    inner, seen = Axis("channels", c.d_inner * 2**i), Axis("channels", c.d_group * 2**i)
    return (
        *_unit("conv1", "bn1", inner, inp, 1),
        *_unit("conv2", "bn2", inner, seen, 3),
        *_unit("conv3", "bn3", out, inner, 1),
    )


def _unit(conv: str, norm: str, out: Axis, inp: Axis, kernel: int) -> Children:
    side = Axis("kernel", kernel)
    return (
        convolution(conv, out, inp, side, side, bias=False, component="mixer"),
        batch_norm(norm, out),
    )


ARCHITECTURES = {"torchvision_resnet": Architecture(TorchvisionResNetConfig, torchvision_resnet)}
