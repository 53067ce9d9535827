"""Encoders of words and where they stand on a page: BROS, LayoutLMv3 and LiLT."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import whole
from sizer.architectures.encoders.bert import (
    BertConfig,
    attention,
    embeddings,
    feed_forward,
    fields_of,
    layer,
    pooler,
    stack,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, Places
from sizer.errors import InvalidConfig, UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
BOX = "xyhw"


@configuration
class DocumentConfig(BertConfig):
    """Sizes of what reads the places of words.

    BROS: `d_waves` numbers of a place become a `d_place` wide one, half of `n_frequencies` each.
    LiLT: a second stream of width `d_layout`, from `d_place` for each coordinate.
    LayoutLMv3: `d_place` and `d_shape` of each coordinate, `n_side` patches along an image, and
    `n_bins`, `n_page_bins` of relative places.
    """

    d_place: Dim
    d_waves: Dim | None = None
    n_frequencies: Dim | None = None
    d_layout: Dim | None = None
    d_layout_head: Dim | None = None
    d_layout_ff: Dim | None = None
    d_shape: Dim | None = None
    n_side: Dim | None = None
    patch_size: Dim | None = None
    n_channels: Dim = 3
    n_bins: Dim | None = None
    n_page_bins: Dim | None = None
    reads_text: bool = True

    letters = {
        **BertConfig.letters,
        "d_place": "Dc",
        "d_waves": "Dw",
        "n_frequencies": "Nw",
        "d_layout": "Dl",
        "d_layout_head": "Dlh",
        "d_layout_ff": "Fl",
        "d_shape": "Dsh",
        "n_side": "Ns",
        "patch_size": "p",
        "n_channels": "Nch",
        "n_bins": "Nb",
        "n_page_bins": "Nbp",
    }
    meanings = {
        **BertConfig.meanings,
        "d_place": "width of the vector of a place",
        "d_waves": "numbers that tell a place",
        "n_frequencies": "frequencies of a coordinate",
        "d_layout": "width of the stream of places",
        "d_layout_head": "width of one of its heads",
        "d_layout_ff": "hidden width of its MLP",
        "d_shape": "width of the vector of a height or width",
        "n_side": "patches along a side of the image",
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
        "n_bins": "bins of distances in the text",
        "n_page_bins": "bins of distances on the page",
    }


def bros(c: DocumentConfig) -> Module:
    """BROS (arXiv:2108.04539), with the names of `BrosModel`. Source: transformers `modeling_bros.py`."""
    frequencies = Axis("frequencies", c.n_frequencies)
    place = Module(
        "bbox_embeddings",
        (
            buffer("bbox_sinusoid_emb.x_pos_emb.inv_freq", frequencies),
            buffer("bbox_sinusoid_emb.y_pos_emb.inv_freq", frequencies),
            linear(
                "bbox_projection", Axis("place", c.d_place), Axis("waves", c.d_waves), component="position"
            ),
        ),
    )
    return Module("", (*embeddings(c), place, *stack(c, layer(c)), *pooler(c)))


def lilt(c: DocumentConfig) -> Module:
    """LiLT (arXiv:2202.13669): a stream for words and a narrow one for places, which share scores.

    Source: transformers `modeling_lilt.py`.
    """
    narrow, place = Axis("layout", c.d_layout), Axis("place", c.d_place)
    page = Axis("coordinates", c.n_coordinates)
    words = embeddings(replace(c, n_coordinates=None))
    layout = Module(
        "layout_embeddings",
        (
            *(embedding(f"{x}_position_embeddings", page, place, component="position") for x in BOX),
            embedding("box_position_embeddings", Axis("context", c.n_ctx), narrow, component="position"),
            linear(
                "box_linear_embeddings", narrow, Axis("box", 6 * c.d_place), bias=True, component="position"
            ),
            layer_norm("LayerNorm", narrow),
        ),
    )
    block = (_attention(c, narrow), *feed_forward(c), *_layout_mlp(c, narrow))
    return Module("", (*words, layout, *stack(c, block), *pooler(c)))


def _attention(c: DocumentConfig, narrow: Axis) -> Module:
    heads = Axis("layout_heads", c.n_heads * c.d_layout_head)
    extra = (
        *(linear(f"self.layout_{name}", heads, narrow, bias=True) for name in ("query", "key", "value")),
        *attention_core(c.n_heads, c.n_heads, c.d_layout_head, cached=False),
        linear("layout_output.dense", narrow, heads, bias=True),
        layer_norm("layout_output.LayerNorm", narrow),
    )
    return attention(c, *extra)


def _layout_mlp(c: DocumentConfig, narrow: Axis) -> tuple[Module | Op, ...]:
    ffn = Axis("layout_ffn", c.d_layout_ff)
    return (
        linear("layout_intermediate.dense", ffn, narrow, bias=True, component="mlp"),
        Op("layout_act", c.act, {"width": c.d_layout_ff}, component="mlp"),
        linear("layout_output.dense", narrow, ffn, bias=True, component="mlp"),
        layer_norm("layout_output.LayerNorm", narrow),
    )


def layoutlmv3(c: DocumentConfig) -> Module:
    """LayoutLMv3 (arXiv:2204.08387): words, their places and the patches of the page are one sequence.

    Source: transformers `modeling_layoutlmv3.py`.
    """
    # The patches and a token for all of them follow the words.
    patches = Places(each=1) if c.n_side is None else Places(c.n_side * c.n_side + 1, each=1)
    encoder = Module("", stack(c, layer(c)), places=patches)
    return Module("", (*_page_words(c), *_page_image(c), encoder, *_relative(c)))


def _page_words(c: DocumentConfig) -> Children:
    if not c.reads_text:
        return ()
    page = Axis("coordinates", c.n_coordinates)
    widths = {"x": c.d_place, "y": c.d_place, "h": c.d_shape, "w": c.d_shape}
    tables = (
        embedding(f"{x}_position_embeddings", page, Axis("place", width), component="position")
        for x, width in widths.items()
    )
    return embeddings(replace(c, n_coordinates=None), *tables)


def _page_image(c: DocumentConfig) -> Children:
    if c.n_side is None:
        return ()
    embed, rows = Axis("embed", c.d_model), Axis("patches", c.n_side * c.n_side + 1)
    side = Axis("patch", c.patch_size)
    seen = c.layout == "transformers" and (c.n_bins is not None or c.n_page_bins is not None)
    boxes = (buffer("visual_bbox", rows, Axis("box", 4), persistent=False),) if seen else ()
    return (
        Param("cls_token", (ONE, ONE, embed), component="embedding"),
        Param("pos_embed", (ONE, rows, embed), component="position"),
        convolution(
            "patch_embed.proj",
            embed,
            Axis("channels", c.n_channels),
            side,
            side,
            places=Places(c.n_side * c.n_side),
        ),
        *boxes,
        layer_norm("LayerNorm", embed),
        layer_norm("norm", embed),
    )


def _relative(c: DocumentConfig) -> tuple[Module, ...]:
    bins = {"rel_pos_bias": c.n_bins, "rel_pos_x_bias": c.n_page_bins, "rel_pos_y_bias": c.n_page_bins}
    heads = Axis("heads", c.n_heads)
    return tuple(
        embedding(f"encoder.{name}", heads, Axis("bins", rows), component="position")
        for name, rows in bins.items()
        if rows is not None
    )


ARCHITECTURES = {
    "bros": Architecture(DocumentConfig, bros),
    "layoutlmv3": Architecture(DocumentConfig, layoutlmv3),
    "lilt": Architecture(DocumentConfig, lilt),
}


def _base_only(hf: HFConfig) -> None:
    if not hf.cls.endswith("Model"):
        raise UnknownName("class", hf.cls, (), hint=f"of a {hf.model_type}, the bare model is known")


def _given(hf: HFConfig, key: str, derived: int) -> int:
    return whole(hf, key) if hf.given(key) else derived


def _bros(hf: HFConfig) -> Reading:
    _base_only(hf)
    # A file has the derived widths as well, and they win.
    waves = _given(hf, "dim_bbox_sinusoid_emb_2d", whole(hf, "hidden_size") // 4)
    pairs = _given(hf, "dim_bbox_sinusoid_emb_1d", waves // whole(hf, "dim_bbox"))
    head = whole(hf, "hidden_size") // whole(hf, "num_attention_heads")
    given = fields_of(
        hf,
        DocumentConfig,
        task="base",
        d_place=_given(hf, "dim_bbox_projection", head),
        d_waves=waves,
        n_frequencies=(pairs + 1) // 2,
        saved_ids=("position_ids",),
    )
    return Reading("bros", given)


def _lilt(hf: HFConfig) -> Reading:
    _base_only(hf)
    width, shrink = whole(hf, "hidden_size"), whole(hf, "channel_shrink_ratio")
    if width % (whole(hf, "num_attention_heads") * shrink):
        raise InvalidConfig(f"the heads of hidden_size = {width} do not shrink by {shrink} evenly")
    given = fields_of(
        hf,
        DocumentConfig,
        task="base",
        n_coordinates=hf["max_2d_position_embeddings"],
        d_place=width // 6,
        d_layout=width // shrink,
        d_layout_head=width // whole(hf, "num_attention_heads") // shrink,
        d_layout_ff=whole(hf, "intermediate_size") // shrink,
        id_buffers=("position_ids",),
    )
    return Reading("lilt", given)


def _layoutlmv3(hf: HFConfig) -> Reading:
    _base_only(hf)
    sees = bool(hf["visual_embed"])
    given = fields_of(
        hf,
        DocumentConfig,
        task="base",
        pooler=False,
        n_coordinates=hf["max_2d_position_embeddings"],
        d_place=hf["coordinate_size"],
        d_shape=hf["shape_size"],
        n_side=whole(hf, "input_size") // whole(hf, "patch_size") if sees else None,
        patch_size=hf["patch_size"] if sees else None,
        n_channels=hf["num_channels"],
        n_bins=hf["rel_pos_bins"] if hf["has_relative_attention_bias"] else None,
        n_page_bins=hf["rel_2d_pos_bins"] if hf["has_spatial_attention_bias"] else None,
        reads_text=bool(hf["text_embed"]),
        id_buffers=("position_ids",),
    )
    return Reading("layoutlmv3", given)


HF_READERS = {"bros": _bros, "layoutlmv3": _layoutlmv3, "lilt": _lilt}
