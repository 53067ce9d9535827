"""Granite 4 Vision: a Q-Former for each tap of the tower, and four for the corners of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, bare, multimodal, reading
from sizer.architectures.decoders.granite import granite
from sizer.architectures.decoders.reading import whole
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
# A window of two by two patches is read from each of its corners.
CORNERS = 4


@configuration
class GraniteVisionConfig(MultimodalConfig):
    """The parts, and what the Q-Formers ask: `n_queries` of a window of `n_window` patches.

    `n_taps`: layers of the tower that reach the text, each by a Q-Former of its own.
    """

    qformer: Part
    n_queries: Dim
    n_window: Dim
    n_taps: Dim | None = None

    letters = {
        **MultimodalConfig.letters,
        "qformer": "qf",
        "n_queries": "Nq",
        "n_window": "Nw",
        "n_taps": "Nt",
    }
    meanings = {
        **MultimodalConfig.meanings,
        "n_queries": "queries of a window",
        "n_window": "patches of a window",
        "n_taps": "layers of the tower that the text reads",
    }


def granite_vision(c: GraniteVisionConfig) -> Module:
    """Granite 4 Vision, with the names of `Granite4VisionForConditionalGeneration`.

    Source: transformers `modeling_granite4_vision.py`.
    """
    width, embed = Axis("vision", c.d_vision), Axis("embed", c.d_model)
    parts = (
        Param("query", (ONE, Axis("queries", c.n_queries), width), component="embedding"),
        Param("image_positions", (ONE, Axis("window", c.n_window), width), component="position"),
        c.qformer.module("qformer", layout=c.layout),
        layer_norm("norm", width),
        linear("out_linear", embed, width, bias=True),
    )
    corners = Module("spatial_projectors", parts, repeat=CORNERS, component="other", stream="encoder")
    taps = (corners._replace(name="layerwise_projectors", repeat=c.n_taps),) if c.n_taps is not None else ()
    newline = Param("image_newline", (embed,), component="embedding")
    return multimodal(c, newline, *taps, corners)


ARCHITECTURES = {"granite_vision": Architecture(GraniteVisionConfig, granite_vision)}


def _granite_vision(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    width = whole(vision, "hidden_size")
    # The Q-Former is as wide as the tower, whatever its own configuration says.
    former = bare(hf.nested("qformer_config"))
    former = former._replace(
        given={**former.given, "d_model": width, "n_heads": width // 64, "d_source": width}
    )
    query, window = _rate(hf)
    return reading(
        hf,
        "granite_vision",
        vision=vision,
        d_vision=width,
        qformer=former,
        n_queries=query**2,
        n_window=window**2,
        n_taps=len(hf["deepstack_layer_map"] or ()) or None,
    )


def _rate(hf: HFConfig) -> tuple[int, int]:
    """`1/2`: the sides of what a window becomes, and of the window."""
    rate = hf["downsample_rate"]
    sides = rate.split("/") if isinstance(rate, str) else []
    if len(sides) != 2 or not all(side.isdecimal() and len(side) < 6 for side in sides):
        raise InvalidConfig(f"downsample_rate = {clip(repr(rate))} is not of the form 4/8")
    return int(sides[0]), int(sides[1])


HF_READERS = {"granite4_vision": _granite_vision, "granite4_vision_text": granite}
