"""CLIP's and SigLIP's vision towers, and those that differ from them by a switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import (
    CLIP,
    Children,
    TowerConfig,
    blocks,
    convolution,
    norms_named,
    rotary,
)
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, mlp
from sizer.core.tree import EACH, ONCE, Axis, Module, Param, Places, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


@configuration
class VisionConfig(TowerConfig):
    """Sizes and switches of a tower over the patches of an image.

    `absolute`: a table of positions. `class_token`: a learned token before the patches, with a
    position of its own.
    `pre_norm`, `post_norm`: names of the norms around the blocks, "" for none.
    `unfolded`: patches come as rows of numbers, for a plain matrix.
    `pooling_head`: SigLIP's attention that pools the patches. `position_ids`: the indices of the
    positions are kept as a buffer.
    """

    patch_size: Dim
    n_patches: Dim | None = None
    n_channels: Dim = 3
    absolute: bool = True
    class_token: bool = False
    patch_bias: bool = True
    pre_norm: str = ""
    post_norm: str = "post_layernorm"
    pooling_head: bool = False
    unfolded: bool = False
    position_ids: bool = True

    letters = {**TowerConfig.letters, "n_patches": "Np", "patch_size": "p", "n_channels": "Nc"}
    meanings = {
        **TowerConfig.meanings,
        "n_patches": "patches of an image",
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
    }


def vision_tower(c: VisionConfig) -> Module:
    """CLIP (Radford et al. 2021) or SigLIP (Zhai et al. 2023), with the names of `SiglipVisionModel`.

    Source: transformers `modeling_clip.py`, `modeling_siglip.py`.
    """
    embed, patches, tokens = Axis("embed", c.d_model), EACH, EACH
    if c.n_patches is not None and not c.unfolded:
        patches, tokens = Places(c.n_patches), Places(c.n_patches + c.class_token)
    return Module(
        "",
        (
            Module("embeddings", _embeddings(c, embed), places=patches),
            *norms_named(c, c.pre_norm, embed),
            *rotary(c),
            blocks(c)._replace(places=tokens),
            *norms_named(c, c.post_norm, embed),
            *((_pooling_head(c, embed, tokens),) if c.pooling_head else ()),
        ),
    )


def _embeddings(c: VisionConfig, embed: Axis) -> Children:
    side, channels = Axis("patch", c.patch_size), Axis("channels", c.n_channels)
    token = (Param("class_embedding", (embed,), component="embedding"),) if c.class_token else ()
    pixels = Axis("pixels", c.n_channels * c.patch_size * c.patch_size)
    return (
        *token,
        linear("patch_embedding", embed, pixels, bias=c.patch_bias, component="embedding")
        if c.unfolded
        else convolution("patch_embedding", embed, channels, side, side, bias=c.patch_bias),
        *(_positions(c, embed) if c.absolute else ()),
    )


def _positions(c: VisionConfig, embed: Axis) -> Children:
    assert c.n_patches is not None
    rows = Axis("patches", c.n_patches + 1 if c.class_token else c.n_patches)
    kept = c.position_ids and c.layout == "transformers"
    return (
        embedding("position_embedding", rows, embed, component="position"),
        *((buffer("position_ids", ONE, rows, persistent=False),) if kept else ()),
    )


def _pooling_head(c: VisionConfig, embed: Axis, tokens: Places) -> Module:
    """One learned query attends to all patches; queries, keys and values are one matrix."""
    heads, ffn = heads_axis("heads", c.n_heads, c.d_head), Axis("ffn", c.d_ff)
    read = (
        Param("in_proj_weight", (3 * heads, embed), "one_query_matmul"),
        Param("in_proj_bias", (3 * heads,)),
        *attention_core(c.n_heads, c.n_heads, c.d_head, queries=1, cached=False),
    )
    attention = Module(
        "attention",
        (Module("", read, places=tokens), linear("out_proj", embed, heads, bias=True)),
        component="attention",
    )
    return Module(
        "head",
        (
            Param("probe", (ONE, ONE, embed)),
            attention,
            layer_norm("layernorm", embed),
            mlp("mlp", ffn, embed, act=c.act, names=("fc1", "fc2"), component="head"),
        ),
        component="head",
        places=ONCE,
    )


ARCHITECTURES = {"clip_vision": Architecture(VisionConfig, vision_tower)}


def vision_sizes(hf: HFConfig, **given: Any) -> dict[str, Any]:
    """The sizes that the configurations of vision towers have in common."""
    keys = {
        "d_model": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "d_ff": "intermediate_size",
        "n_channels": "num_channels",
        "act": "hidden_act",
    }
    found = {name: hf[key] for name, key in keys.items() if name not in given and key in hf}
    square = {"patch_size": patch_side(hf)} if "patch_size" in hf else {}
    return {"task": "base", **square, **found, **given}


def side(hf: HFConfig, key: str) -> tuple[int, int]:
    """Height and width, of which a configuration may give one or both."""
    value = hf[key]
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(v, int) for v in value):
        return value[0], value[1]
    return whole(hf, key), whole(hf, key)


def patches(hf: HFConfig) -> int:
    """Patches of an image."""
    (height, width), (rows, columns) = side(hf, "image_size"), side(hf, "patch_size")
    return height // rows * (width // columns)


def patch_side(hf: HFConfig) -> int:
    """The side of a patch, which must be a square."""
    rows, columns = side(hf, "patch_size")
    if rows != columns:
        raise InvalidConfig(f"patch_size = [{rows}, {columns}] is not a square")
    return rows


def clip_vision(hf: HFConfig) -> Reading:
    """The vision tower of CLIP."""
    flags = {"class_token": True, "patch_bias": False, "pre_norm": "pre_layrnorm"}
    return Reading("clip_vision", vision_sizes(hf, n_patches=patches(hf), **flags))


def _siglip(hf: HFConfig) -> Reading:
    pooled = bool(hf.get("vision_use_head", True))
    return Reading("clip_vision", vision_sizes(hf, n_patches=patches(hf), pooling_head=pooled))


def _phi4(hf: HFConfig) -> Reading:
    given = vision_sizes(hf, n_patches=patches(hf), pooling_head=True, position_ids=False)
    return Reading("clip_vision", given)


def _idefics(hf: HFConfig) -> Reading:
    return Reading("clip_vision", vision_sizes(hf, n_patches=patches(hf), position_ids=False))


def _axial(hf: HFConfig) -> int:
    """Width of the rotary part of a head: each axis of the image rotates a half of it."""
    half = whole(hf, "hidden_size") // whole(hf, "num_attention_heads") // 2
    return half + half % 2


def _video_llama(hf: HFConfig) -> Reading:
    """VideoLLaMA 3 (arXiv:2501.13106): SigLIP with rotary positions in place of the table."""
    names = CLIP._replace(rotary="rotary_pos_emb")
    given = vision_sizes(hf, absolute=False, d_rotary=_axial(hf), module_names=names)
    return Reading("clip_vision", given)


def _paddle(hf: HFConfig) -> Reading:
    """PaddleOCR-VL (arXiv:2510.14528): rotary positions beside the table."""
    names = CLIP._replace(rotary="encoder.rotary_pos_emb")
    given = vision_sizes(hf, n_patches=patches(hf), d_rotary=_axial(hf), module_names=names)
    return Reading("clip_vision", given)


def _siglip2(hf: HFConfig) -> Reading:
    """SigLIP 2 (arXiv:2502.14786), whose positions are resampled to the shape of each image."""
    given = vision_sizes(
        hf,
        n_patches=whole(hf, "num_patches"),
        unfolded=True,
        position_ids=False,
        pooling_head=bool(hf.get("vision_use_head", True)),
    )
    return Reading("clip_vision", given)


def _cosmos3_edge(hf: HFConfig) -> Reading:
    """SigLIP 2 without a head."""
    given = vision_sizes(hf, n_patches=whole(hf, "num_patches"), unfolded=True, position_ids=False)
    return Reading("clip_vision", given)


def _owlvit(hf: HFConfig) -> Reading:
    """OWL-ViT (arXiv:2205.06230): CLIP, with the first norm's name spelt right."""
    flags = {"class_token": True, "patch_bias": False, "pre_norm": "pre_layernorm"}
    return Reading("clip_vision", vision_sizes(hf, n_patches=patches(hf), **flags))


HF_READERS = {
    "chinese_clip_vision_model": clip_vision,
    "clipseg_vision_model": clip_vision,
    "metaclip_2_vision_model": clip_vision,
    "kosmos_2_vision_model": clip_vision,
    "owlv2_vision_model": _owlvit,
    "owlvit_vision_model": _owlvit,
    "cosmos3_edge_vision": _cosmos3_edge,
    "idefics_vision": clip_vision,
    "idefics2_vision": _idefics,
    "idefics3_vision": _idefics,
    "smolvlm_vision": _idefics,
    "siglip2_vision_model": _siglip2,
    "clip_vision_model": clip_vision,
    "siglip_vision_model": _siglip,
    "git_vision_model": clip_vision,
    "paddleocr_vl_vision": _paddle,
    "phi4_multimodal_vision": _phi4,
    "video_llama_3_vision": _video_llama,
}
