"""Gemma 4 with its towers, and the unified Gemma 4 that has none: patches and sound go straight in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import MultimodalConfig, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class Gemma4Config(MultimodalConfig):
    """The parts. `n_pixels`, `n_positions`, `d_patch`: what stands in for the tower of the unified model."""

    n_pixels: Dim | None = None
    n_positions: Dim | None = None
    d_patch: Dim | None = None

    letters = {**MultimodalConfig.letters, "n_pixels": "Npx", "n_positions": "Np", "d_patch": "Dp"}
    meanings = {
        **MultimodalConfig.meanings,
        "n_pixels": "numbers in a patch",
        "n_positions": "positions along an axis",
        "d_patch": "width of a patch",
    }


def gemma4(c: Gemma4Config) -> Module:
    """Gemma 4 (Google 2026), with the names of `Gemma4ForConditionalGeneration`.

    Source: transformers `modeling_gemma4.py`.
    """
    return multimodal(c, *_joined(c, "embed_vision", c.d_vision), *_joined(c, "embed_audio", c.d_joined))


def unified(c: Gemma4Config) -> Module:
    """The unified Gemma 4. Source: transformers `modeling_gemma4_unified.py`.

    Files keep the patches' part and their projection under two names.
    """
    images: Children = ()
    if c.n_pixels is not None:
        in_file = c.layout == "checkpoint"
        projection = "" if in_file else "multimodal_embedder"
        images = (
            Module("vision_embedder" if in_file else "embed_vision", _patches(c), stream="encoder"),
            Module("embed_vision", (Module(projection, _projection(c, c.d_vision)),), stream="encoder"),
        )
    return multimodal(c, *images, *_joined(c, "embed_audio", c.d_joined))


def _joined(c: Gemma4Config, name: str, width: Dim | None) -> tuple[Module, ...]:
    if width is None:
        return ()
    return (Module(name, _projection(c, width), component="other", stream="encoder"),)


def _projection(c: Gemma4Config, width: Dim) -> Children:
    tower = Axis("tower", width)
    return (linear("embedding_projection", Axis("embed", c.d_model), tower, component="other"),)


def _patches(c: Gemma4Config) -> Children:
    pixels, patch = Axis("pixels", c.n_pixels), Axis("patch", c.d_patch)
    table = (Axis("positions", c.n_positions), Axis("axes", 2), patch)
    return (
        layer_norm("patch_ln1", pixels),
        linear("patch_dense", patch, pixels, bias=True, component="embedding"),
        layer_norm("patch_ln2", patch),
        Param("pos_embedding", table, component="position"),
        layer_norm("pos_norm", patch),
    )


ARCHITECTURES = {
    "gemma4_multimodal": Architecture(Gemma4Config, gemma4),
    "gemma4_unified": Architecture(Gemma4Config, unified),
}


def _gemma4(hf: HFConfig) -> Reading:
    towers: dict[str, Any] = {}
    if hf["vision_config"] is not None:
        vision = hf.nested("vision_config")
        towers |= {"vision": vision, "d_vision": vision["hidden_size"]}
    if hf["audio_config"] is not None:
        audio = hf.nested("audio_config")
        towers |= {"audio": audio, "d_joined": audio["output_proj_dims"]}
    return reading(hf, "gemma4_multimodal", **towers)


def _unified(hf: HFConfig) -> Reading:
    given: dict[str, Any] = {}
    if hf["vision_config"] is not None:
        vision = hf.nested("vision_config")
        side = whole(vision, "patch_size") * whole(vision, "pooling_kernel_size")
        given |= {
            "n_pixels": 3 * side**2,
            "n_positions": vision["mm_posemb_size"],
            "d_patch": vision["mm_embed_dim"],
            "d_vision": vision["output_proj_dims"],
        }
    if hf["audio_config"] is not None:
        given["d_joined"] = hf.nested("audio_config")["audio_embed_dim"]
    return reading(hf, "gemma4_unified", **given)


HF_READERS = {"gemma4": _gemma4, "gemma4_unified": _unified}
