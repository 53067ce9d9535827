"""Nemotron 3.5 Transcribe: who speaks, what is said, a hybrid language model, and when each word was."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sizer.architectures.audio.nemo_tower import upsampler
from sizer.architectures.composite import MultimodalConfig, bare, reading
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, layer_norm, linear, renamed
from sizer.core.tree import Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# NeMo keeps three tensors of a Mamba layer apart, in single precision.
SINGLE_PRECISION = {name: f"_fp32_params.{name}" for name in ("A_log", "D", "dt_bias")}


class Names(NamedTuple):
    """Where the parts stand."""

    tower: str = "audio_tower"
    speakers: str = "diarization_model.model.audio_tower"
    proj: str = "diarization_model.model.proj"
    upsampler: str = "diarization_model.model.upsampler.conv"
    dense: str = "diarization_model.classifier.dense"
    out_proj: str = "diarization_model.classifier.out_proj"
    silence: str = "diarization_model.silence_embeds"
    speaker_norm: str = "speaker_norm"
    bridge: str = "multi_modal_projector"
    text: str = "language_model"
    timestamps: str = "word_timestamp_encoder"
    timestamp_upsampler: str = "word_timestamp_encoder.upsampler"
    timestamp_head: str = "word_timestamp_head"
    head: str = "lm_head"


MEMORY = Names()
SORTFORMER = "diarization_model.sortformer_modules"
NEMO = Names(
    tower="perception.encoder",
    speakers="diarization_model.encoder",
    proj=f"{SORTFORMER}.encoder_proj",
    upsampler=f"{SORTFORMER}.subpixel_upsample",
    dense=f"{SORTFORMER}.first_hidden_to_hidden",
    out_proj=f"{SORTFORMER}.single_hidden_to_spks",
    silence=f"{SORTFORMER}.learnable_sil_emb",
    speaker_norm="diar_norm",
    bridge="perception.proj",
    text="llm.model",
    timestamps="ctc_timestamp.decoder.transformer",
    timestamp_upsampler="ctc_timestamp.decoder.upsample",
    timestamp_head="ctc_timestamp.decoder.decoder_layers.0",
    head="llm.lm_head",
)


@configuration
class NemoConfig(MultimodalConfig):
    """The parts: `audio` hears words, `speakers` speakers, `timestamps` when a word was said."""

    speakers: Part
    timestamps: Part
    d_speakers: Dim
    d_timestamps: Dim
    d_speaker_head: Dim
    n_speakers: Dim
    n_upsampled: Dim
    n_timestamp_upsampled: Dim
    n_timestamp_labels: Dim

    letters = {
        **MultimodalConfig.letters,
        "speakers": "spk",
        "timestamps": "ts",
        "d_speakers": "D_spk",
        "d_timestamps": "D_ts",
        "d_speaker_head": "Dh_spk",
        "n_speakers": "Nspk",
        "n_upsampled": "Nu_spk",
        "n_timestamp_upsampled": "Nu_ts",
        "n_timestamp_labels": "V_ts",
    }
    meanings = {
        **MultimodalConfig.meanings,
        "d_speakers": "width of the encoder that tells speakers apart",
        "d_timestamps": "width of the encoder that dates words",
        "d_speaker_head": "width of the head that tells speakers apart",
        "n_speakers": "speakers",
        "n_upsampled": "frames that the speaker head makes of one",
        "n_timestamp_upsampled": "frames that the dating encoder makes of one",
        "n_timestamp_labels": "labels of the head that dates words",
    }


def nemo(c: NemoConfig) -> Module:
    """Nemotron 3.5 Transcribe, with the names of `Nemotron3_5TranscribeForConditionalGeneration`.

    Source: transformers `modeling_nemotron3_5_transcribe.py`. Files have the names of NeMo; those of
    the bare model have them inside its blocks alone.
    """
    in_file, bare_model = c.layout == "checkpoint", c.task == "base"
    names = NEMO if in_file and not bare_model else MEMORY
    embed, sound = Axis("embed", c.d_model), Axis("audio", c.d_audio)
    when = Axis("timestamps", c.d_timestamps)
    text = c.text.module(names.text, layout=c.layout)
    if in_file:
        text = renamed(text, SINGLE_PRECISION)
    if names is NEMO:
        text = renamed(text, {"embeddings": "embed_tokens", "norm_f": "norm"})
    late = upsampler(names.timestamp_upsampler, when, c.n_timestamp_upsampled) if in_file else ()
    model = (
        Module(names.tower, _listen(c, names), stream="encoder"),
        linear(names.bridge, embed, sound, bias=True, component="other")._replace(stream="encoder"),
        text,
        *(part._replace(stream="encoder") for part in late),
        c.timestamps.module(names.timestamps, layout=c.layout, stream="encoder"),
    )
    if bare_model:
        return Module("", model)
    labels = Axis("labels", c.n_timestamp_labels)
    heads = (
        linear(names.head, Axis("vocab", c.vocab_size), embed, component="head"),
        convolution(names.timestamp_head, labels, when, Axis("one", 1), component="head"),
    )
    return Module("", (Module("" if in_file else "model", model), *heads))


def _listen(c: NemoConfig, names: Names) -> Children:
    """The two encoders of the sound, and what tells the first who speaks."""
    width, head, speakers = (
        Axis("speech", c.d_speakers),
        Axis("head", c.d_speaker_head),
        Axis("speakers", c.n_speakers),
    )
    three, upsampled = Axis("kernel", 3), Axis("head", c.n_upsampled * c.d_speaker_head)
    assert c.audio is not None
    table = (
        Module(
            "speaker_embedding", (buffer("weight", speakers, Axis("audio", c.d_audio), persistent=False),)
        ),
    )
    return (
        c.audio.module("asr_encoder", layout=c.layout),
        Param(names.silence, (width,), component="embedding"),
        c.speakers.module(names.speakers, layout=c.layout),
        linear(names.proj, head, width, bias=True, component="other"),
        convolution(names.upsampler, upsampled, head, three, component="other"),
        linear(names.dense, head, head, bias=True, component="other"),
        linear(names.out_proj, speakers, head, bias=True, component="other"),
        layer_norm("asr_norm", Axis("audio", c.d_audio)),
        layer_norm(names.speaker_norm, speakers),
        *(table if c.layout == "transformers" else ()),
    )


ARCHITECTURES = {"nemo_speechlm": Architecture(NemoConfig, nemo)}


def _part(hf: HFConfig) -> Part:
    """An encoder under the names of NeMo's files."""
    part = bare(hf)
    return part._replace(given={**part.given, "in_files": True})


def _nemo(hf: HFConfig) -> Reading:
    audio, timestamps = hf.nested("audio_config"), hf.nested("word_timestamp_config")
    listens, diarizes = audio.nested("asr_config"), audio.nested("diarization_config")
    speakers, head = diarizes.nested("audio_config"), diarizes.nested("head_config")
    return reading(
        hf,
        "nemo_speechlm",
        audio=_part(listens),
        d_audio=listens["hidden_size"],
        speakers=_part(speakers),
        d_speakers=speakers["hidden_size"],
        d_speaker_head=head["hidden_size"],
        n_speakers=head["num_speakers"],
        n_upsampled=head["subsampling_factor"],
        timestamps=_part(timestamps),
        d_timestamps=timestamps["hidden_size"],
        n_timestamp_upsampled=timestamps["upsampling_factor"],
        n_timestamp_labels=timestamps["vocab_size"],
        tie_embeddings=False,
    )


HF_READERS = {"nemo_speechlm": _nemo}
