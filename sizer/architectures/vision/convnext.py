"""ConvNeXt: stages of convolutions, each channel by itself, between plain matrices."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.clip import patch_side
from sizer.architectures.vision.grid import Grid, ImageConfig, image_sides
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import ONCE, Axis, Module, Op, Param
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
KERNEL = Axis("kernel", 7)
TWO = Axis("kernel", 2)
# ConvNeXt-T, where a file does not say.
WIDTHS, DEPTHS = (96, 192, 384, 768), (3, 3, 9, 3)


@configuration
class ConvNextConfig(ImageConfig):
    """Sizes and switches of a ConvNeXt.

    `scaled`: a learned factor on each block's output; `responses`: ConvNeXt V2's norm of responses.
    `dino`: the names of DINOv3's.
    """

    widths: PerLayer
    depths: PerLayer
    patch_size: Dim
    n_channels: Dim = 3
    scaled: bool = True
    responses: bool = False
    dino: bool = False
    act: str = "gelu"
    prefix: str = "convnext"
    task: str = "base"

    letters = {
        **ImageConfig.letters,
        "widths": "C",
        "depths": "L",
        "patch_size": "p",
        "n_channels": "Nc",
    }
    meanings = {
        **ImageConfig.meanings,
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
    }

    @cached_property
    def grids(self) -> list[Grid]:
        """Of each stage."""
        found = [self.image.patched(self.patch_size)]
        while len(found) < len(self.depths):
            found.append(found[-1].patched(2))
        return found


def convnext(c: ConvNextConfig) -> Module:
    """ConvNeXt (arXiv:2201.03545) and V2 (arXiv:2301.00808), with the names of `ConvNextModel`.

    Source: transformers `modeling_convnext.py`, `modeling_convnextv2.py`, `modeling_dinov3_convnext.py`.
    """
    widths = [Axis("channels", width) for width in c.widths.sizes()]
    side = Axis("patch", c.patch_size)
    image = Axis("image", c.n_channels)
    stages = [
        Module(
            f"{_stages(c)}.{i}",
            (*_downsample(c, i, widths, image, side), _blocks(c, widths[i], depth)),
            places=c.grids[i].places,
        )
        for i, depth in enumerate(c.depths.sizes())
    ]
    first = (
        convolution("patch_embeddings", widths[0], image, side, side),
        layer_norm("layernorm", widths[0]),
    )
    model = (
        *(() if c.dino else (Module("embeddings", first, places=c.grids[0].places),)),
        *stages,
        layer_norm("layer_norm" if c.dino else "layernorm", widths[-1]),
    )
    if c.task == "base":
        return Module("", model)
    labels = Axis("labels", c.n_labels)
    classifier = linear("classifier", labels, widths[-1], bias=True, component="head", places=ONCE)
    return Module("", (Module(c.prefix, model), classifier))


def _stages(c: ConvNextConfig) -> str:
    if not c.dino:
        return "encoder.stages"
    return "stages" if c.layout == "checkpoint" else "model.stages"


def _downsample(c: ConvNextConfig, i: int, widths: list[Axis], image: Axis, side: Axis) -> Children:
    """What halves the sides of the image before a stage; DINOv3's first stage reads the pixels."""
    name = "downsample_layers" if c.dino else "downsampling_layer"
    if i > 0:
        narrow, wide = widths[i - 1], widths[i]
        conv = convolution(f"{name}.1", wide, narrow, TWO, TWO, component="mixer")
        return (layer_norm(f"{name}.0", narrow), conv)
    if not c.dino:
        return ()
    return (convolution(f"{name}.0", widths[0], image, side, side), layer_norm(f"{name}.1", widths[0]))


def _blocks(c: ConvNextConfig, width: Axis, depth: Dim) -> Module:
    wide = 4 * width
    names = ("depthwise_conv", "layer_norm", "pointwise_conv1", "pointwise_conv2", "gamma")
    if not c.dino:
        names = ("dwconv", "layernorm", "pwconv1", "pwconv2", "layer_scale_parameter")
    deep, norm, up, down, scale = names
    responses: Children = ()
    if c.responses:
        vector = (ONE, ONE, ONE, wide)
        responses = (Module("grn", (Param("weight", vector), Param("bias", vector)), component="norm"),)
    parts = (
        *((Param(scale, (width,)),) if c.scaled else ()),
        convolution(deep, width, ONE, KERNEL, KERNEL, component="mixer"),
        layer_norm(norm, width),
        linear(up, wide, width, bias=True, component="mlp"),
        Op("act", c.act, {"width": wide.size}, component="mlp"),
        *responses,
        linear(down, width, wide, bias=True, component="mlp"),
    )
    return Module("layers", parts, repeat=depth)


ARCHITECTURES = {"convnext": Architecture(ConvNextConfig, convnext)}


def _convnext(hf: HFConfig, **own: Any) -> Reading:
    widths, depths = tuple(hf["hidden_sizes"] or WIDTHS), tuple(hf["depths"] or DEPTHS)
    if len(widths) != len(depths):
        raise InvalidConfig(f"hidden_sizes lists {len(widths)} stages and depths {len(depths)}")
    if (stages := hf.get("num_stages", len(depths))) != len(depths):
        raise InvalidConfig(f"num_stages = {clip(repr(stages))}, and depths lists {len(depths)} stages")
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "widths": PerLayer(widths),
        "depths": PerLayer(depths),
        "patch_size": patch_side(hf) if "patch_size" in hf else 4,
        "n_channels": hf["num_channels"],
        "scaled": hf.get("layer_scale_init_value", 0) > 0,
        "act": hf["hidden_act"],
        **image_sides(hf),
        **own,
    }
    return Reading("convnext", given)


def _convnextv2(hf: HFConfig) -> Reading:
    return _convnext(hf, scaled=False, responses=True, prefix="convnextv2")


def _dinov3(hf: HFConfig) -> Reading:
    return _convnext(hf, scaled=True, dino=True)


HF_READERS = {"convnext": _convnext, "convnextv2": _convnextv2, "dinov3_convnext": _dinov3}
