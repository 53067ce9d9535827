"""ViT, with the names of transformers' own: InternVL's tower, and others like it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sizer.architectures.multimodal.clip import patches, vision_sizes
from sizer.architectures.multimodal.tower import (
    Children,
    TowerConfig,
    TowerNames,
    blocks,
    convolution,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Param
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
INTERNVL = TowerNames(
    block="encoder.layer",
    attention="attention",
    output="projection_layer",
    norms=("layernorm_before", "", "layernorm_after", ""),
    scales=("lambda_1", "lambda_2"),
)


VIT = INTERNVL._replace(block="layers", output="o_proj", scales=())
# The names of ViT before transformers 5, which files have.
VIT_FILES = VIT._replace(
    block="encoder.layer",
    qkv=("attention.query", "attention.key", "attention.value"),
    output="output.dense",
    mlp=("", "intermediate.dense", "output.dense"),
)


@configuration
class VitConfig(TowerConfig):
    """Sizes and switches of a ViT.

    `mask_token`: a vector for masked patches; `absolute`: learned positions. `file_names`: those
    of the blocks in files, where they differ. `d_pooler`: width of a dense layer over the first token.
    `prefix`: the name of the model below a classifier.
    """

    n_patches: Dim
    patch_size: Dim
    n_channels: Dim = 3
    mask_token: bool = False
    absolute: bool = True
    post_norm: str = "layernorm"
    file_names: TowerNames | None = None
    d_pooler: Dim | None = None
    prefix: str = "vit"

    letters = {
        **TowerConfig.letters,
        "n_patches": "Np",
        "patch_size": "p",
        "n_channels": "Nc",
        "d_pooler": "Dp",
    }
    meanings = {
        **TowerConfig.meanings,
        "n_patches": "patches of an image",
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
        "d_pooler": "width of the pooled token",
    }


def vit(c: VitConfig) -> Module:
    """ViT (arXiv:2010.11929), as InternVL holds it. Source: transformers `modeling_internvl.py`."""
    embed = Axis("embed", c.d_model)
    if c.file_names is not None and c.layout == "checkpoint":
        c = replace(c, module_names=c.file_names)
    pooler: tuple[Module, ...] = ()
    if c.d_pooler is not None:
        pooler = (linear("pooler.dense", Axis("pooled", c.d_pooler), embed, bias=True, component="head"),)
    model = (
        Module("embeddings", _embeddings(c, embed)),
        blocks(c),
        *((layer_norm(c.post_norm, embed),) if c.post_norm else ()),
        *pooler,
    )
    if c.task == "base":
        return Module("", model)
    labels = Axis("labels", c.n_labels)
    classifier = linear("classifier", labels, embed, bias=True, component="head")
    return Module("", (Module(c.prefix, model), classifier))


def _embeddings(c: VitConfig, embed: Axis) -> Children:
    side, rows = Axis("patch", c.patch_size), Axis("patches", c.n_patches + 1)
    mask = (Param("mask_token", (ONE, ONE, embed), component="embedding"),) if c.mask_token else ()
    table = (Param("position_embeddings", (ONE, rows, embed), component="position"),) if c.absolute else ()
    return (
        Param("cls_token", (ONE, ONE, embed), component="embedding"),
        *mask,
        convolution("patch_embeddings.projection", embed, Axis("channels", c.n_channels), side, side),
        *table,
    )


ARCHITECTURES = {"vit": Architecture(VitConfig, vit)}


def _internvl(hf: HFConfig, **names: Any) -> Reading:
    given = vision_sizes(
        hf,
        n_patches=patches(hf),
        bias="qkvo" if hf["attention_bias"] else "o",
        qk_norm="full_rms" if hf["use_qk_norm"] else None,
        norm="rms" if hf["norm_type"] == "rms_norm" else "layer",
        mask_token=bool(hf["use_mask_token"]),
        absolute=bool(hf["use_absolute_position_embeddings"]),
        post_norm="" if hf["use_mean_pooling"] else "layernorm",
        **{"module_names": INTERNVL, **names},
    )
    return Reading("vit", given)


def _qianfan(hf: HFConfig) -> Reading:
    return _internvl(hf, module_names=INTERNVL._replace(block="layers"))


def _vit(hf: HFConfig) -> Reading:
    base = hf.task == "base"
    if not base and hf.task != "image_classification":
        known = ("ViTModel", "ViTForImageClassification")
        raise UnknownName("class", hf.cls, known, hint=f"of a {hf.model_type}")
    given = vision_sizes(
        hf,
        task=hf.task,
        n_labels=hf.n_labels,
        n_patches=patches(hf),
        bias="qkvo" if hf["qkv_bias"] else "o",
        file_names=VIT_FILES,
        d_pooler=(hf["pooler_output_size"] or hf["hidden_size"]) if base else None,
        module_names=VIT,
    )
    return Reading("vit", given)


HF_READERS = {"internvl_vision": _internvl, "qianfan_ocr_vision": _qianfan, "vit": _vit}
