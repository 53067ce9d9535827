"""FocalNet: a patch is modulated by what is around it, near and far, in place of attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import positive, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.clip import patch_side
from sizer.architectures.vision.lists import activation
from sizer.architectures.vision.scaled import MAX_STAGES, listed
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import Config, check_size, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear, mlp
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


@configuration
class FocalNetConfig(Config):
    """Sizes and switches of a FocalNet.

    `levels`: how many windows each stage has, from the side in `windows` on, each wider than the last
    by two. `first_kernel`, `kernel`: sides of what becomes a patch of the first stage, and of the others.
    `scaled`: a learned factor on what is added; `normed`: a norm in the modulation.
    """

    widths: PerLayer
    depths: PerLayer
    ffns: PerLayer
    windows: PerLayer
    levels: tuple[int, ...]
    first_kernel: Dim
    kernel: Dim
    n_channels: Dim = 3
    scaled: bool = False
    normed: bool = False
    act: str = "gelu"
    task: str = "base"

    letters = {
        "widths": "C",
        "depths": "L",
        "ffns": "F",
        "windows": "W",
        "first_kernel": "p",
        "kernel": "K",
        "n_channels": "Nc",
    }
    meanings = {
        "first_kernel": "side of a patch",
        "kernel": "side of what becomes a patch of a later stage",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def focalnet(c: FocalNetConfig) -> Module:
    """FocalNet (arXiv:2203.11926). Source: transformers `modeling_focalnet.py`."""
    widths = [Axis("embed", width) for width in c.widths.sizes()]
    image = Axis("image", c.n_channels)
    stages = []
    for i, depth in enumerate(c.depths.sizes()):
        down: Children = ()
        if i < len(widths) - 1:
            down = (Module("downsample", _patches("projection", c.kernel, widths[i], widths[i + 1])),)
        block = Module("layers", _block(c, i, widths[i]), repeat=depth)
        stages.append(Module(f"encoder.stages.{i}", (block, *down)))
    first = _patches("patch_embeddings.projection", c.first_kernel, image, widths[0])
    model = (Module("embeddings", first), *stages, layer_norm("layernorm", widths[-1]))
    if c.task == "base":
        return Module("", model)
    head = linear("classifier", Axis("labels", c.n_labels), widths[-1], bias=True, component="head")
    return Module("", (Module("focalnet", model), head))


def _patches(name: str, kernel: Dim, inp: Axis, out: Axis) -> Children:
    side = Axis("kernel", kernel)
    return (convolution(name, out, inp, side, side), layer_norm("norm", out))


def _block(c: FocalNetConfig, i: int, embed: Axis) -> Children:
    scales = (Param("gamma_1", (embed,)), Param("gamma_2", (embed,))) if c.scaled else ()
    return (
        *scales,
        layer_norm("norm1", embed),
        Module("modulation", _modulation(c, i, embed), component="mixer"),
        layer_norm("norm2", embed),
        mlp("mlp", Axis("ffn", c.ffns.sizes()[i]), embed, act=c.act, names=("fc1", "fc2")),
    )


def _modulation(c: FocalNetConfig, i: int, embed: Axis) -> Children:
    """Queries, a context, and a gate for each window and for the whole image."""
    window, gates = c.windows.sizes()[i], Axis("gates", c.levels[i] + 1)
    sides = (Axis("kernel", window + 2 * level) for level in range(c.levels[i]))
    return (
        linear("projection_in", 2 * embed + gates, embed, bias=True),
        convolution("projection_context", embed, embed, ONE, ONE, component="mixer"),
        linear("projection_out", embed, embed, bias=True),
        *(
            convolution(f"focal_layers.{k}.0", embed, ONE, side, side, bias=False, component="mixer")
            for k, side in enumerate(sides)
        ),
        *((layer_norm("layernorm", embed),) if c.normed else ()),
    )


ARCHITECTURES = {"focalnet": Architecture(FocalNetConfig, focalnet)}


def _focalnet(hf: HFConfig) -> Reading:
    depths, first = listed(hf, "depths"), whole(hf, "embed_dim")
    widths = tuple(first << i for i in range(len(depths)))
    ratio = positive("mlp_ratio", hf["mlp_ratio"])
    ffns = tuple(int(width * ratio) for width in widths)
    for size in (*widths, *ffns):
        check_size("a width of the last stages", size)
    levels = listed(hf, "focal_levels", len(depths))
    if max(levels) > MAX_STAGES:
        raise InvalidConfig(f"focal_levels has {max(levels)} windows in a stage; no FocalNet has as many")
    convolved = bool(hf["use_conv_embed"])
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "widths": PerLayer(widths),
        "depths": PerLayer(depths),
        "ffns": PerLayer(ffns),
        "windows": PerLayer(listed(hf, "focal_windows", len(depths))),
        "levels": levels,
        "first_kernel": 7 if convolved else patch_side(hf),
        "kernel": 3 if convolved else 2,
        "n_channels": hf["num_channels"],
        "scaled": bool(hf["use_layerscale"]),
        "normed": bool(hf["use_post_layernorm_in_modulation"]),
        "act": activation(hf, "hidden_act"),
    }
    return Reading("focalnet", given)


HF_READERS = {"focalnet": _focalnet}
