"""MiniMax-M3 with eyes: a tower over patches of images and videos, and two MLPs before the text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, bare, multimodal, reading, task_of
from sizer.architectures.decoders.reading import head_width, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import CLIP, TowerConfig, blocks, convolution, norm, rotary
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import EACH, Axis, Module, Op

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = CLIP._replace(block="layers")
FILES = CLIP._replace(block="vision_model.encoder.layers")


@configuration
class MiniMaxVisionConfig(TowerConfig):
    """Sizes of the tower, whose heads rotate in three axes.

    `early_names`: files have the names of CLIP.
    """

    patch_size: Dim
    n_frames: Dim
    n_channels: Dim = 3
    early_names: bool = False

    letters = {**TowerConfig.letters, "patch_size": "p", "n_frames": "Nf", "n_channels": "Nc"}
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_frames": "frames of a patch",
        "n_channels": "colour channels",
    }


def vision(c: MiniMaxVisionConfig) -> Module:
    """The tower, with the names of `MiniMaxM3VLVisionModel`."""
    around = ""
    patch_name = "embeddings.proj"
    if c.early_names and c.layout == "checkpoint":
        c = replace(c, module_names=FILES)
        around, patch_name = "vision_model.", "vision_model.embeddings.patch_embedding"
    embed, side = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    kernel = (Axis("frames", c.n_frames), side, side)
    channels = Axis("channels", c.n_channels)
    return Module(
        "",
        (
            convolution(patch_name, embed, channels, *kernel, bias=False, places=EACH),
            norm(c, f"{around}pre_layrnorm", embed),
            *rotary(c),
            blocks(c),
        ),
    )


def minimax_m3_vl(c: MultimodalConfig) -> Module:
    """MiniMax-M3, with the names of `MiniMaxM3SparseForConditionalGeneration`.

    Source: transformers `modeling_minimax_m3_vl.py`.
    """
    vision, embed = Axis("vision", c.d_vision), Axis("embed", c.d_model)
    hidden = Axis("bridge", c.d_bridge)
    merged = Axis("merged", c.d_joined)
    apart = bool(c.files) and c.layout == "checkpoint"
    first_names = ("linear_1", "linear_2")
    names = first_names, first_names if apart else ("merge_linear_1", "merge_linear_2")
    each, squares = (
        (
            linear(first, hidden, inp, bias=True),
            Op("act", "gelu", {"width": hidden.size}),
            linear(second, embed, hidden, bias=True),
        )
        for (first, second), inp in zip(names, (vision, merged), strict=True)
    )
    if apart:
        return multimodal(
            c,
            Module(c.places.bridge, each, component="other", stream="encoder"),
            Module("patch_merge_mlp", squares, component="other", stream="encoder"),
        )
    return multimodal(c, Module(c.places.bridge, (*each, *squares), component="other", stream="encoder"))


ARCHITECTURES = {
    "minimax_m3_vision": Architecture(MiniMaxVisionConfig, vision),
    "minimax_m3_vl": Architecture(MultimodalConfig, minimax_m3_vl),
}


def _minimax_m3_vl(hf: HFConfig) -> Reading:
    """The files of the whole have names of their own for experts and tower."""
    early = task_of(hf) != "base"
    side = whole(hf.nested("vision_config"), "spatial_merge_size")
    tower, text = bare(hf.nested("vision_config")), bare(hf.nested("text_config"))
    named = {**text.given, "naming": "minimax_m3_vl"}
    found = reading(
        hf,
        "minimax_m3_vl",
        vision=tower._replace(given={**tower.given, "early_names": early}),
        d_vision=hf.nested("vision_config")["hidden_size"],
        d_bridge=hf["projector_hidden_size"],
        d_joined=whole(hf.nested("text_config"), "hidden_size") * side**2,
        files="whole_text" if early else "",
    )
    return found._replace(given={**found.given, "text": text._replace(given=named)})


def _vision(hf: HFConfig) -> Reading:
    """Frames, rows and columns each rotate a third of a head, in whole pairs."""
    given = {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "d_ff": hf["intermediate_size"],
        "d_rotary": 2 * (head_width(hf) // 3 // 2),
        "act": hf["hidden_act"],
        "patch_size": hf["patch_size"],
        "n_frames": hf["temporal_patch_size"],
        "n_channels": hf["num_channels"],
        "module_names": NAMES,
    }
    return Reading("minimax_m3_vision", given)


HF_READERS = {"minimax_m3_vl": _minimax_m3_vl, "minimax_m3_vl_vision": _vision}
