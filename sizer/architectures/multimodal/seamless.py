"""SeamlessM4T: speech or text in, text out, and from it units of speech and a voice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.audio.hifi_gan import predictor, vocoder_fields
from sizer.architectures.audio.seamless_speech import speech_fields
from sizer.architectures.encoder_decoders.bart_layers import attention
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Param
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
# The second version's decoder of units convolves over seven of them.
UNIT_KERNEL = 7
# What each class holds: encoders, and the voice.
PARTS = {
    "Model": ("text", "speech", "voice"),
    "ForTextToText": ("text",),
    "ForSpeechToText": ("speech",),
    "ForTextToSpeech": ("text", "voice"),
    "ForSpeechToSpeech": ("speech", "voice"),
}


@configuration
class SeamlessStacksConfig(Config):
    """Sizes of an encoder and a decoder of text. Positions are sinusoids over `n_ctx`, and two."""

    d_model: Dim
    vocab_size: Dim
    n_ctx: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    n_decoder_layers: Dim
    n_decoder_heads: Dim
    d_ff_decoder: Dim
    d_head: Dim | None = None
    d_decoder_head: Dim | None = None
    tie_embeddings: bool = True
    act: str = "relu"
    task: str = "seq2seq"

    letters = {
        "n_decoder_layers": "M",
        "n_decoder_heads": "Hd",
        "d_ff_decoder": "Fd",
        "d_decoder_head": "Dhd",
    }
    meanings = {
        "n_layers": "encoder blocks",
        "n_decoder_layers": "decoder blocks",
        "n_decoder_heads": "heads of the decoder",
        "d_ff_decoder": "hidden width of the decoder's MLP",
        "d_decoder_head": "width of a head of the decoder",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")
        self.derive_quotient("d_decoder_head", "d_model", "n_decoder_heads")


@configuration
class UnitsConfig(SeamlessStacksConfig):
    """The model from text to units of speech. With `n_characters`, its decoder is not autoregressive."""

    n_characters: Dim | None = None
    d_predictor: Dim | None = None
    d_predictor_hidden: Dim | None = None
    predictor_kernel: Dim | None = None

    letters = {
        **SeamlessStacksConfig.letters,
        "n_characters": "Vc",
        "d_predictor": "Dp",
        "d_predictor_hidden": "Dq",
        "predictor_kernel": "Kp",
    }
    meanings = {
        **SeamlessStacksConfig.meanings,
        "n_characters": "characters",
        "d_predictor": "width that the predictor of durations reads",
        "d_predictor_hidden": "width inside it",
        "predictor_kernel": "characters under its convolutions",
    }


@configuration
class SeamlessConfig(SeamlessStacksConfig):
    """The text's stacks and the other parts. `reads_text`: there is an encoder of text."""

    speech: Part | None = None
    units: Part | None = None
    vocoder: Part | None = None
    reads_text: bool = True

    letters = {**SeamlessStacksConfig.letters, "speech": "sp", "units": "un", "vocoder": "vo"}


def seamless(c: SeamlessConfig) -> Module:
    """SeamlessM4T (arXiv:2308.11596, arXiv:2312.05187), with the names of `SeamlessM4TModel`.

    Source: transformers `modeling_seamless_m4t.py`, `modeling_seamless_m4t_v2.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    table = "shared.weight" if c.tie_embeddings else None
    tokens = embedding("embed_tokens", vocab, embed, tied_to=table)
    parts: list[Module] = [embedding("shared", vocab, embed)]
    if c.reads_text:
        parts.append(Module("text_encoder", (tokens, *encoder(c, embed)), stream="encoder"))
    if c.speech is not None:
        parts.append(c.speech.module("speech_encoder", layout=c.layout, stream="encoder"))
    parts += [
        Module("text_decoder", (tokens, *decoder(c, embed))),
        linear("lm_head", vocab, embed, tied_to=table, component="head"),
    ]
    if c.units is not None and c.vocoder is not None:
        parts.append(c.units.module("t2u_model", layout=c.layout))
        parts.append(c.vocoder.module("vocoder", layout=c.layout))
    return Module("", tuple(parts))


def encoder(c: SeamlessStacksConfig, embed: Axis, *, positions: bool = True) -> Children:
    """Pre-norm blocks over the text."""
    block = (
        attention("self_attn", embed, n=c.n_heads, d_head=c.d_head, cached=False),
        layer_norm("self_attn_layer_norm", embed),
        mlp("ffn", Axis("ffn", c.d_ff), embed, act=c.act, names=("fc1", "fc2")),
        layer_norm("ffn_layer_norm", embed),
    )
    tables = sinusoids(c, embed) if positions else ()
    return (*tables, Module("layers", block, repeat=c.n_layers), layer_norm("layer_norm", embed))


def decoder(c: SeamlessStacksConfig, embed: Axis) -> Children:
    """Pre-norm blocks that also attend to what an encoder gives."""
    sizes: dict[str, Any] = {"n": c.n_decoder_heads, "d_head": c.d_decoder_head}
    block = (
        attention("self_attn", embed, **sizes),
        layer_norm("self_attn_layer_norm", embed),
        attention("cross_attention", embed, source=embed, **sizes),
        layer_norm("cross_attention_layer_norm", embed),
        mlp("ffn", Axis("ffn", c.d_ff_decoder), embed, act=c.act, names=("fc1", "fc2")),
        layer_norm("ffn_layer_norm", embed),
    )
    layers = Module("layers", block, repeat=c.n_decoder_layers)
    return (*sinusoids(c, embed), layers, layer_norm("layer_norm", embed))


def sinusoids(c: SeamlessStacksConfig, embed: Axis, name: str = "embed_positions") -> Children:
    """The table of positions, which is kept in memory alone."""
    if c.layout == "checkpoint":
        return ()
    rows = Axis("context", c.n_ctx + 2)
    return (Module(name, (buffer("weights", rows, embed, persistent=False, component="position"),)),)


def units(c: UnitsConfig) -> Module:
    """From the states of the text's decoder to units of speech."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    tokens = embedding("embed_tokens", vocab, embed)
    inside = decoder(c, embed) if c.n_characters is None else _spoken(c, embed)
    table = "model.decoder.embed_tokens.weight" if c.tie_embeddings else None
    return Module(
        "",
        (
            Module("model.encoder", encoder(c, embed, positions=False), stream="encoder"),
            Module("model.decoder", (tokens, *inside)),
            linear("lm_head", vocab, embed, tied_to=table, component="head"),
        ),
    )


def _spoken(c: UnitsConfig, embed: Axis) -> Children:
    """All units at once: characters, how long each lasts, and blocks that convolve."""
    kernel = Axis("kernel", UNIT_KERNEL)
    block = (
        attention("self_attn", embed, n=c.n_decoder_heads, d_head=c.d_decoder_head, cached=False),
        layer_norm("self_attn_layer_norm", embed),
        convolution("conv1", embed, embed, kernel, act=c.act, component="mixer"),
        convolution("conv2", embed, embed, kernel, component="mixer"),
        layer_norm("conv_layer_norm", embed),
    )
    width, hidden = Axis("predictor", c.d_predictor), Axis("predictor", c.d_predictor_hidden)
    return (
        embedding("embed_char", Axis("characters", c.n_characters), embed),
        *sinusoids(c, embed, "embed_char_positions"),
        *sinusoids(c, embed),
        Param("pos_emb_alpha_char", (ONE,), component="position"),
        Param("pos_emb_alpha", (ONE,), component="position"),
        predictor("duration_predictor", width, hidden, c.predictor_kernel),
        Module("layers", block, repeat=c.n_decoder_layers),
        layer_norm("layer_norm", embed),
    )


ARCHITECTURES = {
    "seamless": Architecture(SeamlessConfig, seamless),
    "seamless_units": Architecture(UnitsConfig, units),
}


def _stacks(hf: HFConfig, prefix: str = "") -> dict[str, Any]:
    return {
        "d_model": hf["hidden_size"],
        "vocab_size": hf[f"{prefix}vocab_size"],
        "n_ctx": hf[f"{prefix}max_position_embeddings"],
        "n_layers": hf[f"{prefix}encoder_layers"],
        "n_heads": hf[f"{prefix}encoder_attention_heads"],
        "d_ff": hf[f"{prefix}encoder_ffn_dim"],
        "n_decoder_layers": hf[f"{prefix}decoder_layers"],
        "n_decoder_heads": hf[f"{prefix}decoder_attention_heads"],
        "d_ff_decoder": hf[f"{prefix}decoder_ffn_dim"],
        "tie_embeddings": bool(hf["tie_word_embeddings"]),
        "act": hf["activation_function"],
    }


def _units(hf: HFConfig) -> dict[str, Any]:
    if hf.model_type == "seamless_m4t":
        return _stacks(hf, "t2u_")
    return {
        **_stacks(hf, "t2u_"),
        "n_characters": hf["char_vocab_size"],
        "d_predictor": hf["t2u_variance_predictor_embed_dim"],
        "d_predictor_hidden": hf["t2u_variance_predictor_hidden_dim"],
        "predictor_kernel": hf["t2u_variance_predictor_kernel_size"],
    }


def _seamless(hf: HFConfig) -> Reading:
    name = hf.cls.removeprefix("SeamlessM4T").removeprefix("v2")
    if name not in PARTS:
        raise UnknownName("class", hf.cls, PARTS, hint=f"of a {hf.model_type}")
    parts = PARTS[name]
    given: dict[str, Any] = {"reads_text": "text" in parts}
    if "speech" in parts:
        given["speech"] = Part("seamless_speech", speech_fields(hf))
    if "voice" in parts:
        given["units"] = Part("seamless_units", _units(hf))
        given["vocoder"] = Part("hifi_gan", vocoder_fields(hf))
    return Reading("seamless", {**_stacks(hf), **given})


HF_READERS = {"seamless_m4t": _seamless, "seamless_m4t_v2": _seamless}
