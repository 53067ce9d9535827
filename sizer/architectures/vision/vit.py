"""ViT, with the names of transformers' own: InternVL's tower, and others like it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import Rules, stored_names
from sizer.architectures.tower import (
    Children,
    TowerConfig,
    TowerNames,
    blocks,
    convolution,
)
from sizer.architectures.vision.clip import patches, vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, layer_norm, linear
from sizer.core.tree import ONCE, Axis, Module, Param, Places
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

    `n_class`, `n_registers`, `n_detection`: learned tokens before or after the patches; `distilled`:
    one more. `n_positions`: rows of the table of positions, all patches and a token unless given.
    `n_seen`: the patches that reach the blocks, where not all do.
    `mask_token`: a vector for masked patches, of which DINOv2's is a `flat_mask`. `absolute`: a table
    of positions, which nothing changes where they are `fixed_positions`. `n_distances`: relative
    positions, of each block ("own"), of all ("shared") or "both".
    `file_names`: those of the blocks in files, where they differ; `stored`: what differs besides,
    `renamed`: what does so in memory.
    `d_pooler`: width of a dense layer over the first token; `pooled_norm`: a norm over the mean.
    `prefix`: the name of the model below a classifier; `doubled`: that reads two vectors.
    """

    n_patches: Dim
    patch_size: Dim
    n_channels: Dim = 3
    n_class: Dim | None = 1
    n_registers: Dim | None = None
    n_detection: Dim | None = None
    n_positions: Dim | None = None
    n_frames: Dim | None = None
    n_seen: Dim | None = None
    n_distances: Dim | None = None
    d_axial: Dim | None = None
    distances: str = "own"
    distilled: bool = False
    mask_token: bool = False
    flat_mask: bool = False
    absolute: bool = True
    fixed_positions: bool = False
    patch_name: str = "patch_embeddings.projection"
    post_norm: str = "layernorm"
    file_names: TowerNames | None = None
    stored: Rules = ()
    renamed: Rules = ()
    d_pooler: Dim | None = None
    pooled_norm: bool = False
    prefix: str = "vit"
    classifiers: tuple[str, ...] = ("classifier",)
    doubled: bool = False

    letters = {
        **TowerConfig.letters,
        "n_patches": "Np",
        "patch_size": "p",
        "n_channels": "Nc",
        "n_class": "Ncl",
        "n_registers": "Nr",
        "n_detection": "Nd",
        "n_positions": "Nps",
        "n_frames": "Nf",
        "n_seen": "Nse",
        "n_distances": "Nx",
        "d_axial": "Dx",
        "d_pooler": "Dp",
    }
    meanings = {
        **TowerConfig.meanings,
        "n_patches": "patches of an image",
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
        "n_class": "tokens for the whole image",
        "n_registers": "tokens that stand for nothing",
        "n_detection": "tokens for objects",
        "n_positions": "rows of the table of positions",
        "n_frames": "frames of a patch",
        "n_seen": "patches that are not masked",
        "n_distances": "relative positions",
        "d_axial": "frequencies of rotary positions along an axis",
        "d_pooler": "width of the pooled token",
    }
    may_be_zero = TowerConfig.may_be_zero | {"n_registers"}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.derive(n_positions=self.n_patches + 1)


def vit(c: VitConfig) -> Module:
    """ViT (arXiv:2010.11929) and those like it. Source: transformers `modeling_vit.py` and its kin."""
    if c.layout != "checkpoint":
        return stored_names(_tree(c), c.renamed)
    if c.file_names is not None:
        c = replace(c, module_names=c.file_names)
    return stored_names(_tree(c), c.stored)


def _tree(c: VitConfig) -> Module:
    embed = Axis("embed", c.d_model)
    if c.task == "base":
        return Module("", vit_model(c))
    width = 2 * embed if c.doubled else embed
    labels = Axis("labels", c.n_labels)
    heads = (linear(name, labels, width, bias=True, component="head", places=ONCE) for name in c.classifiers)
    return Module("", (Module(c.prefix, vit_model(c)), *heads))


def vit_model(c: VitConfig) -> Children:
    """The model without a head."""
    embed = Axis("embed", c.d_model)
    pooler: tuple[Module, ...] = ()
    if c.d_pooler is not None:
        out = Axis("pooled", c.d_pooler)
        pooler = (linear("pooler.dense", out, embed, bias=True, component="head", places=ONCE),)
    if c.pooled_norm:
        pooler = (*pooler, layer_norm("pooler.layernorm", embed))
    frequencies = (buffer("inv_freq", Axis("rotary", c.d_axial), persistent=False),)
    axial = c.d_axial is not None and c.layout == "transformers"
    shared = _distances(c, "shared_position_bias") if c.distances in ("shared", "both") else ()
    own = _distances(c, "relative_position_bias") if c.distances in ("own", "both") else ()
    added = (c.n_class, c.n_registers, c.n_detection, int(c.distilled))
    tokens = (c.n_patches if c.n_seen is None else c.n_seen) + sum(
        (count for count in added if count is not None), start=0
    )
    return (
        Module("embeddings", _embeddings(c, embed)),
        *((Module("rope_embeddings", frequencies),) if axial else ()),
        *shared,
        blocks(c, *own)._replace(places=Places(fixed=tokens)),
        *((layer_norm(c.post_norm, embed),) if c.post_norm else ()),
        *pooler,
    )


def _distances(c: VitConfig, name: str) -> tuple[Module, ...]:
    """A learned score of each head for each relative position."""
    if c.n_distances is None:
        return ()
    axes = (Axis("distances", c.n_distances), Axis("heads", c.n_heads))
    return (Module(name, (Param("relative_position_bias_table", axes),), component="position"),)


def _embeddings(c: VitConfig, embed: Axis) -> Children:
    side, rows = Axis("patch", c.patch_size), Axis("patches", c.n_positions)
    kernel = (side, side) if c.n_frames is None else (Axis("frames", c.n_frames), side, side)
    tokens = {
        "cls_token": c.n_class,
        "distillation_token": 1 if c.distilled else None,
        "register_tokens": c.n_registers,
        "detection_tokens": c.n_detection,
    }
    mask = (ONE, embed) if c.flat_mask else (ONE, ONE, embed)
    table = (
        Param(
            "position_embeddings",
            (ONE, rows, embed),
            trainable=not c.fixed_positions,
            component="position",
        ),
    )
    return (
        *(
            Param(name, (ONE, Axis("tokens", count), embed), component="embedding")
            for name, count in tokens.items()
            if count is not None
        ),
        *((Param("mask_token", mask, component="embedding"),) if c.mask_token else ()),
        convolution(
            c.patch_name,
            embed,
            Axis("channels", c.n_channels),
            *kernel,
            places=Places(fixed=c.n_patches),
        ),
        *(table if c.absolute else ()),
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
