"""Towers over sound: Whisper's encoder and those that differ from it by a switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import rotary_width, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import (
    LLAMA_LIKE,
    WHISPER,
    Children,
    TowerConfig,
    blocks,
    convolution,
    norm,
    rotary,
)
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, linear
from sizer.core.tree import EACH, Axis, Module, Op, Param, Places

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class AudioConfig(TowerConfig):
    """Sizes and switches of a Whisper-like tower.

    `n_ctx`: rows of the table of positions, where there is one; `frozen_positions`: it is a
    parameter that is not trained, rather than a buffer. `d_stem`: channels of the convolutions over
    time and frequency that stand before the blocks. `n_sinusoids`: rows of a table that is computed.
    """

    n_mels: Dim
    n_ctx: Dim | None = None
    d_stem: Dim | None = None
    n_stem_rows: Dim | None = None
    n_sinusoids: Dim | None = None
    d_out: Dim | None = None
    stem: str = ""
    final_norm: str = "layer_norm"

    letters = {
        **TowerConfig.letters,
        "n_mels": "Nm",
        "d_stem": "Ds",
        "n_stem_rows": "Ns",
        "n_sinusoids": "Np",
        "d_out": "Do",
    }
    meanings = {
        **TowerConfig.meanings,
        "n_mels": "mel bands of the spectrogram",
        "d_stem": "channels of the convolutions before the blocks",
        "n_stem_rows": "bands of frequency that they leave",
        "n_sinusoids": "rows of a table of sinusoids",
        "d_out": "width that the text is given",
    }


def whisper_encoder(c: AudioConfig) -> Module:
    """Whisper's encoder (Radford et al. 2022), as audio language models hold it.

    Source: transformers `modeling_audioflamingo3.py`, `modeling_voxtral.py`, `modeling_glmasr.py`.
    """
    embed, kernel = Axis("embed", c.d_model), Axis("kernel", 3)
    table: tuple[Module, ...] = ()
    if c.n_ctx is not None:
        rows = Param("weight", (Axis("context", c.n_ctx), embed), "lookup", trainable=False)
        table = (Module("embed_positions", (rows,), kind="embedding", component="position"),)
    return Module(
        "",
        (
            # The second convolution halves the length, so the first runs at twice the encoder's.
            convolution(
                f"{c.stem}conv1", embed, Axis("mels", c.n_mels), kernel, act="gelu", places=Places(each=2)
            ),
            convolution(f"{c.stem}conv2", embed, embed, kernel, act="gelu", places=EACH),
            *table,
            blocks(c),
            norm(c, c.final_norm, embed),
            *rotary(c),
        ),
    )


def qwen_audio_encoder(c: AudioConfig) -> Module:
    """Qwen's encoder after three convolutions over time and frequency, with sinusoidal positions.

    Source: transformers `modeling_qwen3_asr.py`.
    """
    embed, stem = Axis("embed", c.d_model), Axis("stem", c.d_stem)
    left = Axis("stem", c.d_stem * c.n_stem_rows)  # type: ignore[operator]
    kernel = (Axis("kernel", 3), Axis("kernel", 3))
    table = buffer("positional_embedding", Axis("context", c.n_ctx), embed, persistent=False)
    positions = (Module("positional_embedding", (table,)),) if c.layout == "transformers" else ()
    return Module(
        "",
        (
            convolution("conv2d1", stem, Axis("one", 1), *kernel, act="gelu"),
            convolution("conv2d2", stem, stem, *kernel, act="gelu"),
            convolution("conv2d3", stem, stem, *kernel, act="gelu"),
            linear("conv_out", embed, left, component="embedding"),
            *positions,
            blocks(c),
            norm(c, c.final_norm, embed),
            *(() if c.d_out is None else _two_matrices(embed, Axis("out", c.d_out), c.act)),
        ),
    )


def _two_matrices(embed: Axis, out: Axis, act: str) -> Children:
    """To the width of the text."""
    return (
        linear("proj1", embed, embed, bias=True, component="other"),
        Op("act", act, {"width": embed.size}),
        linear("proj2", out, embed, bias=True, component="other"),
    )


def omni_audio_encoder(c: AudioConfig) -> Module:
    """Whisper's encoder with a projection to the text's width, and the marks around a sound there.

    Source: transformers `modeling_qwen2_5_omni.py`.
    """
    tower = whisper_encoder(c)
    embed, out = Axis("embed", c.d_model), Axis("out", c.d_out)
    table = buffer("positional_embedding", Axis("context", c.n_sinusoids), embed, persistent=False)
    positions = (Module("positional_embedding", (table,)),) if c.layout == "transformers" else ()
    marks = embedding("audio_bos_eos_token", Axis("marks", 2), out)
    projection = linear("proj", out, embed, bias=True, component="other")
    return tower._replace(children=(*tower.children, *positions, marks, projection))


ARCHITECTURES = {
    "omni_audio_encoder": Architecture(AudioConfig, omni_audio_encoder),
    "whisper_encoder": Architecture(AudioConfig, whisper_encoder),
    "qwen_audio_encoder": Architecture(AudioConfig, qwen_audio_encoder),
}


def _whisper(hf: HFConfig) -> Reading:
    given = {"n_ctx": hf["max_source_positions"], "bias": "qvo", "module_names": WHISPER}
    return Reading("whisper_encoder", _sizes(hf, **given))


def _glmasr(hf: HFConfig) -> Reading:
    names = LLAMA_LIKE
    given = {
        "n_ctx": None,
        "n_kv_heads": hf["num_key_value_heads"],
        "d_head": hf.get("head_dim"),
        "d_rotary": rotary_width(hf, default=0.5)
        or whole(hf, "hidden_size") // whole(hf, "num_attention_heads"),
        "act": hf["hidden_act"],
        "bias": "qvo",
        "final_norm": "norm",
        "module_names": names,
    }
    return Reading("whisper_encoder", _sizes(hf, **given))


def _voxtral_realtime(hf: HFConfig) -> Reading:
    names = WHISPER._replace(output="o_proj", mlp=("mlp", "gate_proj", "up_proj", "down_proj"))
    given = {
        "n_ctx": None,
        "d_head": hf["head_dim"],
        "d_rotary": rotary_width(hf) or hf["head_dim"],
        "window": hf["sliding_window"],
        "act": hf["hidden_act"],
        "bias": "qvo",
        "mlp_bias": False,
        "gated": True,
        "norm": "rms",
        "stem": "embedder.",
        "final_norm": "norm",
        "module_names": names,
    }
    return Reading("whisper_encoder", _sizes(hf, **given))


def _qwen3_asr(hf: HFConfig, **own: Any) -> Reading:
    rows = whole(hf, "num_mel_bins")
    for _ in range(3):
        rows = (rows + 1) // 2
    given = {
        "n_ctx": None if own else hf["max_position_embeddings"],
        "d_stem": hf["downsample_hidden_size"],
        "n_stem_rows": rows,
        "final_norm": "ln_post",
        "module_names": WHISPER,
        **own,
    }
    return Reading("qwen_audio_encoder", _sizes(hf, **given))


def _qwen3_omni(hf: HFConfig) -> Reading:
    return _qwen3_asr(hf, n_ctx=hf["max_source_positions"], d_out=hf["output_dim"])


def _omni(hf: HFConfig) -> Reading:
    given = {
        "n_sinusoids": hf["max_source_positions"],
        "d_out": hf["output_dim"],
        "bias": "qvo",
        "final_norm": "ln_post",
        "module_names": WHISPER,
    }
    return Reading("omni_audio_encoder", _sizes(hf, **given))


def _sizes(hf: HFConfig, **given: Any) -> dict[str, Any]:
    """The sizes that these configurations have in common, under either of their spellings."""
    return {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "d_ff": hf["intermediate_size"],
        "n_mels": hf["num_mel_bins"],
        **({"act": hf["activation_function"]} if "activation_function" in hf else {}),
        **given,
    }


HF_READERS = {
    "audioflamingo3_encoder": _whisper,
    "qwen2_audio_encoder": _whisper,
    "voxtral_encoder": _whisper,
    "moss_transcribe_diarize_audio": _whisper,
    "glmasr_encoder": _glmasr,
    "voxtral_realtime_encoder": _voxtral_realtime,
    "qwen2_5_omni_audio_encoder": _omni,
    "qwen3_asr_encoder": _qwen3_asr,
    "qwen3_omni_moe_audio_encoder": _qwen3_omni,
}
