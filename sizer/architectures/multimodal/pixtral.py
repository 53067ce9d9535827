"""Pixtral's tower: RMSNorms, gated MLPs and rotary positions along both sides of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import head_width
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerConfig, TowerNames, blocks, convolution, norm, rotary
from sizer.architectures.vision.clip import vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.tree import EACH, Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(
    block="transformer.layers",
    attention="attention",
    output="o_proj",
    mlp=("feed_forward", "gate_proj", "up_proj", "down_proj"),
    norms=("attention_norm", "", "ffn_norm", ""),
    rotary="patch_positional_embedding",
)


@configuration
class PixtralConfig(TowerConfig):
    """Sizes of a Pixtral tower."""

    patch_size: Dim
    n_channels: Dim = 3

    letters = {**TowerConfig.letters, "patch_size": "p", "n_channels": "Nc"}
    meanings = {
        **TowerConfig.meanings,
        "patch_size": "side of a patch",
        "n_channels": "colour channels",
    }


def pixtral(c: PixtralConfig) -> Module:
    """Pixtral's tower (arXiv:2410.07073), with the names of `PixtralVisionModel`.

    Source: transformers `modeling_pixtral.py`.
    """
    embed, side = Axis("embed", c.d_model), Axis("patch", c.patch_size)
    return Module(
        "",
        (
            convolution(
                "patch_conv", embed, Axis("channels", c.n_channels), side, side, bias=False, places=EACH
            ),
            norm(c, "ln_pre", embed),
            *rotary(c),
            blocks(c),
        ),
    )


ARCHITECTURES = {"pixtral": Architecture(PixtralConfig, pixtral)}


def _pixtral(hf: HFConfig) -> Reading:
    # The heads divide the width; `head_dim` is that of the positions alone.
    rotary = head_width(hf)
    given = vision_sizes(
        hf,
        d_rotary=rotary + rotary % 2,
        bias="",
        mlp_bias=False,
        down_bias=False,
        gated=True,
        norm="rms",
        module_names=NAMES,
    )
    return Reading("pixtral", given)


HF_READERS = {"pixtral": _pixtral}
