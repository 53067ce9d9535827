"""TextNet: convolutions with windows of several shapes side by side, which become one after training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.architectures.vision.scaled import MAX_STAGES, listed
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import Config, check_size, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig, shown

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

Window = tuple[int, int]
# The windows of each layer and the steps they take, stage by stage, where a file does not say.
SQUARE, FLAT, TALL = (3, 3), (1, 3), (3, 1)
WINDOWS = (
    (SQUARE, SQUARE, SQUARE),
    (SQUARE, FLAT, SQUARE, TALL),
    (SQUARE, SQUARE, TALL, FLAT),
    (SQUARE, TALL, FLAT, SQUARE),
)
STEPS = ((1, 2, 1), (2, 1, 1, 1), (2, 1, 1, 1), (2, 1, 1, 1))


@configuration
class TextNetConfig(Config):
    """Sizes and switches of a TextNet.

    `widths`: channels into the first stage and out of each. `windows`: height and width of those of each
    layer, stage by stage; `passing`: the layers that add their input, through a norm.
    """

    d_stem: Dim
    stem_kernel: Dim
    widths: PerLayer
    windows: tuple[tuple[Window, ...], ...]
    passing: tuple[tuple[bool, ...], ...]
    n_channels: Dim = 3
    task: str = "base"

    letters = {"d_stem": "Cs", "stem_kernel": "K", "widths": "C", "n_channels": "Nc"}
    meanings = {
        "d_stem": "channels after the first convolution",
        "stem_kernel": "side of its window",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def textnet(c: TextNetConfig) -> Module:
    """TextNet (arXiv:2111.02394). Source: transformers `modeling_textnet.py`."""
    widths = [Axis("channels", width) for width in c.widths.sizes()]
    stem, side = Axis("channels", c.d_stem), Axis("kernel", c.stem_kernel)
    image = Axis("image", c.n_channels)
    first = (convolution("conv", stem, image, side, side, bias=False), batch_norm("batch_norm", stem))
    layers = []
    for i, (windows, passing) in enumerate(zip(c.windows, c.passing, strict=True)):
        for j, window in enumerate(windows):
            inp = widths[i] if j == 0 else widths[i + 1]
            parts = _layer(inp, widths[i + 1], window, passing=passing[j])
            layers.append(Module(f"encoder.stages.{i}.stage.{j}", parts))
    model = (Module("stem", first), *layers)
    if c.task == "base":
        return Module("", model)
    head = linear("fc", Axis("labels", c.n_labels), widths[-1], bias=True, component="head")
    return Module("", (Module("textnet", model), head))


def _layer(inp: Axis, out: Axis, window: Window, *, passing: bool) -> Children:
    """The whole window, a column and a row of it where it has more than one, and the input itself."""
    height, width = window
    shapes = {"main": window}
    if width != 1:
        shapes["vertical"] = (height, 1)
    if height != 1:
        shapes["horizontal"] = (1, width)
    parts: list[Module] = []
    for name, sides in shapes.items():
        kernel = (Axis("kernel", side) for side in sides)
        parts.append(convolution(f"{name}_conv", out, inp, *kernel, bias=False, component="mixer"))
        parts.append(batch_norm(f"{name}_batch_norm", out))
    return (*parts, *((batch_norm("rbr_identity", inp),) if passing else ()))


ARCHITECTURES = {"textnet": Architecture(TextNetConfig, textnet)}


def _stages(key: str, values: Any, n_stages: int | None = None) -> list[list[Any]]:
    """Lists with an entry a layer, in a list with one a stage."""
    good = isinstance(values, list | tuple) and 0 < len(values) <= MAX_STAGES
    if not good or not all(isinstance(one, list | tuple) and 0 < len(one) <= MAX_STAGES for one in values):
        raise InvalidConfig(f"{key} = {shown(values)} does not list the layers of each stage")
    if n_stages is not None and len(values) != n_stages:
        raise InvalidConfig(f"{key} lists {len(values)} stages, and there are {n_stages}")
    return [list(one) for one in values]


def _window(value: Any) -> Window:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise InvalidConfig(f"conv_layer_kernel_sizes has {shown(value)}, which is not a height and a width")
    for side in value:
        check_size("conv_layer_kernel_sizes", side)
    return value[0], value[1]


def _textnet(hf: HFConfig) -> Reading:
    listing = hf["conv_layer_kernel_sizes"]
    kernels = _stages("conv_layer_kernel_sizes", WINDOWS if listing is None else listing)
    taken = hf["conv_layer_strides"]
    steps = _stages("conv_layer_strides", STEPS if taken is None else taken, len(kernels))
    if [len(stage) for stage in kernels] != [len(stage) for stage in steps]:
        raise InvalidConfig("conv_layer_strides and conv_layer_kernel_sizes list different numbers of layers")
    for step in (step for stage in steps for step in stage):
        check_size("conv_layer_strides", step)
    widths = listed(hf, "hidden_sizes", len(kernels) + 1)
    # A layer passes its input on where it keeps the size; the first of a stage may change it.
    passing = tuple(
        tuple(step == 1 and (j > 0 or widths[i] == widths[i + 1]) for j, step in enumerate(stage))
        for i, stage in enumerate(steps)
    )
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "d_stem": whole(hf, "stem_out_channels"),
        "stem_kernel": whole(hf, "stem_kernel_size"),
        "widths": PerLayer(widths),
        "windows": tuple(tuple(_window(value) for value in stage) for stage in kernels),
        "passing": passing,
        "n_channels": whole(hf, "stem_num_channels"),
    }
    return Reading("textnet", given)


HF_READERS = {"textnet": _textnet}
