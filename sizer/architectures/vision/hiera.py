"""Hiera: stages of plain attention, of which the first layer of each pools and widens."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import positive, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.lists import activation
from sizer.architectures.vision.scaled import listed
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import Config, check_size, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, first_and_rest, layer_norm, linear, mlp
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig, shown

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


@configuration
class HieraConfig(Config):
    """Sizes of a Hiera. `widens`: the stages whose first layer changes the width of what it reads."""

    widths: PerLayer
    depths: PerLayer
    heads: PerLayer
    head_widths: PerLayer
    ffns: PerLayer
    widens: tuple[bool, ...]
    n_positions: Dim
    patch_height: Dim
    patch_width: Dim
    n_channels: Dim = 3
    act: str = "gelu"
    task: str = "base"

    letters = {
        "widths": "C",
        "depths": "L",
        "heads": "H",
        "head_widths": "Dh",
        "ffns": "F",
        "n_positions": "Np",
        "patch_height": "ph",
        "patch_width": "pw",
        "n_channels": "Nc",
    }
    meanings = {
        "n_positions": "patches of an image",
        "patch_height": "height of a patch",
        "patch_width": "width of a patch",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def hiera(c: HieraConfig) -> Module:
    """Hiera (arXiv:2306.00989), with the names of `HieraModel`. Source: transformers `modeling_hiera.py`."""
    widths = [Axis("embed", width) for width in c.widths.sizes()]
    inputs = [widths[0], *widths[:-1]]
    sides = (Axis("patch", c.patch_height), Axis("patch", c.patch_width))
    first = (
        Param("position_embeddings", (ONE, Axis("patches", c.n_positions), widths[0]), component="position"),
        convolution("patch_embeddings.projection", widths[0], Axis("image", c.n_channels), *sides),
    )
    stages = []
    for i, depth in enumerate(c.depths.sizes()):
        around = (linear("proj", widths[i], inputs[i], bias=True, component="other"),) if c.widens[i] else ()
        changing = (*_block(c, i, inputs[i], widths[i]), *around)
        layers = first_and_rest("layers", changing, _block(c, i, widths[i], widths[i]), depth)
        stages.append(Module(f"encoder.stages.{i}", (layers,)))
    model = (Module("embeddings", first), *stages, layer_norm("pooler.layernorm", widths[-1]))
    if c.task == "base":
        return Module("", model)
    head = linear("classifier", Axis("labels", c.n_labels), widths[-1], bias=True, component="head")
    return Module("", (Module("hiera", model), head))


def _block(c: HieraConfig, i: int, inp: Axis, out: Axis) -> Children:
    attention = (
        linear("qkv", 3 * out, inp, bias=True),
        *attention_core(c.heads.sizes()[i], c.heads.sizes()[i], c.head_widths.sizes()[i], cached=False),
        linear("proj", out, out, bias=True),
    )
    return (
        layer_norm("layernorm_before", inp),
        Module("attn", attention, component="attention"),
        layer_norm("layernorm_after", out),
        mlp("mlp", Axis("ffn", c.ffns.sizes()[i]), out, act=c.act, names=("fc1", "fc2")),
    )


ARCHITECTURES = {"hiera": Architecture(HieraConfig, hiera)}


def _widths(hf: HFConfig, n_stages: int) -> tuple[int, ...]:
    first, factor = whole(hf, "embed_dim"), positive("embed_dim_multiplier", hf["embed_dim_multiplier"])
    widths = tuple(int(first * factor**i) for i in range(n_stages))
    for width in widths:
        check_size("a width of the last stages", width)
    return widths


def _check_pooling(hf: HFConfig, n_stages: int) -> None:
    """Units of the mask must pool to whole tokens, and each pooling needs a stage after it."""
    unit, stride = listed(hf, "masked_unit_size", 2)[0], listed(hf, "query_stride", 2)[0]
    if unit % stride ** (n_stages - 1):
        raise InvalidConfig(f"masked_unit_size {unit} does not divide {n_stages - 1} times by {stride}")
    if whole(hf, "num_query_pool") >= n_stages:
        raise InvalidConfig(f"num_query_pool = {hf['num_query_pool']} is not below {n_stages} stages")
    if not isinstance(listing := hf["masked_unit_attention"], list | tuple) or len(listing) != n_stages:
        raise InvalidConfig(f"masked_unit_attention = {shown(listing)} does not list {n_stages} stages")


def _hiera(hf: HFConfig) -> Reading:
    depths = listed(hf, "depths")
    _check_pooling(hf, len(depths))
    widths, heads = _widths(hf, len(depths)), listed(hf, "num_heads", len(depths))
    ratio = positive("mlp_ratio", hf["mlp_ratio"])
    ffns = tuple(int(width * ratio) for width in widths)
    head_widths = tuple(width // n for width, n in zip(widths, heads, strict=True))
    image, strides = listed(hf, "image_size", 2), listed(hf, "patch_stride", 2)
    n_positions = prod(size // stride for size, stride in zip(image, strides, strict=True))
    for size in (*ffns, *head_widths):
        check_size("width of a head or an MLP", size)
    height, width = listed(hf, "patch_size", 2)
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "widths": PerLayer(widths),
        "depths": PerLayer(depths),
        "heads": PerLayer(heads),
        "head_widths": PerLayer(head_widths),
        "ffns": PerLayer(ffns),
        "widens": (False, *(a != b for a, b in pairwise(widths))),
        "n_positions": n_positions,
        "patch_height": height,
        "patch_width": width,
        "n_channels": hf["num_channels"],
        "act": activation(hf, "hidden_act"),
    }
    return Reading("hiera", given)


HF_READERS = {"hiera": _hiera}
