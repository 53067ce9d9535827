"""Granite-Docling 2: SigLIP's tower and a connector with a coarse and a fine view of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, PartNames, multimodal, reading
from sizer.architectures.decoders.granite import granite
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.vision.clip import VisionConfig, patches, vision_sizes, vision_tower
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, layer_norm, linear
from sizer.core.tree import Axis, Module, Op

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# The inner blocks that reach the text, where a file does not say.
DEEP = (3, 7, 10)
PLACES = PartNames(text="text_model", vision="vision_model")


@configuration
class DoclingVisionConfig(VisionConfig):
    """Sizes of the connector.

    `n_joined`, `n_fine`: patches that are one token of either view; `n_places`, `n_fine_places` are
    those tokens. `n_deep`: inner blocks that reach the text too.
    """

    d_out: Dim
    n_joined: Dim
    n_places: Dim
    n_fine: Dim | None = None
    n_fine_places: Dim | None = None
    n_deep: Dim | None = None

    letters = {
        **VisionConfig.letters,
        "d_out": "Do",
        "n_joined": "Nj",
        "n_places": "Nt",
        "n_fine": "Nf",
        "n_fine_places": "Ntf",
        "n_deep": "Nd",
    }
    meanings = {
        **VisionConfig.meanings,
        "d_out": "width that the text is given",
        "n_joined": "patches in a token of the coarse view",
        "n_places": "tokens of the coarse view",
        "n_fine": "patches in a token of the fine view",
        "n_fine_places": "tokens of the fine view",
        "n_deep": "inner blocks that reach the text",
    }


@configuration
class DoclingConfig(MultimodalConfig):
    """The parts. `d_router`: hidden width of what tells a dense page from an empty one."""

    d_router: Dim | None = None

    letters = {**MultimodalConfig.letters, "d_router": "D_rt"}
    meanings = {**MultimodalConfig.meanings, "d_router": "hidden width of the router of pages"}


def docling_vision(c: DoclingVisionConfig) -> Module:
    """The tower, with the names of `GraniteDoclingVisionModel`.

    Source: transformers `modeling_granite_docling.py`.
    """
    embed, out = Axis("embed", c.d_model), Axis("out", c.d_out)
    views = [_view(c, "coarse", c.n_joined, c.n_places)]
    if c.n_fine is not None:
        views.append(_view(c, "fine", c.n_fine, c.n_fine_places))
    connector = (
        layer_norm("ln_in", embed),
        *views,
        layer_norm("ln_mid", out),
        linear("mlp_fc2", out, out),
        layer_norm("ln_out", out),
    )
    tower = vision_tower(c)
    return tower._replace(children=(*tower.children, Module("connector", connector, component="other")))


def _view(c: DoclingVisionConfig, name: str, joined: Dim, places: Dim) -> Module:
    wide, out = Axis("joined", c.d_model * joined), Axis("out", c.d_out)
    waves = (buffer("pos_embed", Axis("places", places), out, persistent=False),)
    deep = (
        layer_norm("layer_norm", wide),
        linear("linear_1", out, wide, bias=True),
        Op("act", "gelu", {"width": out.size}),
        linear("linear_2", out, out, bias=True),
    )
    return Module(
        name,
        (
            linear("projection", out, wide),
            *((Module("pos_embed", waves),) if c.layout == "transformers" else ()),
            *((Module("deepstack_mergers", deep, repeat=c.n_deep),) if c.n_deep is not None else ()),
        ),
    )


def docling(c: DoclingConfig) -> Module:
    """Granite-Docling 2, with the names of `GraniteDoclingForConditionalGeneration`."""
    if c.d_router is None:
        return multimodal(c)
    width, hidden, one = Axis("vision", c.d_vision), Axis("router", c.d_router), Axis("one", 1)
    router = (
        linear("att", one, width, bias=True),
        layer_norm("norm", width),
        linear("fc1", hidden, width, bias=True),
        Op("act", "gelu", {"width": hidden.size}),
        linear("fc2", one, hidden, bias=True),
    )
    return multimodal(c, Module("density_router", router, component="other", stream="encoder"))


ARCHITECTURES = {
    "docling": Architecture(DoclingConfig, docling),
    "docling_vision": Architecture(DoclingVisionConfig, docling_vision),
}


def _vision(hf: HFConfig) -> Reading:
    factor = whole(hf, "scale_factor")
    side = whole(hf, "image_size") // whole(hf, "patch_size")
    fine = factor // 2 if hf["use_fine_route"] else None
    deep = hf["deepstack_visual_indexes"]
    given = vision_sizes(
        hf,
        n_patches=patches(hf),
        d_out=hf["out_hidden_size"],
        n_joined=factor**2,
        n_places=(side // factor) ** 2,
        n_fine=fine**2 if fine else None,
        n_fine_places=(side // fine) ** 2 if fine else None,
        n_deep=len(DEEP if deep is None else deep) or None,
    )
    return Reading("docling_vision", given)


def _docling(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    return reading(
        hf,
        "docling",
        vision=vision,
        d_vision=vision["hidden_size"],
        d_router=hf["density_router_hidden_size"],
        places=PLACES,
    )


HF_READERS = {
    "granite_docling": _docling,
    "granite_docling_text": granite,
    "granite_docling_vision": _vision,
}
