"""UVDoc: where each point of a photographed page would lie on a flat one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.architectures.vision.lists import (
    activation,
    as_list,
    as_size,
    flag,
    listed,
    listed_sizes,
)
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig, UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
BRIDGE_KERNEL = 3


@configuration
class UVDocConfig(Config):
    """Sizes and switches of a UVDoc, those in lists an entry a layer, `…_places` their names.

    `head_…`: the first convolutions; `inputs`, `widths`: channels before and after a block of the
    ResNet, `halving` those that halve the sides of the image; `bridges`: channels of the convolutions
    after it. `joined`: channels of all bridges; `d_connector`, and `points`, channels before and after
    each of the last two convolutions. `learned`: their activation has a parameter.
    """

    head_inputs: PerLayer
    head_widths: PerLayer
    inputs: PerLayer
    widths: PerLayer
    halving: tuple[bool, ...]
    places: tuple[str, ...]
    bridges: PerLayer
    bridge_places: tuple[str, ...]
    joined: Dim
    d_connector: Dim
    point_inputs: PerLayer
    point_widths: PerLayer
    kernel: Dim = 5
    point_kernel: Dim = 5
    learned: bool = True
    task: str = "base"

    letters = {
        "head_inputs": "Chi",
        "head_widths": "Ch",
        "inputs": "Ci",
        "widths": "C",
        "bridges": "Cb",
        "joined": "Cj",
        "d_connector": "Cc",
        "point_inputs": "Cpi",
        "point_widths": "Cp",
        "kernel": "Kn",
        "point_kernel": "Kp",
    }
    meanings = {
        "joined": "channels of all bridges",
        "d_connector": "channels after they are joined",
        "kernel": "side of a window",
        "point_kernel": "side of the last windows",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def uvdoc(c: UVDocConfig) -> Module:
    """UVDoc (arXiv:2302.02887). Source: transformers `modeling_uvdoc.py`."""
    kernel = Axis("kernel", c.kernel)
    heads = zip(_channels(c.head_inputs), _channels(c.head_widths), strict=True)
    blocks = zip(c.places, _channels(c.inputs), _channels(c.widths), c.halving, strict=True)
    bridges = zip(c.bridge_places, _channels(c.bridges), strict=True)
    three = Axis("kernel", BRIDGE_KERNEL)
    backbone = (
        *(Module(f"resnet.resnet_head.{i}", _normed(*pair, kernel)) for i, pair in enumerate(heads)),
        *(Module(place, _block(inp, out, kernel, halved)) for place, inp, out, halved in blocks),
        *(Module(place, _normed(width, width, three)) for place, width in bridges),
    )
    connector = _normed(Axis("channels", c.joined), Axis("channels", c.d_connector), ONE)
    head = (Module("bridge_connector", connector), Module("out_point_positions2D", _points(c)))
    return Module("", (Module("backbone", backbone), Module("head", head, component="head")))


def _channels(sizes: PerLayer) -> list[Axis]:
    return [Axis("channels", size) for size in sizes.sizes()]


def _normed(inp: Axis, out: Axis, kernel: Axis, *, bias: bool = False) -> Children:
    conv = convolution("convolution", out, inp, kernel, kernel, bias=bias, component="mixer")
    return (conv, batch_norm("normalization", out))


def _block(inp: Axis, out: Axis, kernel: Axis, halved: bool) -> Children:
    around = (Module("conv_down", _normed(inp, out, kernel, bias=True)),) if halved else ()
    return (
        *around,
        Module("conv_start", _normed(inp, out, kernel, bias=True)),
        Module("conv_final", _normed(out, out, kernel, bias=True)),
    )


def _points(c: UVDocConfig) -> Children:
    """Two coordinates for each point of a grid."""
    kernel = Axis("kernel", c.point_kernel)
    (first_in, last_in), (first, last) = _channels(c.point_inputs), _channels(c.point_widths)
    slope = (Param("activation.weight", (ONE,)),) if c.learned else ()
    return (
        Module("conv_down", (*_normed(first_in, first, kernel), *slope)),
        convolution("conv_up", last, last_in, kernel, kernel, component="head"),
    )


ARCHITECTURES = {"uvdoc": Architecture(UVDocConfig, uvdoc)}


def _uvdoc(hf: HFConfig) -> Reading:
    if hf.cls != "UVDocModel":
        raise UnknownName("class", hf.cls, ("UVDocModel",), hint="of a uvdoc")
    own = hf.nested("backbone_config", "uvdoc_backbone")
    if own.model_type != "uvdoc_backbone":
        raise InvalidConfig(f"backbone_config is of the type {own.model_type}; only uvdoc_backbone is read")
    heads = _pairs("resnet_head", listed(own, "resnet_head"))
    points = _pairs("out_point_positions2D", listed(hf, "out_point_positions2D", 2))
    found: dict[str, list[Any]] = {"inputs": [], "widths": [], "halving": [], "places": []}
    for i, stage in enumerate(listed(own, "resnet_configs")):
        for j, layer in enumerate(as_list("resnet_configs", stage)):
            inp, out, _, halved = as_list("resnet_configs", layer, 4)
            sizes = as_size("resnet_configs", inp), as_size("resnet_configs", out)
            values = (*sizes, flag("resnet_configs", halved), f"resnet.resnet_down.{i}.layers.{j}")
            for key, value in zip(found, values, strict=True):
                found[key].append(value)
    stages = [as_list("stage_configs", stage) for stage in listed(own, "stage_configs")]
    bridges = [
        (f"bridge.bridge.{i}.blocks.{j}", as_list("stage_configs", layer, 2)[0])
        for i, stage in enumerate(stages)
        for j, layer in enumerate(stage)
    ]
    width, connector = listed_sizes(hf, "bridge_connector", 2)
    given = {
        "task": "base",
        "head_inputs": PerLayer(tuple(inp for inp, _ in heads)),
        "head_widths": PerLayer(tuple(out for _, out in heads)),
        "inputs": PerLayer(tuple(found["inputs"])),
        "widths": PerLayer(tuple(found["widths"])),
        "halving": tuple(found["halving"]),
        "places": tuple(found["places"]),
        "bridges": PerLayer(tuple(as_size("stage_configs", channels) for _, channels in bridges)),
        "bridge_places": tuple(place for place, _ in bridges),
        "joined": width * len(stages),
        "d_connector": connector,
        "point_inputs": PerLayer(tuple(inp for inp, _ in points)),
        "point_widths": PerLayer(tuple(out for _, out in points)),
        "kernel": whole(own, "kernel_size"),
        "point_kernel": whole(hf, "kernel_size"),
        "learned": activation(hf, "hidden_act") == "prelu",
    }
    return Reading("uvdoc", given)


def _pairs(key: str, entries: tuple[Any, ...]) -> list[tuple[int, int]]:
    pairs = [as_list(key, entry, 2) for entry in entries]
    return [(as_size(key, inp), as_size(key, out)) for inp, out in pairs]


HF_READERS = {"uvdoc": _uvdoc}
