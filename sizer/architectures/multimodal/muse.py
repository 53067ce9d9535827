"""Muse Glimmer: a tower over patches of two frames, an adapter, and the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import PartNames, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.multimodal.bridge import BridgedConfig, bridge
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerConfig, TowerNames, blocks, norm, rotary
from sizer.architectures.vision.clip import vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(block="layers", attention="attn", output="proj", norms=("norm1", "", "norm2", ""))
PLACES = PartNames(bridge="vision_adapter")


@configuration
class MuseVisionConfig(TowerConfig):
    """Sizes of the tower. `n_positions`: rows of the table of positions, resampled to the image."""

    n_pixels: Dim
    n_positions: Dim

    letters = {**TowerConfig.letters, "n_pixels": "Nx", "n_positions": "Np"}
    meanings = {
        **TowerConfig.meanings,
        "n_pixels": "numbers of a patch",
        "n_positions": "rows of the table of positions",
    }


def muse_vision(c: MuseVisionConfig) -> Module:
    """The tower, with the names of `MuseGlimmerVisionModel`.

    Source: transformers `modeling_muse_glimmer.py`.
    """
    embed = Axis("embed", c.d_model)
    embedder = (
        linear("patch_embedding", embed, Axis("pixels", c.n_pixels), component="embedding"),
        embedding("position_embedding_table", Axis("positions", c.n_positions), embed, component="position"),
    )
    return Module(
        "",
        (
            Module("patch_embedder", embedder),
            *rotary(c),
            norm(c, "ln_pre", embed),
            blocks(c),
            norm(c, "ln_post", embed),
        ),
    )


def muse(c: BridgedConfig) -> Module:
    """Muse Glimmer, with the names of `MuseGlimmerForConditionalGeneration`."""
    width, embed = Axis("bridge", c.d_bridge), Axis("embed", c.d_model)
    projection = linear("vision_projection", embed, width, component="other")
    return multimodal(c, bridge(c, c.d_joined), projection._replace(stream="encoder"))


ARCHITECTURES = {
    "muse": Architecture(BridgedConfig, muse),
    "muse_vision": Architecture(MuseVisionConfig, muse_vision),
}


def _vision(hf: HFConfig) -> Reading:
    half = whole(hf, "hidden_size") // whole(hf, "num_attention_heads") // 2
    side = whole(hf, "patch_size")
    given = vision_sizes(
        hf,
        n_pixels=whole(hf, "patch_temporal") * 3 * side * side,
        n_positions=whole(hf, "pos_emb_height") * whole(hf, "pos_emb_width"),
        d_rotary=half + half % 2,
        module_names=NAMES,
    )
    del given["patch_size"]
    return Reading("muse_vision", given)


def read_muse(hf: HFConfig, **towers: HFConfig) -> Reading:
    """The whole model, with the towers that it has beside the one that sees."""
    return reading(
        hf,
        "muse",
        **towers,
        vision=hf.nested("vision_config"),
        d_joined=hf["out_hidden_size"],
        d_bridge=hf["projector_hidden_size"],
        d_out=hf["projector_hidden_size"],
        layers=("fc1", "fc2"),
        bridge_bias=False,
        act=hf["projector_hidden_act"],
        places=PLACES,
    )


HF_READERS = {"muse_glimmer": read_muse, "muse_glimmer_vision": _vision, "muse_spark_vision": _vision}
