"""Towers like CLIP's, and pairs of towers: MLCD, AIMv2, AltCLIP, and any two encoders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.encoders.bert import BertConfig, bert
from sizer.architectures.encoders.roberta import roberta_fields
from sizer.architectures.multimodal.contrastive import (
    ClipTextConfig,
    ContrastiveConfig,
    clip_text,
    contrastive,
)
from sizer.architectures.multimodal.ovis2 import NAMES
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import stored_names
from sizer.architectures.tower import CLIP, Children
from sizer.architectures.vision.clip import (
    ONE,
    VisionConfig,
    clip_vision,
    patches,
    vision_sizes,
    vision_tower,
)
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, layer_norm, linear, rms_norm
from sizer.core.tree import ONCE, Axis, Module, Param, Places, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

IN_FILES = ((r"encoder\.layers\.", "encoder.layer."),)
IN_MEMORY = ((r"encoder\.layer\.", "encoder.layers."),)


@configuration
class KinVisionConfig(VisionConfig):
    """Sizes of the towers. `d_class`: width of MLCD's position of its class token."""

    d_class: Dim | None = None

    letters = {**VisionConfig.letters, "d_class": "Dc"}
    meanings = {**VisionConfig.meanings, "d_class": "width of the position of the class token"}


@configuration
class AltTextConfig(BertConfig):
    """AltCLIP's text. `d_out`: width that it gives."""

    d_out: Dim

    letters = {**BertConfig.letters, "d_out": "Do"}
    meanings = {**BertConfig.meanings, "d_out": "width that the text gives"}


@configuration
class AltConfig(ContrastiveConfig):
    """AltCLIP: what its text gives is not as wide as the text itself."""

    letters = {**ContrastiveConfig.letters, "d_text": "Dt"}
    meanings = {**ContrastiveConfig.meanings, "d_text": "width that the text gives"}


def mlcd(c: KinVisionConfig) -> Module:
    """MLCD (arXiv:2407.17331): CLIP's tower with rotary positions, also of its class token.

    Source: transformers `modeling_mlcd.py`.
    """
    first, *rest = vision_tower(c).children
    assert isinstance(first, Module)
    if c.layout == "transformers":
        rows = Axis("patches", c.n_patches + 1)  # type: ignore[operator]
        ids = buffer("position_ids", ONE, rows, persistent=False)
        first = first._replace(children=(*first.children, ids))
    position = Param("class_pos_emb", (ONE, Axis("position", c.d_class)), component="position")
    return Module("", (position, first, *rest))


def aimv2(c: KinVisionConfig) -> Module:
    """AIMv2 (arXiv:2411.14402), with the names of `Aimv2VisionModel`. Source: `modeling_aimv2.py`."""
    embed = Axis("embed", c.d_model)
    first, *rest = vision_tower(replace(c, pooling_head=False)).children
    assert isinstance(first, Module)
    patch, *others = first.children
    embeddings = (patch._replace(name="patch_embed"), rms_norm("rms_norm", embed), *others)
    if not c.absolute and c.layout == "transformers":
        rows = Axis("patches", c.n_patches)
        embeddings = (*embeddings, buffer("position_ids", ONE, rows, persistent=False))
    head = (_pool(c, embed),) if c.pooling_head else ()
    return Module("", (first._replace(children=embeddings), *rest, *head))


def _pool(c: KinVisionConfig, embed: Axis) -> Module:
    """A learned token that attends to all patches, without a matrix of its own."""
    heads, bias = heads_axis("heads", c.n_heads, c.d_head), "q" in c.bias
    parts: Children = (
        Param("cls_token", (ONE, ONE, embed)),
        linear("k_proj", heads, embed, bias=bias),
        linear("v_proj", heads, embed, bias=bias),
        *attention_core(c.n_heads, c.n_heads, c.d_head, queries=1, cached=False),
        linear("output_proj", embed, heads, bias=True, places=ONCE),
    )
    return Module("head", parts, component="head", places=Places(c.n_patches))


def aimv2_text(c: ClipTextConfig) -> Module:
    """AIMv2's text: CLIP's with RMSNorms and gated MLPs."""
    *inner, _ = clip_text(c).children
    return Module("", (*inner, rms_norm("rms_norm", Axis("embed", c.d_model))))


def alt_text(c: AltTextConfig) -> Module:
    """AltCLIP's text (arXiv:2211.06679): XLM-R, and a matrix to CLIP's space."""
    embed = Axis("embed", c.d_model)
    return Module(
        "",
        (
            Module("roberta", (bert(c),)),
            layer_norm("pre_LN", embed),
            linear("transformation", Axis("out", c.d_out), embed, bias=True, component="head"),
        ),
    )


def altclip(c: AltConfig) -> Module:
    """AltCLIP, whose blocks are `layer` in files and `layers` in memory."""
    tree = contrastive(c)
    return stored_names(tree, IN_FILES if c.layout == "checkpoint" else IN_MEMORY)


ARCHITECTURES = {
    "aimv2_text": Architecture(ClipTextConfig, aimv2_text),
    "aimv2_vision": Architecture(KinVisionConfig, aimv2),
    "alt_text": Architecture(AltTextConfig, alt_text),
    "altclip": Architecture(AltConfig, altclip),
    "mlcd": Architecture(KinVisionConfig, mlcd),
}


def _mlcd(hf: HFConfig) -> Reading:
    half = hf["hidden_size"] // hf["num_attention_heads"] // 2
    given = vision_sizes(
        hf,
        n_patches=patches(hf),
        class_token=True,
        patch_bias=False,
        absolute=False,
        pre_norm="pre_layrnorm",
        d_rotary=half + half % 2,
        d_class=half,
        module_names=CLIP._replace(rotary="vision_rotary_embedding"),
    )
    return Reading("mlcd", given)


def _aimv2_sizes(hf: HFConfig, **given: Any) -> dict[str, Any]:
    bias = bool(hf["mlp_bias"])
    return vision_sizes(
        hf,
        bias="qkvo" if hf["qkv_bias"] else "",
        mlp_bias=bias,
        down_bias=bias,
        gated=True,
        norm="rms",
        module_names=NAMES,
        **given,
    )


def _aimv2(hf: HFConfig) -> Reading:
    given = _aimv2_sizes(
        hf,
        n_patches=patches(hf),
        absolute=not hf["is_native"],
        pooling_head=bool(hf["use_head"]),
        post_norm="rms_norm",
    )
    return Reading("aimv2_vision", given)


def _aimv2_text(hf: HFConfig) -> Reading:
    given = _aimv2_sizes(hf, vocab_size=hf["vocab_size"], n_ctx=hf["max_position_embeddings"])
    return Reading("aimv2_text", given)


def _pair(hf: HFConfig, architecture: str = "contrastive", width: str = "hidden_size") -> Reading:
    """Two towers and the matrices to the space where they meet."""
    vision, text = hf.nested("vision_config"), hf.nested("text_config")
    given = {
        "vision": bare(vision),
        "text": bare(text),
        "d_vision": vision["hidden_size"],
        "d_text": text[width],
        "d_projection": whole(hf, "projection_dim"),
    }
    return Reading(architecture, given)


def _altclip(hf: HFConfig) -> Reading:
    return _pair(hf, "altclip", "project_dim")


def _alt_text(hf: HFConfig) -> Reading:
    fields = roberta_fields(hf, pooler=False)
    return Reading("alt_text", {**fields, "d_out": hf["project_dim"]})


HF_READERS = {
    "aimv2": _pair,
    "aimv2_text_model": _aimv2_text,
    "aimv2_vision_model": _aimv2,
    "altclip": _altclip,
    "altclip_text_model": _alt_text,
    "altclip_vision_model": clip_vision,
    "mlcd": _mlcd,
    "mlcd_vision_model": _mlcd,
    "vision-text-dual-encoder": _pair,
}
