"""ViTDet: a plain ViT that finds objects, most of whose blocks attend within windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import listed_layers, positive, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, TowerConfig, TowerNames, blocks, convolution
from sizer.architectures.vision.clip import ONE, side, vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

THREE = Axis("kernel", 3)
NAMES = TowerNames(
    block="encoder.layer",
    attention="attention",
    qkv=("qkv",),
    output="proj",
    norms=("norm1", "", "norm2", ""),
)


@configuration
class VitDetConfig(TowerConfig):
    """Sizes and switches of a ViTDet.

    `kinds`: "window" for a block that attends within squares of `window_side` patches, "full" for
    one that sees all `n_rows` by `n_columns`; "…_residual" has convolutions after its MLP, which are
    `d_bottleneck` wide. `relative`: each block has learned relative positions. `n_positions`: rows of
    the table of positions, where there is one.
    """

    patch_size: Dim
    n_channels: Dim
    kinds: Pattern
    n_rows: Dim | None = None
    n_columns: Dim | None = None
    window_side: Dim | None = None
    n_positions: Dim | None = None
    d_bottleneck: Dim | None = None
    relative: bool = False

    letters = {
        **TowerConfig.letters,
        "patch_size": "p",
        "n_channels": "Nc",
        "kinds": "L",
        "n_rows": "Nh",
        "n_columns": "Nw",
        "window_side": "Ws",
        "n_positions": "Np",
        "d_bottleneck": "Db",
    }
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
        "n_rows": "patches along the height",
        "n_columns": "patches along the width",
        "window_side": "patches along a side of a window",
        "n_positions": "rows of the table of positions",
        "d_bottleneck": "channels of the convolutions after an MLP",
    }


def vitdet(c: VitDetConfig) -> Module:
    """ViTDet (arXiv:2203.16527), with the names of `VitDetModel`.

    Source: transformers `modeling_vitdet.py`.
    """
    embed, patch = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    table: Children = ()
    if c.n_positions is not None:
        axes = (ONE, Axis("patches", c.n_positions), embed)
        table = (Param("position_embeddings", axes, component="position"),)
    projection = convolution("projection", embed, Axis("channels", c.n_channels), patch, patch)
    encoder = blocks(c, *_residual(c, embed), in_attention=_relative(c))
    return Module("", (Module("embeddings", (*table, projection)), encoder))


def relative_positions(rows: Dim, columns: Dim, head: Axis) -> Children:
    """A vector of a head's width for each distance, along either side."""
    sides = {"rel_pos_h": rows, "rel_pos_w": columns}
    return tuple(
        Param(name, (Axis("distances", 2 * side - 1), head), component="position")
        for name, side in sides.items()
    )


def _relative(c: VitDetConfig) -> Children:
    if not c.relative:
        return ()
    head = Axis("head", c.d_head)
    full = c.kinds.layers("full", "full_residual")
    everywhere = Module("", relative_positions(c.n_rows, c.n_columns, head), at=full)
    if c.window_side is None:
        return (everywhere,)
    near = c.kinds.layers("window", "window_residual")
    return (Module("", relative_positions(c.window_side, c.window_side, head), at=near), everywhere)


def _residual(c: VitDetConfig, embed: Axis) -> Children:
    """Three convolutions, narrow between."""
    if c.d_bottleneck is None:
        return ()
    narrow, parts = Axis("bottleneck", c.d_bottleneck), []
    steps = ((narrow, embed, ONE), (narrow, narrow, THREE), (embed, narrow, ONE))
    for i, (out, inp, kernel) in enumerate(steps, 1):
        parts.append(convolution(f"conv{i}", out, inp, kernel, kernel, bias=False, component="other"))
        parts.append(layer_norm(f"norm{i}", out))
    at = c.kinds.layers("window_residual", "full_residual")
    return (Module("", (Module("residual", tuple(parts)),), at=at),)


ARCHITECTURES = {"vitdet": Architecture(VitDetConfig, vitdet)}


def layers_of(hf: HFConfig, key: str) -> tuple[int, ...]:
    """The numbers of layers that a key lists."""
    found = hf[key]
    if not isinstance(found, list | tuple) or not all(isinstance(i, int) for i in found):
        raise InvalidConfig(f"{key} = {clip(repr(found))} is not a list of layers")
    return tuple(found)


def grid(hf: HFConfig, key: str = "image_size") -> tuple[int, int]:
    """Rows and columns of patches of an image."""
    (height, width), (rows, columns) = side(hf, key), side(hf, "patch_size")
    if rows < 1 or columns < 1:
        raise InvalidConfig(f"patch_size = [{rows}, {columns}] has a side below 1")
    return height // rows, width // columns


def _kind(i: int, windows: tuple[int, ...], residuals: tuple[int, ...]) -> str:
    return ("window" if i in windows else "full") + ("_residual" if i in residuals else "")


def _vitdet(hf: HFConfig) -> Reading:
    if not hf.cls.endswith(("Model", "Backbone")):
        raise UnknownName("class", hf.cls, ("VitDetModel", "VitDetBackbone"), hint="of a vitdet")
    width, window = whole(hf, "hidden_size"), hf["window_size"]
    relative = bool(hf["use_relative_position_embeddings"])
    windows = layers_of(hf, "window_block_indices") if window else ()
    residuals = layers_of(hf, "residual_block_indices")
    kinds = tuple(_kind(i, windows, residuals) for i in range(listed_layers(hf)))
    rows, columns = grid(hf)
    before = grid(hf, "pretrain_image_size")
    given = vision_sizes(
        hf,
        d_ff=int(width * positive("mlp_ratio", hf["mlp_ratio"])),
        n_rows=rows if relative else None,
        n_columns=columns if relative else None,
        window_side=window or None,
        n_positions=before[0] * before[1] + 1 if hf["use_absolute_position_embeddings"] else None,
        d_bottleneck=width // 2 if any(kind.endswith("_residual") for kind in kinds) else None,
        kinds=Pattern(kinds),
        relative=relative,
        bias="qkvo" if hf["qkv_bias"] else "o",
        module_names=NAMES,
    )
    return Reading("vitdet", given)


HF_READERS = {"vitdet": _vitdet}
