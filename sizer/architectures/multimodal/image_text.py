"""Language models that see: a vision tower, one or two matrices, and the text.

LLaVA and those that differ from it in what stands between tower and text.
"""

from __future__ import annotations

from dataclasses import replace

from sizer.architectures.composite import multimodal
from sizer.architectures.multimodal.bridge import BridgedConfig, bridge
from sizer.architectures.parts import inside
from sizer.architectures.registry import Architecture
from sizer.core.layers import layer_norm, linear, rms_norm
from sizer.core.tree import Axis, Module, Param


def llava(c: BridgedConfig) -> Module:
    """LLaVA (Liu et al. 2023), with the names of `LlavaForConditionalGeneration`.

    Source: transformers `modeling_llava.py` and those of the types in this file.
    """
    return multimodal(c, bridge(c, c.d_vision))


def newline(c: BridgedConfig) -> Module:
    """LLaVA-NeXT and LLaVA-OneVision: a learned vector ends each row of patches."""
    vector = Param("image_newline", (Axis("embed", c.d_model),), component="embedding")
    return multimodal(c, bridge(c, c.d_vision), vector)


def mistral3(c: BridgedConfig) -> Module:
    """Mistral Small 3.1: squares of patches are merged before the two matrices."""
    vision = Axis("vision", c.d_vision)
    square = Axis("vision", c.d_vision * c.n_square)  # type: ignore[operator]
    merger = linear("patch_merger.merging_layer", vision, square)
    return multimodal(c, bridge(c, c.d_vision, rms_norm("norm", vision), merger))


def video_llava(c: BridgedConfig) -> Module:
    """Video-LLaVA (arXiv:2311.10122): a second tower of the same kind for the frames of a video."""
    assert c.vision is not None
    around = "" if c.task == "base" or c.layout == "checkpoint" else "model"
    video = c.vision.module("video_tower", layout=c.layout, inside=around, stream="encoder")
    return multimodal(c, video._replace(uses=0), bridge(c, c.d_vision))


def gemma3(c: BridgedConfig) -> Module:
    """Gemma 3 (arXiv:2503.19786): the patches are averaged, normed and projected."""
    vision, embed = Axis("vision", c.d_vision), Axis("embed", c.d_model)
    projection = (
        rms_norm("mm_soft_emb_norm", vision),
        Param("mm_input_projection_weight", (vision, embed), "matmul"),
    )
    return multimodal(c, Module(c.places.bridge, projection, component="other", stream="encoder"))


def shieldgemma2(c: BridgedConfig) -> Module:
    """ShieldGemma 2 (arXiv:2504.01081): Gemma 3, whose words yes and no are the classes."""
    return inside("model", gemma3(c))


def fuyu(c: BridgedConfig) -> Module:
    """Fuyu: no tower; the pixels of a patch are one token of the text."""
    pixels, embed = Axis("pixels", c.d_vision), Axis("embed", c.d_model)
    patches = linear("vision_embed_tokens", embed, pixels, bias=True, component="embedding")
    return multimodal(c, patches._replace(stream="encoder"))


def joined_after_norm(c: BridgedConfig) -> Module:
    """LFM3-VL and Cosmos 3 Edge: each patch is normed before four of them are joined."""
    before = layer_norm(c.norm_before, Axis("vision", c.d_vision))
    return multimodal(c, bridge(replace(c, norm_before=""), c.d_vision, before))


def hyperclovax(c: BridgedConfig) -> Module:
    """HyperCLOVA X SEED Think: one matrix joins a Qwen tower to the text."""
    stored = c.layout == "checkpoint" and c.task != "base"
    name = "vision_projector" if stored else c.places.bridge
    embed, joined = Axis("embed", c.d_model), Axis("vision", c.d_joined)
    matrix = linear(name, embed, joined, bias=True, component="other")
    return multimodal(c, matrix._replace(stream="encoder"))


def paddleocr(c: BridgedConfig) -> Module:
    """PaddleOCR-VL (arXiv:2510.14528): the patches are normed, then four are joined to one."""
    if c.layout == "checkpoint" and c.task != "base":
        c = replace(c, places=c.places._replace(bridge="mlp_AR"))
    return multimodal(c, bridge(c, c.d_vision, layer_norm("pre_norm", Axis("vision", c.d_vision))))


ARCHITECTURES = {
    "fuyu": Architecture(BridgedConfig, fuyu),
    "gemma3": Architecture(BridgedConfig, gemma3),
    "hyperclovax_vision": Architecture(BridgedConfig, hyperclovax),
    "joined_after_norm": Architecture(BridgedConfig, joined_after_norm),
    "llava": Architecture(BridgedConfig, llava),
    "llava_next": Architecture(BridgedConfig, newline),
    "mistral3": Architecture(BridgedConfig, mistral3),
    "paddleocr": Architecture(BridgedConfig, paddleocr),
    "shieldgemma2": Architecture(BridgedConfig, shieldgemma2),
    "video_llava": Architecture(BridgedConfig, video_llava),
}
