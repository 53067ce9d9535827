"""ResNet, ResNeXt and Wide ResNet under torchvision's names, and the narrow ResNets of CIFAR-10."""

from __future__ import annotations

from functools import cached_property

from sizer.architectures.registry import Architecture
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.architectures.vision.grid import Grid, ImageConfig
from sizer.core.config import configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import first_and_rest, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import ONCE, Axis, Module, Places

# A bottleneck gives back four times the channels of its stage.
EXPANSION = 4


@configuration
class TorchvisionResNetConfig(ImageConfig):
    """Sizes and switches, in the sense of the arguments of `torchvision.models.ResNet`.

    `d_stem`: channels of the first stage, which double from stage to stage. `depths`: blocks of each
    stage. `d_inner`: channels inside the bottlenecks of the first stage, `None` for blocks of two 3×3
    convolutions; `groups` of them see each other. `projection`: a 1×1 convolution goes around a block
    that changes its input's shape; without it the input is padded with zeros (option A of the paper).
    `shrinks`: the first convolution and the pooling after it each halve the sides of the image.
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
    shrinks: bool = True
    head: str = "fc"
    d_group: Dim | None = None
    task: str = "image_classification"

    letters = {
        **ImageConfig.letters,
        "depths": "L",
        "d_stem": "Cs",
        "d_inner": "Ci",
        "groups": "G",
        "stem_kernel": "Ks",
        "n_channels": "Nc",
    }
    meanings = {
        **ImageConfig.meanings,
        "d_stem": "channels of the first stage",
        "d_inner": "channels inside a bottleneck of the first stage",
        "groups": "groups of channels that see each other",
        "stem_kernel": "side of the first kernel",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_inner is not None:
            self.derive(d_group=divide(self.d_inner, self.groups, names="d_inner / groups"))

    @cached_property
    def grids(self) -> list[Grid]:
        """After the first convolution, after its pooling, and after each stage."""
        found = [self.image, self.image]
        if self.shrinks:
            first = self.image.convolved(7, 2, 3)
            found = [first, first.convolved(3, 2, 1)]
        for i in range(len(self.depths)):
            found.append(found[-1].convolved(3, 2 if i else 1, 1))
        return found


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
    first = first._replace(places=c.grids[0].places)
    classifier = linear(c.head, Axis("labels", c.n_labels), inp, bias=True, component="head", places=ONCE)
    return Module("", (first, batch_norm("bn1", stem), *stages, classifier))


def _stage(c: TorchvisionResNetConfig, i: int, depth: Dim, inp: Axis) -> tuple[Module, Axis]:
    wide = c.d_stem * 2**i * (1 if c.d_inner is None else EXPANSION)
    out = Axis("channels", wide)
    # The first block of the first stage keeps the width unless its blocks are bottlenecks.
    changes = i > 0 or c.d_inner is not None
    around: Children = ()
    if changes and c.projection:
        around = (Module("downsample", _unit("0", "1", out, inp, 1)),)
    before, after = c.grids[i + 1].places, c.grids[i + 2].places
    entry = after if c.d_inner is None else before
    first = (*_block(c, i, inp, out, entry), *around)
    stage = first_and_rest(f"layer{i + 1}", first, _block(c, i, out, out, after), depth)
    return stage._replace(places=after), out


def _block(c: TorchvisionResNetConfig, i: int, inp: Axis, out: Axis, entry: Places) -> Children:
    """`entry`: where the first convolution runs; the second takes the steps of a bottleneck."""
    if c.d_inner is None:
        first, rest = _unit("conv1", "bn1", out, inp, 3), _unit("conv2", "bn2", out, out, 3)
    else:
        inner, seen = Axis("channels", c.d_inner * 2**i), Axis("channels", c.d_group * 2**i)
        first = _unit("conv1", "bn1", inner, inp, 1)
        rest = (*_unit("conv2", "bn2", inner, seen, 3), *_unit("conv3", "bn3", out, inner, 1))
    return (Module("", first, places=entry), *rest)


def _unit(conv: str, norm: str, out: Axis, inp: Axis, kernel: int) -> Children:
    side = Axis("kernel", kernel)
    return (
        convolution(conv, out, inp, side, side, bias=False, component="mixer"),
        batch_norm(norm, out),
    )


ARCHITECTURES = {"torchvision_resnet": Architecture(TorchvisionResNetConfig, torchvision_resnet)}
