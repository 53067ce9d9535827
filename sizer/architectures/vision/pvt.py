"""PVT and its second version: stages of attention whose keys and values are those of squares of patches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.clip import side
from sizer.architectures.vision.lists import activation
from sizer.architectures.vision.scaled import listed
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import Config, check_size, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, layer_norm, linear, mlp
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


@configuration
class PvtConfig(Config):
    """Sizes and switches of each stage of a PVT.

    `kernels`: sides of the windows that become its patches; `ratios`: the side of the squares of its
    keys, none where each patch has keys of its own. `positions`: rows of learned positions.
    `second`: V2, whose MLPs look at neighbours.
    """

    widths: PerLayer
    depths: PerLayer
    heads: PerLayer
    head_widths: PerLayer
    ffns: PerLayer
    kernels: PerLayer
    ratios: PerLayer
    positions: PerLayer | None = None
    n_channels: Dim = 3
    qkv_bias: bool = True
    second: bool = False
    act: str = "gelu"
    task: str = "base"

    letters = {
        "widths": "C",
        "depths": "L",
        "heads": "H",
        "head_widths": "Dh",
        "ffns": "F",
        "kernels": "K",
        "ratios": "R",
        "positions": "P",
        "n_channels": "Nc",
    }
    meanings = {"n_channels": "colour channels"}

    def __post_init__(self) -> None:
        check_sizes(self)


def pvt(c: PvtConfig) -> Module:
    """PVT (arXiv:2102.12122) and V2 (arXiv:2106.13797), with the names of `PvtModel` and `PvtV2Model`.

    Source: transformers `modeling_pvt.py`, `modeling_pvt_v2.py`.
    """
    widths = [Axis("embed", width) for width in c.widths.sizes()]
    inputs = [Axis("image", c.n_channels), *widths[:-1]]
    parts: list[Module] = []
    for i, depth in enumerate(c.depths.sizes()):
        patches, block = _patches(c, i, inputs[i], widths[i]), _block(c, i, widths[i])
        if c.second:
            norm = layer_norm("layer_norm", widths[i])
            inside = (Module("patch_embedding", patches), Module("blocks", block, repeat=depth), norm)
            parts.append(Module(f"encoder.layers.{i}", inside))
        else:
            parts.append(Module(f"encoder.patch_embeddings.{i}", patches))
            parts.append(Module(f"encoder.block.{i}", block, repeat=depth))
    if not c.second:
        parts.append(layer_norm("encoder.layer_norm", widths[-1]))
    if c.task == "base":
        return Module("", tuple(parts))
    head = linear("classifier", Axis("labels", c.n_labels), widths[-1], bias=True, component="head")
    return Module("", (Module("pvt_v2" if c.second else "pvt", tuple(parts)), head))


def _patches(c: PvtConfig, i: int, inp: Axis, embed: Axis) -> Children:
    """The patches of a stage; the last one of the first version has a token for the whole image."""
    kernel, norm = Axis("kernel", c.kernels.sizes()[i]), layer_norm("layer_norm", embed)
    if c.positions is None:
        return (convolution("proj", embed, inp, kernel, kernel), norm)
    rows = Axis("positions", c.positions.sizes()[i])
    last = i == len(c.widths) - 1
    return (
        Param("position_embeddings", (ONE, rows, embed), component="position"),
        *((Param("cls_token", (ONE, ONE, embed), component="embedding"),) if last else ()),
        convolution("projection", embed, inp, kernel, kernel),
        norm,
    )


def _block(c: PvtConfig, i: int, embed: Axis) -> Children:
    ffn, kernel = Axis("ffn", c.ffns.sizes()[i]), Axis("kernel", 3)
    wide = mlp("mlp", ffn, embed, act=c.act, names=("dense1", "dense2"))
    if c.second:
        near = (
            linear("dense1", ffn, embed, bias=True),
            convolution("dwconv.dwconv", ffn, ONE, kernel, kernel, component="mlp"),
            Op("act", c.act, {"width": ffn.size}),
            linear("dense2", embed, ffn, bias=True),
        )
        wide = Module("mlp", near, component="mlp")
    return (
        layer_norm("layer_norm_1", embed),
        Module("attention", _attention(c, i, embed), component="attention"),
        layer_norm("layer_norm_2", embed),
        wide,
    )


def _attention(c: PvtConfig, i: int, embed: Axis) -> Children:
    n_heads, d_head = c.heads.sizes()[i], c.head_widths.sizes()[i]
    heads = heads_axis("heads", n_heads, d_head)
    inside = "" if c.second else "self."
    reduce: Children = ()
    if c.ratios.values[i] is not None:
        name = "spatial_reduction" if c.second else "self.sequence_reduction"
        square = Axis("square", c.ratios.sizes()[i])
        reduce = (
            convolution(name, embed, embed, square, square, component="attention"),
            layer_norm(f"{inside}layer_norm", embed),
        )
    return (
        *reduce,
        *(linear(f"{inside}{name}", heads, embed, bias=c.qkv_bias) for name in ("query", "key", "value")),
        *attention_core(n_heads, n_heads, d_head, cached=False),
        linear("proj" if c.second else "output.dense", embed, heads, bias=True),
    )


ARCHITECTURES = {"pvt": Architecture(PvtConfig, pvt)}


def _stages(hf: HFConfig, n_stages: int, squares: str, **own: Any) -> Reading:
    widths = listed(hf, "hidden_sizes", n_stages)
    heads = listed(hf, "num_attention_heads", n_stages)
    if any(width % n_heads for width, n_heads in zip(widths, heads, strict=True)):
        raise InvalidConfig(f"hidden_sizes = {list(widths)} are no multiples of the heads {list(heads)}")
    ffns = tuple(w * r for w, r in zip(widths, listed(hf, "mlp_ratios", n_stages), strict=True))
    for ffn in ffns:
        check_size("mlp_ratios times a width", ffn)
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "widths": PerLayer(widths),
        "depths": PerLayer(listed(hf, "depths", n_stages)),
        "heads": PerLayer(heads),
        "head_widths": PerLayer(tuple(w // h for w, h in zip(widths, heads, strict=True))),
        "ffns": PerLayer(ffns),
        "ratios": PerLayer(tuple(n if n > 1 else None for n in listed(hf, squares, n_stages))),
        "n_channels": hf["num_channels"],
        "qkv_bias": bool(hf["qkv_bias"]),
        "act": activation(hf, "hidden_act"),
        **own,
    }
    return Reading("pvt", given)


def _pvt(hf: HFConfig) -> Reading:
    """Each stage has as many positions as patches, of an image whose sides its number halves."""
    n_stages, rows = whole(hf, "num_encoder_blocks"), []
    for i, patch in enumerate(listed(hf, "patch_sizes", n_stages)):
        height, width = side(hf, "image_size") if i == 0 else (whole(hf, "image_size") >> (i + 1),) * 2
        rows.append((height // patch) * (width // patch) + (i == n_stages - 1))
        check_size("patches of a stage", rows[-1])
    # The size of a convolution's window is what the file calls its stride, and the other way around.
    kernels = PerLayer(listed(hf, "strides", n_stages))
    # transformers 5 goes by the number of labels, whatever their names are; files before it have names alone.
    named = hf.given("id2label") and not hf.saved_by_transformers_5
    labels = hf.n_labels if named else whole(hf, "num_labels")
    given = {"kernels": kernels, "positions": PerLayer(tuple(rows)), "n_labels": labels}
    return _stages(hf, n_stages, "sequence_reduction_ratios", **given)


def _pvt_v2(hf: HFConfig) -> Reading:
    """Linear attention sees a picture of seven by seven, whose squares are single patches."""
    n_stages = whole(hf, "num_encoder_blocks")
    listed(hf, "strides", n_stages)
    own: dict[str, Any] = {"kernels": PerLayer(listed(hf, "patch_sizes", n_stages)), "second": True}
    if hf["linear_attention"]:
        own["ratios"] = PerLayer((1,) * n_stages)
    return _stages(hf, n_stages, "sr_ratios", **own)


HF_READERS = {"pvt": _pvt, "pvt_v2": _pvt_v2}
