"""dots3.note: a language model of experts, with towers for images and sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, language_model, multimodal, reading
from sizer.architectures.registry import Architecture, Reading, hf_reader
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def dots3_note(c: MultimodalConfig) -> Module:
    """dots3.note, with the names of `Dots3NoteForConditionalGeneration`.

    Source: transformers `modeling_dots3_note.py`. Files hold the text under the names it has alone.
    """
    if c.layout == "transformers":
        return multimodal(c)
    towers = ((c.vision, "vision_encoder"), (c.audio, "audio_encoder"))
    model = (
        *(part.module(name, layout=c.layout, stream="encoder") for part, name in towers if part is not None),
        c.text.module("model", layout=c.layout),
    )
    if c.task == "base":
        return Module("", model)
    vocab, embed = Axis("vocab", c.vocab_size), Axis("embed", c.d_model)
    tied_to = "model.embed_tokens.weight" if c.tie_embeddings else None
    return Module("", (*model, linear("lm_head", vocab, embed, tied_to=tied_to, component="head")))


ARCHITECTURES = {"dots3_note": Architecture(MultimodalConfig, dots3_note)}


def _dots3_note(hf: HFConfig) -> Reading:
    """With the class of its language model alone, that."""
    if hf.cls.endswith("ForCausalLM") or "Text" in hf.cls:
        text = language_model(hf, "dots3_note_text")
        return hf_reader(text.model_type)(text)
    return reading(hf, "dots3_note", vision=hf.nested("vision_config"), audio=hf.nested("audio_config"))


HF_READERS = {"dots3_note": _dots3_note}
