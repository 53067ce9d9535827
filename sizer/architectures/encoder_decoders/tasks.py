"""What a class of an encoder-decoder is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# transformers lists one class under several tasks; all of these mean the model with its head.
_WITH_HEAD = ("masked", "pretraining", "speech_seq2seq", "image_text", "multimodal")


def task_of(hf: HFConfig) -> str:
    """The task of a class; "seq2seq" for whatever generates from an encoded input."""
    return "seq2seq" if hf.task in _WITH_HEAD else hf.task
