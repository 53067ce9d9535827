"""Qwen's and GLM's models of images and text: the tower gives tokens as wide as the text itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import (
    MultimodalConfig,
    PartNames,
    language_model,
    multimodal,
    reading,
    text_of,
)
from sizer.architectures.multimodal.image_text_types import DIFFUSERS
from sizer.architectures.registry import Architecture, Reading, hf_reader

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

PLACES = PartNames(vision="visual")

ARCHITECTURES = {"qwen_vl": Architecture(MultimodalConfig, multimodal)}


def _qwen2_vl(hf: HFConfig) -> Reading:
    text = text_of(hf, f"{hf.model_type}_text")
    tied = bool(hf["tie_word_embeddings"] or text.get("tie_word_embeddings", False))
    vision = hf.nested("vision_config")
    return reading(
        hf, "qwen_vl", text=text, vision=vision, places=PLACES, files="plain_text", tie_embeddings=tied
    )


def _qwen3_vl(hf: HFConfig) -> Reading:
    return reading(hf, "qwen_vl", vision=hf.nested("vision_config"), places=PLACES)


def _cosmos3(hf: HFConfig) -> Reading:
    """Cosmos 3: Qwen3-VL, whose files know neither the text's name nor the tower's."""
    bare = (*DIFFUSERS, (r"^model\.(language_model|visual)\.", ""))
    return reading(hf, "qwen_vl", vision=hf.nested("vision_config"), places=PLACES, stored=bare)


def _qwen3_5(hf: HFConfig) -> Reading:
    """With the class of its language model alone, that."""
    if hf.cls.endswith("ForCausalLM") or "Text" in hf.cls:
        text = language_model(hf, f"{hf.model_type}_text")
        return hf_reader(text.model_type)(text)
    return _qwen3_vl(hf)


def _thinker(hf: HFConfig) -> Reading:
    """The part of Qwen2.5-Omni (arXiv:2503.20215) that reads and writes text."""
    vision, audio = hf.nested("vision_config"), hf.nested("audio_config")
    return reading(hf, "qwen_vl", vision=vision, audio=audio, places=PLACES, files="plain_text")


HF_READERS = {
    "cohere_compass": _qwen3_vl,
    "qwen3_omni_moe_thinker": _thinker,
    "qwen2_5_omni_thinker": _thinker,
    "cosmos3_omni": _cosmos3,
    "exaone4_5": _qwen3_vl,
    "glm46v": _qwen3_vl,
    "glm4v": _qwen3_vl,
    "glm4v_moe": _qwen3_vl,
    "glm5_next": _qwen3_vl,
    "glm_ocr": _qwen3_vl,
    "glmga": _qwen3_vl,
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_vl,
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
    "qwen3_5": _qwen3_5,
    "qwen3_5_moe": _qwen3_5,
    "qwen4_exp": _qwen3_5,
}
