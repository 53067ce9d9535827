"""TextNet: convolutions over squares, columns and rows of pixels at once, which find lines of text."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.architectures.vision.convolutional import ONE
from sizer.architectures.vision.lists import (
    activation_without_weights,
    as_list,
    as_size,
    listed,
    listed_sizes,
)
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# What a file without `conv_layer_kernel_sizes` and `conv_layer_strides` has in each stage.
KERNELS = (
    ((3, 3), (3, 3), (3, 3)),
    ((3, 3), (1, 3), (3, 3), (3, 1)),
    ((3, 3), (3, 3), (3, 1), (1, 3)),
    ((3, 3), (3, 1), (1, 3), (3, 3)),
)
STRIDES = ((1, 2, 1), (2, 1, 1, 1), (2, 1, 1, 1), (2, 1, 1, 1))


@configuration
class TextNetConfig(Config):
    """Sizes and switches of a TextNet, those in lists an entry a layer.

    `inputs`, `widths`: channels before and after each; `rows`, `columns`: of its window. `tall`, `wide`:
    whether it has a convolution over its rows, and over its columns, alone; `around`: a norm of its
    input. `places`: the names of the layers.
    """

    d_stem: Dim
    stem_side: Dim = 3
    inputs: PerLayer
    widths: PerLayer
    rows: PerLayer
    columns: PerLayer
    tall: tuple[bool, ...]
    wide: tuple[bool, ...]
    around: tuple[bool, ...]
    places: tuple[str, ...]
    n_channels: Dim = 3
    task: str = "base"

    letters = {
        "d_stem": "Cs",
        "stem_side": "Ks",
        "inputs": "Ci",
        "widths": "C",
        "rows": "Kr",
        "columns": "Kc",
        "n_channels": "Nc",
    }
    meanings = {
        "d_stem": "channels after the stem",
        "stem_side": "side of the stem's window",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def textnet(c: TextNetConfig) -> Module:
    """TextNet of FAST (arXiv:2111.02394). Source: transformers `modeling_textnet.py`."""
    stem, side = Axis("channels", c.d_stem), Axis("kernel", c.stem_side)
    image = Axis("image", c.n_channels)
    model = (
        Module("stem", _normed("conv", "batch_norm", stem, image, side, side)),
        *(Module(place, _layer(c, i)) for i, place in enumerate(c.places)),
    )
    if c.task == "base":
        return Module("", model)
    last = Axis("channels", c.widths.sizes()[-1])
    head = linear("fc", Axis("labels", c.n_labels), last, bias=True, component="head")
    return Module("", (Module("textnet", model), head))


def _layer(c: TextNetConfig, i: int) -> Children:
    inp, out = Axis("channels", c.inputs.sizes()[i]), Axis("channels", c.widths.sizes()[i])
    rows, columns = Axis("kernel", c.rows.sizes()[i]), Axis("kernel", c.columns.sizes()[i])
    tall = _named("vertical", out, inp, rows, ONE) if c.tall[i] else ()
    wide = _named("horizontal", out, inp, ONE, columns) if c.wide[i] else ()
    around = (batch_norm("rbr_identity", inp),) if c.around[i] else ()
    return (*_named("main", out, inp, rows, columns), *tall, *wide, *around)


def _named(name: str, out: Axis, inp: Axis, *kernel: Axis) -> Children:
    return _normed(f"{name}_conv", f"{name}_batch_norm", out, inp, *kernel)


def _normed(name: str, norm: str, out: Axis, inp: Axis, *kernel: Axis) -> Children:
    conv = convolution(name, out, inp, *kernel, bias=False, component="mixer")
    return (conv, batch_norm(norm, out))


ARCHITECTURES = {"textnet": Architecture(TextNetConfig, textnet)}


def _textnet(hf: HFConfig) -> Reading:
    activation_without_weights(hf, "stem_act_func")
    kernels = _stages(hf, "conv_layer_kernel_sizes", KERNELS)
    strides = _stages(hf, "conv_layer_strides", STRIDES)
    if [len(stage) for stage in kernels] != [len(stage) for stage in strides]:
        raise InvalidConfig("conv_layer_kernel_sizes and conv_layer_strides list different layers")
    widths = listed_sizes(hf, "hidden_sizes", len(kernels) + 1)
    names = ("inputs", "widths", "rows", "columns", "tall", "wide", "around", "places")
    found: dict[str, list[Any]] = {name: [] for name in names}
    for i, (before, out) in enumerate(pairwise(widths)):
        inp = before
        for j, (kernel, stride) in enumerate(zip(kernels[i], strides[i], strict=True)):
            where = "conv_layer_kernel_sizes"
            rows, columns = (as_size(where, side) for side in as_list(where, kernel, 2))
            around = inp == out and as_size("conv_layer_strides", stride) == 1
            values = (
                inp,
                out,
                rows,
                columns,
                columns != 1,
                rows != 1,
                around,
                f"encoder.stages.{i}.stage.{j}",
            )
            for name, value in zip(names, values, strict=True):
                found[name].append(value)
            inp = out
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "d_stem": whole(hf, "stem_out_channels"),
        "stem_side": whole(hf, "stem_kernel_size"),
        "n_channels": whole(hf, "stem_num_channels"),
        **{name: PerLayer(tuple(found[name])) for name in names[:4]},
        **{name: tuple(found[name]) for name in names[4:]},
    }
    return Reading("textnet", given)


def _stages(hf: HFConfig, key: str, usual: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    stages = usual if hf[key] is None else listed(hf, key)
    return tuple(as_list(f"{key}[{i}]", stage) for i, stage in enumerate(stages))


HF_READERS = {"textnet": _textnet}
