"""Florence-2: DaViT, whose blocks attend over patches and then over channels, and a BART."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, PartNames, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, mlp
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
THREE = Axis("kernel", 3)
PLACES = PartNames(embedding="shared")


@configuration
class DavitConfig(Config):
    """Sizes of each stage. `norm_first`: the stages that norm before they halve the image."""

    widths: PerLayer
    depths: PerLayer
    heads: PerLayer
    head_widths: PerLayer
    ffns: PerLayer
    kernels: PerLayer
    window: Dim
    n_channels: Dim = 3
    norm_first: tuple[bool, ...] = ()
    qkv_bias: bool = True
    act: str = "gelu"
    task: str = "base"

    letters = {
        "widths": "C",
        "depths": "L",
        "heads": "H",
        "head_widths": "Dh",
        "ffns": "F",
        "kernels": "K",
        "n_channels": "Nc",
    }
    meanings = {"n_channels": "colour channels", "window": "patches along a side of a window"}

    def __post_init__(self) -> None:
        check_sizes(self)


@configuration
class FlorenceConfig(MultimodalConfig):
    """The parts, and the positions that the image is given. `d_rows`, `d_columns`: of either side."""

    n_positions: Dim
    n_moments: Dim
    d_rows: Dim
    d_columns: Dim
    d_projection: Dim

    letters = {
        **MultimodalConfig.letters,
        "n_positions": "Np",
        "n_moments": "Nm",
        "d_rows": "Dr",
        "d_columns": "Dc",
        "d_projection": "Dp",
    }
    meanings = {
        **MultimodalConfig.meanings,
        "n_positions": "rows and columns with a position",
        "n_moments": "moments with a position",
        "d_rows": "width of the position of a row",
        "d_columns": "width of the position of a column",
        "d_projection": "width that the text is given",
    }


def davit(c: DavitConfig) -> Module:
    """DaViT (arXiv:2204.03645), with the names of `Florence2VisionBackbone`.

    Its attention over channels has no scores between patches, and its products are not counted.
    Source: transformers `modeling_florence2.py`.
    """
    widths = [Axis("embed", width) for width in c.widths.sizes()]
    inputs = [Axis("image", c.n_channels), *widths[:-1]]
    parts: list[Module] = []
    for i, depth in enumerate(c.depths.sizes()):
        side = Axis("kernel", c.kernels.sizes()[i])
        first = (
            convolution("conv", widths[i], inputs[i], side, side),
            layer_norm("norm", inputs[i] if c.norm_first[i] else widths[i]),
        )
        parts.append(Module(f"convs.{i}", first))
        parts.append(Module(f"blocks.{i}", _block(c, i, widths[i]), repeat=depth))
    return Module("", tuple(parts))


def _block(c: DavitConfig, i: int, embed: Axis) -> Children:
    n_heads, d_head = c.heads.sizes()[i], c.head_widths.sizes()[i]
    heads, ffn = heads_axis("heads", n_heads, d_head), Axis("ffn", c.ffns.sizes()[i])

    def half(name: str, attention: str, *core: object) -> Module:
        mixes = (
            linear("qkv", 3 * heads, embed, bias=c.qkv_bias),
            *core,
            linear("proj", embed, heads, bias=True),
        )
        return Module(
            name,
            (
                convolution("conv1", embed, ONE, THREE, THREE, component="mixer"),
                layer_norm("norm1", embed),
                Module(attention, mixes, component="attention"),  # type: ignore[arg-type]
                convolution("conv2", embed, ONE, THREE, THREE, component="mixer"),
                layer_norm("norm2", embed),
                mlp("ffn", ffn, embed, act=c.act, names=("fc1", "fc2")),
            ),
        )

    core = attention_core(n_heads, n_heads, d_head, window=c.window * c.window, cached=False)
    return (half("spatial_block", "window_attn", *core), half("channel_block", "channel_attn"))


def florence(c: FlorenceConfig) -> Module:
    """Florence-2 (arXiv:2311.06242), with the names of `Florence2ForConditionalGeneration`."""
    vision, out = Axis("vision", c.d_vision), Axis("projection", c.d_projection)
    sides = Axis("positions", c.n_positions)
    parts = (
        linear("image_projection", out, vision),
        layer_norm("image_proj_norm", out),
        embedding("image_position_embed.row_embeddings", sides, Axis("row", c.d_rows), component="position"),
        embedding(
            "image_position_embed.column_embeddings", sides, Axis("column", c.d_columns), component="position"
        ),
        Module("visual_temporal_embed", (buffer("pos_idx_to_embed", Axis("moments", c.n_moments), vision),)),
    )
    return multimodal(c, Module(c.places.bridge, parts, component="other", stream="encoder"))


ARCHITECTURES = {
    "davit": Architecture(DavitConfig, davit),
    "florence": Architecture(FlorenceConfig, florence),
}


def _vision(hf: HFConfig) -> Reading:
    widths, heads = tuple(hf["embed_dim"]), tuple(hf["num_heads"])
    for key in ("num_heads", "num_groups", "depths", "patch_size", "patch_prenorm"):
        if len(hf[key]) != len(widths):
            raise InvalidConfig(f"{key} lists {len(hf[key])} stages and embed_dim {len(widths)}")
    given = {
        "widths": PerLayer(widths),
        "depths": PerLayer(tuple(hf["depths"])),
        "heads": PerLayer(heads),
        "head_widths": PerLayer(tuple(w // h for w, h in zip(widths, heads, strict=True))),
        "ffns": PerLayer(tuple(int(width * hf["mlp_ratio"]) for width in widths)),
        "kernels": PerLayer(tuple(hf["patch_size"])),
        "window": hf["window_size"],
        "n_channels": hf["in_channels"],
        "norm_first": tuple(bool(one) for one in hf["patch_prenorm"]),
        "qkv_bias": bool(hf["qkv_bias"]),
        "act": hf["activation_function"],
    }
    return Reading("davit", given)


def _florence(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    width = list(vision["embed_dim"])[-1]
    return reading(
        hf,
        "florence",
        vision=vision,
        d_vision=width,
        n_positions=whole(vision, "max_position_embeddings"),
        n_moments=whole(vision, "max_temporal_embeddings"),
        d_rows=width // 2,
        d_columns=width - width // 2,
        d_projection=vision["projection_dim"],
        places=PLACES,
    )


HF_READERS = {"florence2": _florence, "florence_vision": _vision}
