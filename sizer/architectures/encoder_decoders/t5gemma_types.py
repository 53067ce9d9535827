"""T5Gemma and T5Gemma 2, read from their Hugging Face configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.encoder_decoders.t5gemma import WINDOWED
from sizer.architectures.encoder_decoders.tasks import task_of
from sizer.architectures.parts import part_of
from sizer.architectures.registry import Reading
from sizer.core.pattern import Pattern

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def _t5gemma(hf: HFConfig) -> Reading:
    encoder, decoder = hf.nested("encoder"), hf.nested("decoder")
    only = hf.task == "encoder" or (hf.task != "seq2seq" and not hf["is_encoder_decoder"])
    given = _given(hf, encoder, decoder, every=2)
    return Reading("t5gemma", {**given, "encoder_only": only})


def _t5gemma2(hf: HFConfig) -> Reading:
    outer = hf.nested("encoder")
    text, tower = outer.nested("text_config"), outer.nested("vision_config", "siglip_vision_model")
    given = _given(hf, text, hf.nested("decoder"), every=6)
    return Reading("t5gemma", {**given, "merged": True, "vision": part_of(tower)})


def _given(hf: HFConfig, encoder: HFConfig, decoder: HFConfig, *, every: int) -> dict[str, Any]:
    return {
        "task": task_of(hf),
        "n_labels": hf.n_labels,
        "tie_embeddings": hf["tie_word_embeddings"],
        "act": decoder["hidden_activation"],
        "d_model": encoder["hidden_size"],
        "n_layers": encoder["num_hidden_layers"],
        "n_heads": encoder["num_attention_heads"],
        "n_kv_heads": encoder["num_key_value_heads"],
        "d_head": encoder["head_dim"],
        "d_ff": encoder["intermediate_size"],
        "vocab_size": encoder["vocab_size"],
        "kinds": _kinds(encoder, every),
        "window": encoder["sliding_window"],
        "attention_bias": encoder["attention_bias"],
        "d_decoder": decoder["hidden_size"],
        "n_decoder_layers": decoder["num_hidden_layers"],
        "n_decoder_heads": decoder["num_attention_heads"],
        "n_decoder_kv_heads": decoder["num_key_value_heads"],
        "d_decoder_head": decoder["head_dim"],
        "d_ff_decoder": decoder["intermediate_size"],
        "decoder_vocab_size": decoder["vocab_size"],
        "decoder_kinds": _kinds(decoder, every),
        "decoder_window": decoder["sliding_window"],
        "decoder_attention_bias": decoder["attention_bias"],
    }


def _kinds(hf: HFConfig, every: int) -> Pattern:
    """The kind of each block; where a file does not say, the last of every few sees all tokens."""
    n_layers, types = hf["num_hidden_layers"], hf["layer_types"]
    if types is None:
        step = hf.in_file("sliding_window_pattern", every)
        return Pattern(tuple("window" if (i + 1) % step else "full" for i in range(n_layers)))
    return Pattern(tuple(WINDOWED.get(kind, kind) for kind in types[:n_layers]))


HF_READERS = {"t5gemma": _t5gemma, "t5gemma2": _t5gemma2}
