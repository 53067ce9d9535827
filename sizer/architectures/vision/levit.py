"""LeViT: attention over a shrinking grid, with a norm of the batch in each matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.architectures.vision.scaled import listed
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import Config, check_size, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Layers, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

N_STAGES = 3
# Where the grid shrinks: how much wider values are than keys, and the MLP than its input.
DOWN_VALUES, DOWN_MLP = 4, 2


@configuration
class LevitConfig(Config):
    """Sizes of a LeViT.

    `stem`: channels of the convolutions before the first stage. Of each stage: `key_widths` of a head,
    `value_widths`, and `sides` of its grid. `down_heads`: heads where the grid shrinks after a stage, which
    have keys of `down_key` and values of `down_value`; `down_ffns`: width of the MLP after that.
    """

    stem: PerLayer
    widths: PerLayer
    depths: PerLayer
    heads: PerLayer
    key_widths: PerLayer
    value_widths: PerLayer
    ffns: PerLayer
    sides: PerLayer
    down_heads: PerLayer
    down_ffns: PerLayer
    down_key: Dim
    down_value: Dim
    kernel: Dim
    n_channels: Dim = 3
    classifiers: tuple[str, ...] = ("classifier",)
    task: str = "base"

    letters = {
        "stem": "Cs",
        "widths": "C",
        "depths": "L",
        "heads": "H",
        "key_widths": "Dh",
        "value_widths": "Dv",
        "ffns": "F",
        "sides": "S",
        "down_heads": "Hd",
        "down_ffns": "Fd",
        "down_key": "Dk",
        "down_value": "Dd",
        "kernel": "K",
        "n_channels": "Nc",
    }
    meanings = {
        "down_key": "width of a key where the grid shrinks",
        "down_value": "width of a value there",
        "kernel": "side of the windows of the first convolutions",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def levit(c: LevitConfig) -> Module:
    """LeViT (arXiv:2104.01136), with the names of `LevitModel`. Source: transformers `modeling_levit.py`."""
    kernel, inp, first = Axis("kernel", c.kernel), Axis("image", c.n_channels), []
    for i, size in enumerate(c.stem.sizes(), 1):
        out = Axis("channels", size)
        conv = convolution("convolution", out, inp, kernel, kernel, bias=False)
        first.append(Module(f"embedding_layer_{i}", (conv, batch_norm("batch_norm", out))))
        inp = out
    stages = (
        Module(f"encoder.stages.{i}", (_stage(c, i, depth),)) for i, depth in enumerate(c.depths.sizes())
    )
    model = (Module("patch_embeddings", tuple(first)), *stages)
    if c.task == "base":
        return Module("", model)
    width, labels = Axis("embed", c.widths.sizes()[-1]), Axis("labels", c.n_labels)
    head = (batch_norm("batch_norm", width), linear("linear", labels, width, bias=True))
    heads = (Module(name, head, component="head") for name in c.classifiers)
    return Module("", (Module("levit", model), *heads))


def _stage(c: LevitConfig, i: int, depth: Dim) -> Module:
    """Attention and an MLP in turn; after them, in all stages but the last, the grid shrinks."""
    embed, numbered = Axis("embed", c.widths.sizes()[i]), isinstance(depth, int)
    double = 2 * depth
    parts = [
        Module(
            "module", _attention(c, i, embed), at=Layers(depth, range(0, double, 2) if numbered else None)
        ),
        Module(
            "module",
            _mlp(embed, Axis("ffn", c.ffns.sizes()[i])),
            at=Layers(depth, range(1, double, 2) if numbered else None),
        ),
    ]
    if i == len(c.widths) - 1:
        return Module("layers", tuple(parts), repeat=double)
    out, ffn = Axis("embed", c.widths.sizes()[i + 1]), Axis("ffn", c.down_ffns.sizes()[i])
    parts.append(Module("", _shrinking(c, i, embed, out), at=Layers(1, (double,) if numbered else None)))
    parts.append(Module("module", _mlp(out, ffn), at=Layers(1, (double + 1,) if numbered else None)))
    return Module("layers", tuple(parts), repeat=double + 2)


def _normed(name: str, out: Axis, inp: Axis) -> Module:
    return Module(name, (linear("linear", out, inp), batch_norm("batch_norm", out)))


def _mlp(embed: Axis, ffn: Axis) -> Children:
    act = Op("act", "hardswish", {"width": ffn.size}, component="mlp")
    parts = (_normed("linear_up", ffn, embed), act, _normed("linear_down", embed, ffn))
    return (Module("", parts, component="mlp"),)


def _biases(c: LevitConfig, heads: Dim, side: Dim, seen: Dim) -> Children:
    """A score for each distance along both axes of the grid, and which pair of patches has which."""
    patches, rows = Axis("patches", side * side), Axis("rows", seen * seen)
    table = Param("attention_biases", (Axis("heads", heads), patches), component="position")
    index = (buffer("attention_bias_idxs", rows, patches, persistent=False),)
    return (table, *(index if c.layout == "transformers" else ()))


def _attention(c: LevitConfig, i: int, embed: Axis) -> Children:
    n_heads, d_key, d_value = c.heads.sizes()[i], c.key_widths.sizes()[i], c.value_widths.sizes()[i]
    side = c.sides.sizes()[i]
    keys, values = heads_axis("heads", n_heads, d_key), heads_axis("heads", n_heads, d_value)
    parts = (
        *_biases(c, n_heads, side, side),
        _normed("queries_keys_values", 2 * keys + values, embed),
        *attention_core(n_heads, n_heads, d_key, d_value=d_value, cached=False),
        _normed("projection", embed, values),
    )
    return (Module("", parts, component="attention"),)


def _shrinking(c: LevitConfig, i: int, embed: Axis, out: Axis) -> Children:
    n_heads, (side, seen) = c.down_heads.sizes()[i], c.sides.sizes()[i : i + 2]
    keys, values = heads_axis("heads", n_heads, c.down_key), heads_axis("heads", n_heads, c.down_value)
    parts = (
        *_biases(c, n_heads, side, seen),
        _normed("keys_values", keys + values, embed),
        _normed("queries", keys, embed),
        *attention_core(n_heads, n_heads, c.down_key, d_value=c.down_value, cached=False),
        _normed("projection", out, values),
    )
    return (Module("", parts, component="attention"),)


ARCHITECTURES = {"levit": Architecture(LevitConfig, levit)}


def _products(key: str, sizes: tuple[int, ...], times: tuple[int, ...]) -> PerLayer:
    found = tuple(size * factor for size, factor in zip(sizes, times, strict=True))
    for size in found:
        check_size(f"{key} times a width", size)
    return PerLayer(found)


def _levit(hf: HFConfig) -> Reading:
    """The grid halves between stages, whose number is fixed."""
    widths, keys = listed(hf, "hidden_sizes", N_STAGES), listed(hf, "key_dim", N_STAGES)
    sides = [whole(hf, "image_size") // whole(hf, "patch_size")]
    sides += [(sides[0] - 1) // 2 + 1, (sides[0] - 1) // 4 + 1]
    stem = tuple(widths[0] // part for part in (8, 4, 2, 1))
    down_heads = tuple(width // keys[0] for width in widths[:-1])
    for size in (*sides, *stem, *down_heads):
        check_size("a size that follows from hidden_sizes, key_dim or image_size", size)
    teacher = hf.cls.endswith("WithTeacher")
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "stem": PerLayer(stem),
        "widths": PerLayer(widths),
        "depths": PerLayer(listed(hf, "depths", N_STAGES)),
        "heads": PerLayer(listed(hf, "num_attention_heads", N_STAGES)),
        "key_widths": PerLayer(keys),
        "value_widths": _products("attention_ratio", keys, listed(hf, "attention_ratio", N_STAGES)),
        "ffns": _products("mlp_ratio", widths, listed(hf, "mlp_ratio", N_STAGES)),
        "sides": PerLayer(tuple(sides)),
        "down_heads": PerLayer(down_heads),
        "down_ffns": _products("two", widths[1:], (DOWN_MLP, DOWN_MLP)),
        "down_key": keys[0],
        "down_value": DOWN_VALUES * keys[0],
        "kernel": whole(hf, "kernel_size"),
        "n_channels": hf["num_channels"],
        "classifiers": ("classifier", "classifier_distill") if teacher else ("classifier",),
    }
    return Reading("levit", given)


HF_READERS = {"levit": _levit}
