"""Swin: stages of blocks that attend within windows of patches, each half as fine as the one before."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.clip import ONE, patch_side, patches, side
from sizer.architectures.vision.grid import Grid, ImageConfig, image_sides
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import ONCE, Axis, Module, Op, Param, Places, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# Hidden width of the MLP that gives SwinV2 its relative positions.
CONTINUOUS = 512


@configuration
class SwinConfig(ImageConfig):
    """Sizes and switches of a Swin.

    `widths`, `depths`, `heads`, `head_widths`, `ffns`, `windows`: of each stage.
    `second`: SwinV2, whose relative positions are computed, and which norms after each part.
    `early`: the names of transformers 4 in memory too. `index_saved`: files have the indices.
    """

    widths: PerLayer
    depths: PerLayer
    heads: PerLayer
    head_widths: PerLayer
    ffns: PerLayer
    windows: PerLayer
    patch_size: Dim
    n_channels: Dim = 3
    n_positions: Dim | None = None
    qkv_bias: bool = True
    act: str = "gelu"
    second: bool = False
    early: bool = False
    index_saved: bool = False
    final_norm: bool = True
    prefix: str = "swin"
    task: str = "base"

    letters = {
        **ImageConfig.letters,
        "widths": "C",
        "depths": "L",
        "heads": "H",
        "head_widths": "Dh",
        "ffns": "F",
        "windows": "W",
        "patch_size": "p",
        "n_channels": "Nc",
        "n_positions": "Np",
    }
    meanings = {
        **ImageConfig.meanings,
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
        "n_positions": "rows of the table of positions",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.windowed

    @cached_property
    def grids(self) -> list[Grid]:
        """Of each stage: an image is enlarged until patches fill it, and a grid until it can be halved."""
        found = [self.image.covered(self.patch_size).patched(self.patch_size)]
        while len(found) < len(self.depths):
            found.append(found[-1].covered(2).patched(2))
        return found

    @cached_property
    def windowed(self) -> list[Grid]:
        """Of each stage, enlarged until windows fill it."""
        return [
            grid.covered(_smaller(window, grid))
            for grid, window in zip(self.grids, self.windows.sizes(), strict=True)
        ]


def _smaller(window: Dim, grid: Grid) -> Dim:
    """A window is no larger than the grid."""
    if isinstance(window, int) and isinstance(grid.rows, int) and isinstance(grid.columns, int):
        return min(window, grid.rows, grid.columns)
    return window


class Stage:
    """The sizes of one stage."""

    def __init__(self, c: SwinConfig, i: int) -> None:
        self.embed = Axis("embed", c.widths.sizes()[i])
        self.ffn = Axis("ffn", c.ffns.sizes()[i])
        self.n_heads, self.d_head = c.heads.sizes()[i], c.head_widths.sizes()[i]
        self.window, self.depth = c.windows.sizes()[i], c.depths.sizes()[i]
        self.attended, self.windowed = _smaller(self.window, c.grids[i]), c.windowed[i].places
        self.early = c.early or c.layout == "checkpoint"


def swin(c: SwinConfig) -> Module:
    """Swin (arXiv:2103.14030) and SwinV2 (arXiv:2111.09883), with the names of `SwinModel`.

    Source: transformers `modeling_swin.py`, `modeling_swinv2.py`, `modeling_donut_swin.py`.
    """
    widths = [Axis("embed", width) for width in c.widths.sizes()]
    stages = []
    for i, width in enumerate(widths):
        stage = Stage(c, i)
        block = Module("blocks", _block(c, stage), repeat=stage.depth)
        last = i == len(widths) - 1
        parts = (block,) if last else (block, _merge(c, width, widths[i + 1], c.grids[i + 1].places))
        stages.append(Module(f"encoder.layers.{i}", parts, places=c.grids[i].places))
    model = (
        Module("embeddings", _embeddings(c, widths[0]), places=c.grids[0].places),
        *stages,
        *((layer_norm("layernorm", widths[-1]),) if c.final_norm else ()),
    )
    if c.task == "base":
        return Module("", model)
    labels = Axis("labels", c.n_labels)
    classifier = linear("classifier", labels, widths[-1], bias=True, component="head", places=ONCE)
    return Module("", (Module(c.prefix, model), classifier))


def _embeddings(c: SwinConfig, embed: Axis) -> Children:
    side_ = Axis("patch", c.patch_size)
    table: Children = ()
    if c.n_positions is not None:
        rows = Axis("patches", c.n_positions)
        table = (Param("position_embeddings", (ONE, rows, embed), component="position"),)
    return (
        *table,
        convolution("patch_embeddings.projection", embed, Axis("channels", c.n_channels), side_, side_),
        layer_norm("norm", embed),
    )


def _merge(c: SwinConfig, narrow: Axis, wide: Axis, places: Places) -> Module:
    """Four patches become one, twice as wide."""
    four = 4 * narrow
    normed = wide if c.second else four
    parts = (linear("reduction", wide, four), layer_norm("norm", normed))
    return Module("downsample", parts, component="other", places=places)


def _block(c: SwinConfig, s: Stage) -> Children:
    up, down = ("intermediate.dense", "output.dense") if s.early else ("mlp.fc1", "mlp.fc2")
    return (
        layer_norm("layernorm_before", s.embed),
        Module("attention", _attention(c, s), component="attention", places=s.windowed),
        layer_norm("layernorm_after", s.embed),
        linear(up, s.ffn, s.embed, bias=True, component="mlp"),
        Op("act", c.act, {"width": s.ffn.size}, component="mlp"),
        linear(down, s.embed, s.ffn, bias=True, component="mlp"),
    )


def _attention(c: SwinConfig, s: Stage) -> Children:
    heads = heads_axis("heads", s.n_heads, s.d_head)
    names = ("self.query", "self.key", "self.value") if s.early else ("q_proj", "k_proj", "v_proj")
    # The keys of SwinV2 have no bias: its scores are cosines.
    biases = (c.qkv_bias, c.qkv_bias and not c.second, c.qkv_bias)
    return (
        *_relative(c, s),
        *(linear(name, heads, s.embed, bias=bias) for name, bias in zip(names, biases, strict=True)),
        *attention_core(s.n_heads, s.n_heads, s.d_head, window=s.attended * s.attended, cached=False),
        linear("output.dense" if s.early else "o_proj", s.embed, heads, bias=True),
    )


def _relative(c: SwinConfig, s: Stage) -> Children:
    """A score for each distance between two patches of a window."""
    heads, across = Axis("heads", s.n_heads), Axis("distances", 2 * s.window - 1)
    area = Axis("window", s.window * s.window)
    in_memory = c.layout == "transformers"
    if c.second:
        hidden, two = Axis("hidden", CONTINUOUS), Axis("axes", 2)
        # The distances of a window, not its patches, go through them.
        window = Places(fixed=across.size * across.size, shared=True)
        tables = (
            buffer("self.relative_coords_table", ONE, across, across, two, persistent=False),
            buffer("self.relative_position_index", area, area, persistent=False),
        )
        return (
            Param("self.logit_scale", (heads, ONE, ONE)),
            Module(
                "self.continuous_position_bias_mlp",
                (linear("0", hidden, two, bias=True), linear("2", heads, hidden)),
                component="position",
                places=window,
            ),
            *(tables if in_memory else ()),
        )
    where = "self" if s.early else "relative_position_bias"
    distances = Axis("distances", (2 * s.window - 1) * (2 * s.window - 1))
    table = Param(f"{where}.relative_position_bias_table", (distances, heads), component="position")
    name = f"{where}.relative_position_index"
    if c.index_saved:
        return (table, buffer(name, area, area))
    pairs = Axis("pairs", area.size * area.size)
    return (table, *((buffer(name, pairs, persistent=False),) if in_memory else ()))


ARCHITECTURES = {"swin": Architecture(SwinConfig, swin)}


def _swin(hf: HFConfig, **own: Any) -> Reading:
    depths, heads, first = tuple(hf["depths"]), tuple(hf["num_heads"]), whole(hf, "embed_dim")
    if len(depths) != len(heads):
        raise InvalidConfig(f"depths lists {len(depths)} stages and num_heads {len(heads)}")
    if len(depths) > 16:
        raise InvalidConfig(f"depths lists {len(depths)} stages; no Swin has as many")
    widths = tuple(first * 2**i for i in range(len(depths)))
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "widths": PerLayer(widths),
        "depths": PerLayer(depths),
        "heads": PerLayer(heads),
        "head_widths": PerLayer(tuple(w // h for w, h in zip(widths, heads, strict=True))),
        "ffns": PerLayer(tuple(int(hf["mlp_ratio"] * w) for w in widths)),
        "windows": PerLayer((whole(hf, "window_size"),) * len(depths)),
        "patch_size": patch_side(hf),
        "n_channels": hf["num_channels"],
        "n_positions": patches(hf) if hf["use_absolute_embeddings"] else None,
        "qkv_bias": bool(hf["qkv_bias"]),
        "act": hf["hidden_act"],
        **image_sides(hf),
        **own,
    }
    return Reading("swin", given)


def _with_class(hf: HFConfig) -> dict[str, Any]:
    """Tables of positions have a row for a token that Swin does not have."""
    return {"n_positions": patches(hf) + 1} if hf["use_absolute_embeddings"] else {}


def _swinv2(hf: HFConfig) -> Reading:
    """Windows are no larger than what there is at a stage."""
    grid = min(side(hf, "image_size")) // patch_side(hf)
    windows = (min(grid // 2**i, whole(hf, "window_size")) for i in range(len(hf["depths"])))
    return _swin(
        hf, second=True, early=True, prefix="swinv2", windows=PerLayer(tuple(windows)), **_with_class(hf)
    )


def _donut_swin(hf: HFConfig) -> Reading:
    return _swin(hf, early=True, index_saved=True, final_norm=False, prefix="donut", **_with_class(hf))


def _maskformer_swin(hf: HFConfig) -> Reading:
    return _swin(hf, early=True, index_saved=True, **_with_class(hf))


HF_READERS = {
    "donut-swin": _donut_swin,
    "maskformer-swin": _maskformer_swin,
    "swin": _swin,
    "swinv2": _swinv2,
}
