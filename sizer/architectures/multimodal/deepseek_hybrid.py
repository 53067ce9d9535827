"""DeepSeek-VL with two towers: SigLIP for the whole of an image, SAM for its details."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, bare, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.multimodal.image_text_types import DEEPSEEK
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import convolution
from sizer.architectures.vision.sam import neck
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module, Op, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class HybridConfig(MultimodalConfig):
    """The parts, and the tower for details with its width and that of its neck."""

    details: Part
    d_details: Dim
    d_neck: Dim
    d_half: Dim

    letters = {
        **MultimodalConfig.letters,
        "details": "sam",
        "d_details": "D_sam",
        "d_neck": "D_nk",
        "d_half": "D_hf",
    }
    meanings = {
        **MultimodalConfig.meanings,
        "d_details": "width of the tower for details",
        "d_neck": "channels that it gives",
        "d_half": "half of the text's width, from each tower",
    }


def deepseek_hybrid(c: HybridConfig) -> Module:
    """DeepSeek-VL 7B (arXiv:2403.05525), with the names of `DeepseekVLHybridForConditionalGeneration`.

    Source: transformers `modeling_deepseek_vl_hybrid.py`.
    """
    channels, three = Axis("neck", c.d_neck), Axis("kernel", 3)
    half, embed = Axis("half", c.d_half), Axis("embed", c.d_model)
    inside = "" if c.task == "base" else "model"
    shrink = (
        convolution("conv1", 2 * channels, channels, three, three, bias=False),
        convolution("conv2", 4 * channels, 2 * channels, three, three, bias=False),
    )
    aligner = (
        linear("vision_proj", half, Axis("vision", c.d_vision), bias=True),
        linear("high_res_vision_proj", half, 4 * channels, bias=True),
        Op("act", "gelu", {"width": 2 * c.d_half}),
        linear("proj", embed, 2 * half, bias=True),
    )
    return multimodal(
        c,
        c.details.module("high_res_vision_model", layout=c.layout, inside=inside, stream="encoder"),
        Module("high_res_vision_neck", neck(Axis("embed", c.d_details), channels), stream="encoder"),
        Module("high_res_vision_proj", shrink, component="other", stream="encoder"),
        Param("high_res_vision_alpha", (Axis("one", 1),), component="other"),
        Module(c.places.bridge, aligner, component="other", stream="encoder"),
    )


ARCHITECTURES = {"deepseek_hybrid": Architecture(HybridConfig, deepseek_hybrid)}


def _hybrid(hf: HFConfig) -> Reading:
    vision, details = hf.nested("vision_config"), hf.nested("high_res_vision_config")
    return reading(
        hf,
        "deepseek_hybrid",
        vision=vision,
        d_vision=vision["hidden_size"],
        details=bare(details),
        d_details=details["hidden_size"],
        d_neck=details["output_channels"],
        d_half=whole(hf.nested("text_config"), "hidden_size") // 2,
        places=DEEPSEEK,
    )


HF_READERS = {"deepseek_vl_hybrid": _hybrid}
