"""Language models that hear: an audio tower, one or two matrices, and the text.

Audio Flamingo 3, Music Flamingo, Qwen2-Audio, Voxtral, GLM-ASR, Qwen3-ASR, MOSS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.composite import multimodal, reading
from sizer.architectures.decoders.reading import positive
from sizer.architectures.multimodal.bridge import BridgedConfig, bridge
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import buffer
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class AudioTextConfig(BridgedConfig):
    """What joins sound to text. `n_angles`, `d_angles`: rows and width of Music Flamingo's angles."""

    n_angles: Dim | None = None
    d_angles: Dim | None = None

    letters = {**BridgedConfig.letters, "n_angles": "Na", "d_angles": "Da"}
    meanings = {
        **BridgedConfig.meanings,
        "n_angles": "rows of the table of angles",
        "d_angles": "width of the rotary part of a frame",
    }


def audio_text(c: AudioTextConfig, *tables: Module) -> Module:
    """A tower, a bridge and a text, with the names of `AudioFlamingo3ForConditionalGeneration`.

    Source: transformers `modeling_audioflamingo3.py` and those of the types in this file.
    """
    return multimodal(c, bridge(c, c.d_audio), *(tables if c.layout == "transformers" else ()))


def flamingo(c: AudioTextConfig) -> Module:
    """Music Flamingo: rotary angles of the time, kept as tables."""
    return audio_text(c, _angles(c))


def realtime(c: AudioTextConfig) -> Module:
    """Voxtral Realtime: frequencies that tell the text the delay."""
    half = Axis("rotary", divide(c.d_model, 2, names="d_model / 2"))
    return audio_text(c, Module("time_embedding", (buffer("inv_freq", half, persistent=False),)))


def _angles(c: AudioTextConfig) -> Module:
    half, whole = Axis("rotary", divide(c.d_angles, 2, names="d_angles / 2")), Axis("rotary", c.d_angles)
    return Module(
        "pos_emb",
        (
            buffer("inv_freq", half, persistent=False),
            buffer("original_inv_freq", half, persistent=False),
            buffer("position_angles", Axis("angles", c.n_angles), whole, persistent=False),
        ),
    )


ARCHITECTURES = {
    "audio_text": Architecture(AudioTextConfig, audio_text),
    "musicflamingo": Architecture(AudioTextConfig, flamingo),
    "voxtral_realtime": Architecture(AudioTextConfig, realtime),
}


def _read(hf: HFConfig, architecture: str = "audio_text", *, merged: bool = False, **given: Any) -> Reading:
    audio, text = hf.nested("audio_config"), hf.nested("text_config", merged=merged)
    fields = {"audio": audio, "d_audio": audio["hidden_size"], "files": "whole_text"}
    return reading(hf, architecture, text=text, **{**fields, **given})


def _audioflamingo3(hf: HFConfig) -> Reading:
    return _read(hf, bridge_bias=hf["projector_bias"], act=hf["projector_hidden_act"])


def _musicflamingo(hf: HFConfig) -> Reading:
    audio = hf.nested("audio_config")
    rope = hf.get("rope_parameters") or {}
    theta = rope.get("rope_theta", hf.get("rope_theta", 1200.0))
    fraction = rope.get("partial_rotary_factor", hf.get("partial_rotary_factor", 0.2))
    width, rows = audio["hidden_size"], hf.get("max_position_embeddings") or theta
    positive("max_position_embeddings", rows)
    rotary = int(width * positive("partial_rotary_factor", fraction))
    return _read(
        hf,
        "musicflamingo",
        bridge_bias=hf["projector_bias"],
        act=hf["projector_hidden_act"],
        n_angles=int(rows),
        d_angles=rotary + rotary % 2,
    )


def _qwen2_audio(hf: HFConfig) -> Reading:
    return _read(hf, layers=("linear",))


def _voxtral(hf: HFConfig) -> Reading:
    return _read(
        hf,
        merged=True,
        d_joined=hf.nested("audio_config")["intermediate_size"],
        bridge_bias=False,
        act=hf["projector_hidden_act"],
    )


def _voxtral_realtime(hf: HFConfig) -> Reading:
    return _read(
        hf,
        "voxtral_realtime",
        merged=True,
        merge=hf["downsample_factor"],
        bridge_bias=False,
        act=hf["projector_hidden_act"],
    )


def _glmasr(hf: HFConfig) -> Reading:
    text = hf.nested("text_config", merged=True)
    return _read(
        hf,
        merged=True,
        d_joined=hf.nested("audio_config")["intermediate_size"],
        d_bridge=2 * text["hidden_size"],
        act=hf["projector_hidden_act"],
    )


def _qwen3_asr(hf: HFConfig) -> Reading:
    audio = hf.nested("audio_config")
    return _read(
        hf,
        files="",
        d_bridge=audio["hidden_size"],
        d_out=audio["output_dim"],
        act=audio["activation_function"],
        token_bias=bool(hf["token_classification_bias"]),
    )


def _moss(hf: HFConfig) -> Reading:
    return _read(
        hf,
        files="",
        merge=hf["audio_merge_size"],
        bridge_bias=hf["projector_bias"],
        norm_after="norm",
        act=hf["projector_hidden_act"],
    )


HF_READERS = {
    "audioflamingo3": _audioflamingo3,
    "musicflamingo": _musicflamingo,
    "qwen2_audio": _qwen2_audio,
    "voxtral": _voxtral,
    "voxtral_realtime": _voxtral_realtime,
    "glmasr": _glmasr,
    "qwen3_asr": _qwen3_asr,
    "moss_transcribe_diarize": _moss,
}
