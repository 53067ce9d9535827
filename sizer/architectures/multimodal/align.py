"""ALIGN: an EfficientNet over images and a BERT over words, which agree on what belongs together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.encoders.bert import fields_of
from sizer.architectures.registry import Reading
from sizer.architectures.vision.efficientnet import efficientnet_fields
from sizer.architectures.vision.lists import activation

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def _align(hf: HFConfig) -> Reading:
    """ALIGN (arXiv:2102.05918): the words are brought to the width of the images.

    Source: transformers `modeling_align.py`.
    """
    text = hf.nested("text_config")
    given = {
        "task": "base",
        "vision": bare(hf.nested("vision_config")),
        "text": bare(text),
        "d_text": text["hidden_size"],
        "d_projection": whole(hf, "projection_dim"),
        "projection_bias": True,
        "scales": ("temperature",),
    }
    return Reading("contrastive", given)


def _text(hf: HFConfig) -> Reading:
    return Reading("bert", fields_of(hf, task="base", act=activation(hf, "hidden_act")))


def _vision(hf: HFConfig) -> Reading:
    return Reading("efficientnet", {**efficientnet_fields(hf), "task": "base"})


HF_READERS = {"align": _align, "align_text_model": _text, "align_vision_model": _vision}
