"""Swin2SR: windows of pixels that attend to one another, for images with more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import positive, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.clip import patch_side, side
from sizer.architectures.vision.lists import activation, listed_sizes
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Leaf, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE, TWO, THREE = Axis("one", 1), Axis("axes", 2), Axis("kernel", 3)
# Hidden width of the network that scores the distance of two pixels.
DISTANCES = Axis("distances", 512)
# Channels while an image grows, and colours of what helps it to.
FEATURES, COLOURS = Axis("features", 64), Axis("image", 3)


@configuration
class Swin2SRConfig(Config):
    """Sizes and switches of a Swin2SR, those in lists an entry a stage.

    `side`: of a window. `n_rows`: rows of the table of positions, where there is one. `residual`: what
    ends a stage, "1conv" or "3conv", of which `d_quarter` are the channels inside. `coloured`: the mean of
    three colours is taken off. `upsampler`: how the image grows, `factor` times, by `n_doublings`
    or by a tripling.
    """

    d_model: Dim
    depths: PerLayer
    heads: PerLayer
    head_widths: PerLayer
    d_ff: Dim
    side: Dim
    patch_size: Dim
    n_rows: Dim | None = None
    d_quarter: Dim | None = None
    n_channels: Dim = 3
    n_channels_out: Dim = 3
    n_doublings: Dim | None = None
    factor: Dim = 2
    qkv_bias: bool = True
    residual: str = "1conv"
    coloured: bool = True
    tripled: bool = False
    upsampler: str = "pixelshuffle"
    act: str = "gelu"
    task: str = "base"

    letters = {
        "depths": "L",
        "heads": "H",
        "head_widths": "Dh",
        "side": "Sw",
        "patch_size": "p",
        "n_rows": "Nps",
        "d_quarter": "Dq",
        "n_channels": "Nc",
        "n_channels_out": "Nco",
        "n_doublings": "Nd",
        "factor": "Nf",
    }
    meanings = {
        "side": "side of a window",
        "patch_size": "side of a patch",
        "n_rows": "rows of the table of positions",
        "d_quarter": "channels inside what ends a stage",
        "n_channels": "colour channels",
        "n_channels_out": "colour channels of the answer",
        "n_doublings": "times that the image doubles",
        "factor": "how many times as large the image becomes",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def swin2sr(c: Swin2SRConfig) -> Module:
    """Swin2SR (arXiv:2209.11345). Source: transformers `modeling_swin2sr.py`."""
    embed, image = Axis("embed", c.d_model), Axis("image", c.n_channels)
    colours = Axis("image", 3) if c.coloured else ONE
    mean = (buffer("mean", ONE, colours, ONE, ONE, persistent=False),)
    rows = () if c.n_rows is None else (Axis("patches", c.n_rows),)
    embeddings: Children = (
        _patches(c, "patch_embeddings.projection"),
        layer_norm("patch_embeddings.layernorm", embed),
        *(Param("position_embeddings", (ONE, row, embed), component="position") for row in rows),
    )
    model = (
        *(mean if c.layout == "transformers" else ()),
        _square("first_convolution", embed, image),
        Module("embeddings", embeddings),
        *(Module(f"encoder.stages.{i}", _stage(c, i)) for i in range(len(c.depths))),
        layer_norm("layernorm", embed),
        _square("conv_after_body", embed, embed),
    )
    if c.task == "base":
        return Module("", model)
    return Module("", (Module("swin2sr", model), *_growing(c)))


def _square(name: str, out: Axis, inp: Axis) -> Module:
    return convolution(name, out, inp, THREE, THREE, component="mixer")


def _patches(c: Swin2SRConfig, name: str) -> Module:
    embed, patch = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    return convolution(name, embed, embed, patch, patch)


def _stage(c: Swin2SRConfig, i: int) -> Children:
    embed = Axis("embed", c.d_model)
    end: Children = (_square("conv", embed, embed),)
    if c.residual == "3conv":
        quarter = Axis("quarter", c.d_quarter)
        narrow = convolution("conv.2", quarter, quarter, ONE, ONE, component="mixer")
        end = (_square("conv.0", quarter, embed), narrow, _square("conv.4", embed, quarter))
    return (
        Module("layers", _layer(c, i, embed), repeat=c.depths.sizes()[i]),
        *end,
        _patches(c, "patch_embed.projection"),
    )


def _layer(c: Swin2SRConfig, i: int, embed: Axis) -> Children:
    ffn = Axis("ffn", c.d_ff)
    return (
        Module("attention", _attention(c, i, embed), component="attention"),
        layer_norm("layernorm_before", embed),
        linear("intermediate.dense", ffn, embed, bias=True, component="mlp"),
        Op("act", c.act, {"width": ffn.size}, component="mlp"),
        linear("output.dense", embed, ffn, bias=True, component="mlp"),
        layer_norm("layernorm_after", embed),
    )


def _attention(c: Swin2SRConfig, i: int, embed: Axis) -> Children:
    """Swin V2's, whose scores are cosines and a network's answer to each distance in a window."""
    n_heads, d_head = c.heads.sizes()[i], c.head_widths.sizes()[i]
    heads, each = heads_axis("heads", n_heads, d_head), Axis("heads", n_heads)
    reach, pixels = Axis("distances", 2 * c.side - 1), Axis("pixels", c.side * c.side)
    tables = (
        buffer("relative_coords_table", ONE, reach, reach, TWO, persistent=False),
        buffer("relative_position_index", pixels, pixels, persistent=False),
    )
    scores: tuple[Leaf, ...] = (
        Param("0.weight", (DISTANCES, TWO)),
        Param("0.bias", (DISTANCES,)),
        Param("2.weight", (each, DISTANCES)),
    )
    biases = {"query": c.qkv_bias, "key": False, "value": c.qkv_bias}
    inside = (
        Param("logit_scale", (each, ONE, ONE)),
        *(tables if c.layout == "transformers" else ()),
        Module("continuous_position_bias_mlp", scores, component="position"),
        *(linear(name, heads, embed, bias=bias) for name, bias in biases.items()),
        *attention_core(n_heads, n_heads, d_head, window=c.side * c.side, cached=False),
    )
    return (Module("self", inside), linear("output.dense", embed, heads, bias=True))


def _growing(c: Swin2SRConfig) -> Children:
    """What makes an image of the features, larger where it shall grow."""
    embed, image, out = (
        Axis("embed", c.d_model),
        Axis("image", c.n_channels),
        Axis("image", c.n_channels_out),
    )
    before, final = ("conv_before_upsample", FEATURES, embed), ("final_convolution", out, FEATURES)
    steps: Children = ()
    if c.n_doublings is not None:
        steps = (_square("convolution_{}", 4 * FEATURES, FEATURES)._replace(repeat=c.n_doublings),)
    elif c.tripled:
        steps = (_square("convolution", 9 * FEATURES, FEATURES),)
    larger = Module("upsample", steps)
    if c.upsampler == "pixelshuffle":
        return (Module("upsample", (_square(*before), larger, _square(*final))),)
    if c.upsampler == "pixelshuffle_aux":
        first = (_square("conv_bicubic", FEATURES, image), _square(*before))
        aux = (_square("conv_aux", image, FEATURES), _square("conv_after_aux.0", FEATURES, COLOURS))
        return (Module("upsample", (*first, *aux, larger, _square(*final))),)
    if c.upsampler == "pixelshuffledirect":
        return (_square("upsample.conv", Axis("pixels", c.factor * c.factor * c.n_channels_out), embed),)
    if c.upsampler == "nearest+conv":
        names = ("conv_up1", "conv_up2", "conv_hr")
        inside = (_square(name, FEATURES, FEATURES) for name in names)
        return (Module("upsample", (_square(*before), *inside, _square(*final))),)
    return (_square("final_convolution", out, embed),)


ARCHITECTURES = {"swin2sr": Architecture(Swin2SRConfig, swin2sr)}


def _swin2sr(hf: HFConfig) -> Reading:
    known = ("Swin2SRModel", "Swin2SRForImageSuperResolution")
    if hf.cls not in known:
        raise UnknownName("class", hf.cls, known, hint="of a swin2sr")
    depths, width = listed_sizes(hf, "depths"), whole(hf, "hidden_size")
    heads = listed_sizes(hf, "num_heads", len(depths))
    if uneven := next((count for count in heads if width % count), None):
        raise InvalidConfig(f"embed_dim = {width} is not a multiple of num_heads = {uneven}")
    residual = hf["resi_connection"]
    if residual not in ("1conv", "3conv") or (residual == "3conv" and width < 4):
        raise InvalidConfig(f"resi_connection = {clip(repr(residual))} is neither 1conv nor 3conv")
    (height, _), patch = side(hf, "image_size"), patch_side(hf)
    grid = tuple(length // patch for length in side(hf, "image_size"))
    if not all(grid):
        raise InvalidConfig(f"patch_size = {patch} leaves no patch of an image {height} high")
    channels = whole(hf, "num_channels")
    out = channels if hf["num_channels_out"] is None else whole(hf, "num_channels_out")
    base = hf.cls == "Swin2SRModel"
    given = {
        "task": "base" if base else "super_resolution",
        "d_model": width,
        "depths": PerLayer(depths),
        "heads": PerLayer(heads),
        "head_widths": PerLayer(tuple(width // count for count in heads)),
        "d_ff": int(width * positive("mlp_ratio", hf["mlp_ratio"])),
        "side": min(whole(hf, "window_size"), grid[0]),
        "patch_size": patch,
        "n_rows": grid[0] * grid[1] + 1 if hf["use_absolute_embeddings"] else None,
        "d_quarter": width // 4 or None,
        "n_channels": channels,
        "n_channels_out": out,
        "qkv_bias": bool(hf["qkv_bias"]),
        "residual": residual,
        "coloured": channels == out == 3,
        "act": activation(hf, "hidden_act"),
        **({} if base else _growth(hf)),
    }
    return Reading("swin2sr", given)


def _growth(hf: HFConfig) -> dict[str, object]:
    factor, upsampler = whole(hf, "upscale"), hf["upsampler"]
    doubles = factor & (factor - 1) == 0
    if upsampler in ("pixelshuffle", "pixelshuffle_aux") and not doubles and factor != 3:
        raise InvalidConfig(f"upscale = {factor} is neither 3 nor a power of two")
    if upsampler == "nearest+conv" and factor != 4:
        raise InvalidConfig(f"upscale = {factor}: nearest+conv makes an image 4 times as large")
    return {
        "factor": factor,
        "n_doublings": (factor.bit_length() - 1 or None) if doubles else None,
        "tripled": factor == 3,
        "upsampler": upsampler,
    }


HF_READERS = {"swin2sr": _swin2sr}
