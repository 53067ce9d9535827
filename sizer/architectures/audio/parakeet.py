"""Parakeet: a fast conformer, and a head that writes letters as they are heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.audio.parts import ONE, lstm
from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class ParakeetConfig(Config):
    """Sizes of the encoder.

    `d_stem`: channels of the convolutions that shorten a spectrogram, of `kernel` a side; `n_halvings`
    of them after the first, and `n_rows` of the spectrogram are left. `d_conv`: frames under a block's.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    d_stem: Dim
    kernel: Dim
    n_rows: Dim
    d_conv: Dim
    d_waves: Dim | None = None
    n_halvings: int = 2
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    bias: bool = True
    conv_bias: bool = True
    act: str = "silu"
    task: str = "base"

    letters = {"d_stem": "Cs", "kernel": "Ks", "n_rows": "Nr", "d_conv": "Kc", "d_waves": "Nw"}
    meanings = {
        "d_stem": "channels of the convolutions that shorten the sound",
        "kernel": "side of those convolutions",
        "n_rows": "rows of a spectrogram after them",
        "d_conv": "frames under a block's convolution",
        "d_waves": "frequencies of positions",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_kv_heads=self.n_heads, d_waves=divide(self.d_model, 2, names="d_model / 2"))
        self.derive_quotient("d_head", "d_model", "n_heads")


@configuration
class ParakeetHeadConfig(Config):
    """The encoder under its head. `d_decoder`: width of the LSTM of a transducer, `n_lstm` its layers.

    `n_durations`: lengths of a pause that a token-and-duration transducer also guesses.
    """

    encoder: Part
    d_model: Dim
    vocab_size: Dim
    d_decoder: Dim | None = None
    n_lstm: int = 0
    n_durations: Dim | None = None
    task: str = "ctc"

    letters = {"encoder": "enc", "d_model": "D_enc", "d_decoder": "D_dec", "n_durations": "Nd"}
    meanings = {"d_decoder": "width of the decoder", "n_durations": "durations that are told apart"}

    def __post_init__(self) -> None:
        check_sizes(self)


def encoder(c: ParakeetConfig) -> Module:
    """The encoder, with the names of `ParakeetEncoder`. Source: transformers `modeling_parakeet.py`."""
    embed = Axis("embed", c.d_model)
    waves = (buffer("inv_freq", Axis("waves", c.d_waves), persistent=False),)
    return Module(
        "",
        (
            Module("subsampling", _stem(c, embed), component="embedding"),
            *((Module("encode_positions", waves),) if c.layout == "transformers" else ()),
            Module("layers", _block(c, embed), repeat=c.n_layers),
        ),
    )


def _stem(c: ParakeetConfig, embed: Axis) -> Children:
    channels, side = Axis("channels", c.d_stem), Axis("kernel", c.kernel)
    layers: list[Module] = [convolution("layers.0", channels, ONE, side, side, act="relu")]
    for i in range(c.n_halvings):
        # An activation stands between them in the list, and has no tensor.
        layers.append(convolution(f"layers.{3 * i + 2}", channels, ONE, side, side))
        layers.append(convolution(f"layers.{3 * i + 3}", channels, channels, ONE, ONE, act="relu"))
    return (*layers, linear("linear", embed, Axis("rows", c.d_stem * c.n_rows), bias=True))


def _block(c: ParakeetConfig, embed: Axis) -> Children:
    ffn, kernel = Axis("ffn", c.d_ff), Axis("kernel", c.d_conv)

    def half_mlp(i: int) -> Children:
        parts = (
            linear("linear1", ffn, embed, bias=c.bias),
            Op("act", c.act, {"width": ffn.size}),
            linear("linear2", embed, ffn, bias=c.bias),
        )
        return (
            layer_norm(f"norm_feed_forward{i}", embed),
            Module(f"feed_forward{i}", parts, component="mlp"),
        )

    convolve = (
        convolution("pointwise_conv1", 2 * embed, embed, ONE, bias=c.conv_bias, component="mixer"),
        convolution("depthwise_conv", embed, ONE, kernel, bias=c.conv_bias, component="mixer"),
        batch_norm("norm", embed),
        convolution("pointwise_conv2", embed, embed, ONE, bias=c.conv_bias, component="mixer"),
    )
    return (
        *half_mlp(1),
        layer_norm("norm_self_att", embed),
        Module("self_attn", _attention(c, embed), component="attention"),
        layer_norm("norm_conv", embed),
        Module("conv", convolve, component="mixer"),
        *half_mlp(2),
        layer_norm("norm_out", embed),
    )


def _attention(c: ParakeetConfig, embed: Axis) -> Children:
    heads, kv_heads = heads_axis("heads", c.n_heads, c.d_head), heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    each, head = Axis("heads", c.n_heads), Axis("head", c.d_head)
    return (
        linear("q_proj", heads, embed, bias=c.bias),
        linear("k_proj", kv_heads, embed, bias=c.bias),
        linear("v_proj", kv_heads, embed, bias=c.bias),
        linear("relative_k_proj", heads, embed),
        Param("bias_u", (each, head)),
        Param("bias_v", (each, head)),
        *attention_core(c.n_heads, c.n_kv_heads, c.d_head, cached=False),
        linear("o_proj", embed, heads, bias=c.bias),
    )


def parakeet(c: ParakeetHeadConfig) -> Module:
    """Parakeet for CTC, or as a transducer (arXiv:2304.06795)."""
    hears = c.encoder.module("encoder", layout=c.layout, stream="encoder")
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    if c.d_decoder is None:
        head = convolution("ctc_head", vocab, embed, ONE, component="head")
        return Module("", (hears, head._replace(stream="encoder")))
    width = Axis("decoder", c.d_decoder)
    outputs = vocab if c.n_durations is None else vocab + Axis("durations", c.n_durations)
    decoder = (
        embedding("embedding", vocab, width),
        lstm("lstm", width, c.n_lstm),
        linear("decoder_projector", width, width, bias=True, component="other"),
    )
    return Module(
        "",
        (
            hears,
            linear("encoder_projector", width, embed, bias=True, component="other")._replace(
                stream="encoder"
            ),
            Module("decoder", decoder),
            linear("joint.head", outputs, width, bias=True, component="head"),
        ),
    )


ARCHITECTURES = {
    "parakeet": Architecture(ParakeetHeadConfig, parakeet),
    "parakeet_encoder": Architecture(ParakeetConfig, encoder),
}


def _encoder(hf: HFConfig) -> Reading:
    factor, stride = whole(hf, "subsampling_factor"), whole(hf, "subsampling_conv_stride")
    layers = factor.bit_length() - 1
    if not 0 < layers <= 16 or stride > 64:
        raise InvalidConfig(f"subsampling_factor = {clip(repr(factor))} does not halve a sound a few times")
    given = {
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "n_kv_heads": hf.get("num_key_value_heads"),
        "d_ff": hf["intermediate_size"],
        "d_stem": hf["subsampling_conv_channels"],
        "kernel": hf["subsampling_conv_kernel_size"],
        "n_rows": whole(hf, "num_mel_bins") // stride**layers,
        "d_conv": hf["conv_kernel_size"],
        "n_halvings": layers - 1,
        "bias": bool(hf["attention_bias"]),
        "conv_bias": bool(hf["convolution_bias"]),
        "act": hf["hidden_act"],
    }
    return Reading("parakeet_encoder", given)


def _parakeet(hf: HFConfig) -> Reading:
    part = hf.nested("encoder_config")
    given = {"encoder": bare(part), "d_model": part["hidden_size"], "vocab_size": hf["vocab_size"]}
    if hf.model_type != "parakeet_ctc":
        layers = whole(hf, "num_decoder_layers")
        if layers > 64:
            raise InvalidConfig(f"num_decoder_layers = {layers} is beyond 64, the most that is accepted")
        given |= {"d_decoder": hf["decoder_hidden_size"], "n_lstm": layers, "task": "transducer"}
    if hf.model_type == "parakeet_tdt":
        given["n_durations"] = len(hf["durations"])
    return Reading("parakeet", given)


HF_READERS = {
    "parakeet_ctc": _parakeet,
    "parakeet_encoder": _encoder,
    "parakeet_rnnt": _parakeet,
    "parakeet_tdt": _parakeet,
}
