"""Kimi K2.5: MoonViT over patches of images and videos, and a DeepSeek-V3 as text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.composite import PartNames, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.multimodal.bridge import BridgedConfig, bridge
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerConfig, TowerNames, blocks, convolution, norm, rotary
from sizer.architectures.vision.clip import patch_side, side
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, layer_norm
from sizer.core.tree import EACH, Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(
    block="layers",
    attention="attn",
    output="proj",
    norms=("norm1", "", "norm2", ""),
)
# Attention's two matrices stand beside the rest of a block there.
FILES = TowerNames(
    block="encoder.blocks",
    attention="",
    qkv=("wqkv",),
    output="wo",
    mlp=("mlp", "fc0", "fc1"),
    norms=("norm0", "", "norm1", ""),
)
PLACES = PartNames(bridge="mm_projector")


@configuration
class MoonVitConfig(TowerConfig):
    """Sizes of MoonViT: a grid of learned positions, resampled to the image, and one for frames."""

    patch_size: Dim
    n_rows: Dim
    n_columns: Dim
    n_frames: Dim
    n_channels: Dim = 3

    letters = {
        **TowerConfig.letters,
        "patch_size": "p",
        "n_rows": "Nr",
        "n_columns": "Ncol",
        "n_frames": "Nf",
        "n_channels": "Nc",
    }
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_rows": "rows of the grid of positions",
        "n_columns": "columns of the grid of positions",
        "n_frames": "frames of a video with a position of their own",
        "n_channels": "colour channels",
    }


def moon_vit(c: MoonVitConfig) -> Module:
    """MoonViT (arXiv:2504.07491), with the names of `Kimi_K25VisionModel`.

    Source: transformers `modeling_kimi_k25.py`.
    """
    stored = c.layout == "checkpoint"
    c = replace(c, module_names=FILES) if stored else c
    embed, patch = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    grid = Param(
        "weight" if stored else "position_embeddings",
        (Axis("rows", c.n_rows), Axis("columns", c.n_columns), embed),
        "lookup",
    )
    frames = (buffer("time_position_embeddings", Axis("frames", c.n_frames + 1), embed, persistent=False),)
    return Module(
        "",
        (
            convolution("patch_embed.proj", embed, Axis("channels", c.n_channels), patch, patch, places=EACH),
            Module("patch_embed.pos_emb", (grid, *(() if stored else frames)), component="position"),
            *rotary(c),
            blocks(c),
            norm(c, "encoder.final_layernorm" if stored else "final_layernorm", embed),
        ),
    )


def kimi(c: BridgedConfig) -> Module:
    """Kimi K2.5 (arXiv:2602.02276), with the names of `Kimi_K25ForConditionalGeneration`.

    Source: transformers `modeling_kimi_k25.py`.
    """
    if c.layout == "checkpoint":
        c = replace(c, layers=("proj.0", "proj.2"))
    return multimodal(c, bridge(c, c.d_vision, layer_norm("pre_norm", Axis("vision", c.d_vision))))


ARCHITECTURES = {
    "kimi_k25": Architecture(BridgedConfig, kimi),
    "moon_vit": Architecture(MoonVitConfig, moon_vit),
}


def _kimi(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    rows, columns = side(vision, "merge_kernel_size")
    width = whole(vision, "hidden_size")
    return reading(
        hf,
        "kimi_k25",
        vision=vision,
        d_vision=hf["projection_hidden_size"],
        merge=rows * columns,
        d_joined=width * rows * columns,
        d_bridge=width * rows * columns,
        layers=("in_proj", "out_proj"),
        places=PLACES,
        files="whole_text",
    )


def _vision(hf: HFConfig) -> Reading:
    half = whole(hf, "hidden_size") // whole(hf, "num_attention_heads") // 2
    given = {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "d_ff": hf["intermediate_size"],
        "d_rotary": half + half % 2,
        "act": hf["hidden_act"],
        "patch_size": patch_side(hf),
        "n_rows": hf["pos_emb_height"],
        "n_columns": hf["pos_emb_width"],
        "n_frames": hf["pos_emb_time"],
        "module_names": NAMES,
    }
    return Reading("moon_vit", given)


HF_READERS = {"kimi_k25": _kimi, "kimi_k25_vision": _vision}
