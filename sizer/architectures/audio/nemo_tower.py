"""NeMo's encoder: frames stacked into tokens, pre-norm blocks with rotary positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import rotary_width, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import CLIP, Children, TowerConfig, blocks, convolution, rotary
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

IN_MEMORY = CLIP._replace(block="layers", output="o_proj")
IN_FILES = CLIP._replace(
    block="layers",
    attention="attn",
    qkv=("w_qkv",),
    mlp=("ffn", "net.0", "net.3"),
    norms=("norm1", "", "norm2", ""),
)


@configuration
class NemoEncoderConfig(TowerConfig):
    """Sizes of the encoder. `d_input`: numbers of the frames of a token.

    Without it, tokens come from another encoder, and each of them becomes `n_upsampled`.
    `in_files`: it is a part of a model whose files have NeMo's names; alone it has those in memory.
    """

    d_input: Dim | None = None
    n_upsampled: Dim | None = None
    in_files: bool = False

    letters = {**TowerConfig.letters, "d_input": "Di", "n_upsampled": "Nu"}
    meanings = {
        **TowerConfig.meanings,
        "d_input": "numbers of the frames of a token",
        "n_upsampled": "tokens that one becomes",
    }


def nemo_encoder(c: NemoEncoderConfig) -> Module:
    """The encoder, with the names of `Nemotron3_5TranscribeAsrAudioModel`, or NeMo's own in files.

    Source: transformers `modeling_nemotron3_5_transcribe.py`, `modeling_nemotron3_diarization.py`.
    """
    in_file, embed = c.in_files and c.layout == "checkpoint", Axis("embed", c.d_model)
    named = c if not in_file else _in_files(c)
    first, last = ("embed_norm", "final_norm") if in_file else ("input_layer_norm", "layer_norm")
    return Module(
        "",
        (*_input(c, embed), layer_norm(first, embed), blocks(named), layer_norm(last, embed), *rotary(c)),
    )


def _in_files(c: NemoEncoderConfig) -> NemoEncoderConfig:
    from dataclasses import replace

    return replace(c, module_names=IN_FILES)


def _input(c: NemoEncoderConfig, embed: Axis) -> Children:
    if c.d_input is None:
        # The upsampler stands elsewhere in files.
        return () if c.in_files and c.layout == "checkpoint" else upsampler("upsampler", embed, c.n_upsampled)
    name = "pre_encode.proj" if c.in_files and c.layout == "checkpoint" else "embedder.projection"
    return (linear(name, embed, Axis("frames", c.d_input), component="embedding"),)


def upsampler(name: str, embed: Axis, times: Dim) -> tuple[Module]:
    """A transposed convolution that makes several tokens of one."""
    return (convolution(name, embed, embed, Axis("kernel", times), component="embedding"),)


ARCHITECTURES = {"nemo_encoder": Architecture(NemoEncoderConfig, nemo_encoder)}


def _encoder(hf: HFConfig, **given: Any) -> Reading:
    head = whole(hf, "hidden_size") // whole(hf, "num_attention_heads")
    fraction = given.pop("fraction", 0.5)
    fields = {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "n_kv_heads": hf["num_key_value_heads"],
        "d_ff": hf["intermediate_size"],
        "d_rotary": rotary_width(hf, default=fraction) or head,
        "act": hf["hidden_act"],
        "bias": "o",
        "full_values": True,
        "qk_norm": "head",
        "module_names": IN_MEMORY,
    }
    return Reading("nemo_encoder", {**fields, **given})


def _listens(hf: HFConfig) -> Reading:
    return _encoder(hf, d_input=whole(hf, "subsampling_factor") * whole(hf, "num_mel_bins"))


def _diarizes(hf: HFConfig) -> Reading:
    stacked = whole(hf, "subsampling_factor") * whole(hf, "num_mel_bins")
    return _encoder(hf, d_input=stacked, qk_norm=None, fraction=1.0)


def _times(hf: HFConfig) -> Reading:
    return _encoder(hf, n_upsampled=hf["upsampling_factor"])


HF_READERS = {
    "nemotron3_5_transcribe_asr_audio": _listens,
    "nemotron3_diarization_audio": _diarizes,
    "nemotron3_5_transcribe_word_timestamp": _times,
}
