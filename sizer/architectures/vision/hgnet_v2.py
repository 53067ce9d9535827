"""HGNetV2: blocks whose convolutions are all kept and joined, of which RT-DETR's kin are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.architectures.vision.convolutional import ONE, normed
from sizer.architectures.vision.lists import activation, flag, listed, listed_sizes
from sizer.architectures.vision.pp_lcnet import window
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import first_and_rest, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig, UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class HGNetConfig(Config):
    """Sizes and switches of a HGNetV2, those in lists an entry a stage.

    `d_stem`, `d_half`, `d_stem_out`: channels in the stem, in half of it, and after it. `inputs`,
    `inner`, `widths`: channels before a stage, in its blocks and after each; `halves`: half of those.
    `depths`: blocks; `n_convolutions`: of each block. `halving`: the stages that begin with a stride;
    `light`: whose convolutions see each channel by itself. `affine`: a learned factor and summand after
    each activation. `d_last`: channels that the classifier reads.
    """

    d_stem: Dim
    d_half: Dim
    d_stem_out: Dim
    inputs: PerLayer
    inner: PerLayer
    widths: PerLayer
    halves: PerLayer
    depths: PerLayer
    kernels: PerLayer
    n_convolutions: PerLayer
    d_last: Dim
    n_channels: Dim = 3
    halving: tuple[bool, ...]
    light: tuple[bool, ...]
    affine: bool = False
    act: str = "relu"
    task: str = "base"

    letters = {
        "d_stem": "Cs",
        "d_half": "Ch",
        "d_stem_out": "Co",
        "inputs": "Ci",
        "inner": "Cm",
        "widths": "C",
        "halves": "Cw",
        "depths": "L",
        "kernels": "K",
        "n_convolutions": "N",
        "d_last": "Cl",
        "n_channels": "Nc",
    }
    meanings = {
        "d_stem": "channels in the stem",
        "d_half": "channels in half of the stem",
        "d_stem_out": "channels after the stem",
        "d_last": "channels that the classifier reads",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def hgnet_v2(c: HGNetConfig) -> Module:
    """HGNetV2 of PaddleClas. Source: transformers `modeling_hgnet_v2.py`."""
    model = (
        Module("embedder", _stem(c)),
        *(Module(f"encoder.stages.{i}", _stage(c, i)) for i in range(len(c.widths))),
    )
    if c.task == "base":
        return Module("", model)
    last, labels = Axis("channels", c.d_last), Axis("labels", c.n_labels)
    return Module("", (*model, linear("fc", labels, last, bias=True, component="head")))


def _stem(c: HGNetConfig) -> Children:
    stem, half = Axis("channels", c.d_stem), Axis("channels", c.d_half)
    after = _affine(c.affine)
    layers = {
        "stem1": normed(Axis("image", c.n_channels), stem, 3),
        "stem2a": normed(stem, half, 2),
        "stem2b": normed(half, stem, 2),
        "stem3": normed(2 * stem, stem, 3),
        "stem4": normed(stem, Axis("channels", c.d_stem_out), 1),
    }
    return tuple(Module(name, (*layer, *after)) for name, layer in layers.items())


def _affine(present: bool) -> Children:
    return (
        (Module("lab", (Param("scale", (ONE,)), Param("bias", (ONE,))), component="norm"),) if present else ()
    )


def _stage(c: HGNetConfig, i: int) -> Children:
    inp, out = Axis("channels", c.inputs.sizes()[i]), Axis("channels", c.widths.sizes()[i])
    halved = (Module("downsample", window(inp, Axis("kernel", 3))),) if c.halving[i] else ()
    blocks = first_and_rest("blocks", _block(c, i, inp, out), _block(c, i, out, out), c.depths.sizes()[i])
    return (*halved, blocks)


def _block(c: HGNetConfig, i: int, inp: Axis, out: Axis) -> Children:
    """Convolutions one after the other, and two that join all of them."""
    inner, half = Axis("channels", c.inner.sizes()[i]), Axis("channels", c.halves.sizes()[i])
    count = c.n_convolutions.sizes()[i]
    joined = Axis("joined", inp.size + count * inner.size)
    after = _affine(c.affine)
    return (
        first_and_rest("layers", _convolution(c, i, inp, inner), _convolution(c, i, inner, inner), count),
        Module("aggregation.0", (*_square(joined, half, ONE), *after)),
        Module("aggregation.1", (*_square(half, out, ONE), *after)),
    )


def _convolution(c: HGNetConfig, i: int, inp: Axis, out: Axis) -> Children:
    side, after = Axis("kernel", c.kernels.sizes()[i]), _affine(c.affine)
    if c.light[i]:
        return (Module("conv1", _square(inp, out, ONE)), Module("conv2", (*window(out, side), *after)))
    return (*_square(inp, out, side), *after)


def _square(inp: Axis, out: Axis, side: Axis) -> Children:
    return (
        convolution("convolution", out, inp, side, side, bias=False, component="mixer"),
        batch_norm("normalization", out),
    )


ARCHITECTURES = {"hgnet_v2": Architecture(HGNetConfig, hgnet_v2)}


def _hgnet_v2(hf: HFConfig) -> Reading:
    known = ("HGNetV2ForImageClassification", "HGNetV2Backbone")
    if hf.cls not in known:
        raise UnknownName("class", hf.cls, known, hint="of a hgnet_v2")
    base = hf.cls == "HGNetV2Backbone"
    sizes = {
        "inputs": "stage_in_channels",
        "inner": "stage_mid_channels",
        "widths": "stage_out_channels",
        "depths": "stage_num_blocks",
        "kernels": "stage_kernel_size",
        "n_convolutions": "stage_numb_of_layers",
    }
    flags = {"halving": "stage_downsample", "light": "stage_light_block"}
    stages = len(listed(hf, "stage_in_channels"))
    found = {name: listed_sizes(hf, key, stages) for name, key in sizes.items()}
    listed(hf, "stage_downsample_strides", stages)
    if 1 in found["widths"]:
        raise InvalidConfig("stage_out_channels: 1 channel has no half")
    image, stem, after = listed_sizes(hf, "stem_channels", 3)
    if stem == 1:
        raise InvalidConfig("stem_channels: 1 channel has no half")
    given = {
        "task": "base" if base else "image_classification",
        "n_labels": 2 if base else hf.n_labels,
        "n_channels": image,
        "d_stem": stem,
        "d_half": stem // 2,
        "d_stem_out": after,
        "d_last": listed_sizes(hf, "hidden_sizes")[-1],
        "halves": PerLayer(tuple(width // 2 for width in found["widths"])),
        "affine": bool(hf["use_learnable_affine_block"]),
        "act": activation(hf, "hidden_act"),
        **{name: PerLayer(values) for name, values in found.items()},
        **{name: tuple(flag(key, on) for on in listed(hf, key, stages)) for name, key in flags.items()},
    }
    return Reading("hgnet_v2", given)


HF_READERS = {"hgnet_v2": _hgnet_v2}
