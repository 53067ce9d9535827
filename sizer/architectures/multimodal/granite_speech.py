"""Granite Speech: a conformer with a guess of the letters inside, a Q-Former, and the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, PartNames, bare, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


@configuration
class GraniteEncoderConfig(Config):
    """Sizes of the conformer. `n_characters`: what it guesses, and reads again half way up.

    `window`: frames that see each other; `n_distances`: the farthest with a vector of its own.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_input: Dim
    d_ff: Dim
    d_conv: Dim
    n_characters: Dim
    n_distances: Dim
    kernel_size: Dim
    window: Dim
    d_head: Dim | None = None
    task: str = "base"

    letters = {
        "d_input": "Di",
        "d_conv": "Dc",
        "n_characters": "Vc",
        "n_distances": "Nd",
        "kernel_size": "Kc",
    }
    meanings = {
        "d_input": "numbers of a frame of sound",
        "d_conv": "channels of a block's convolution",
        "n_characters": "characters that the encoder guesses",
        "n_distances": "farthest distance with a vector of its own",
        "kernel_size": "frames under a block's convolution",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


@configuration
class GraniteSpeechConfig(MultimodalConfig):
    """The parts, the Q-Former, and the queries with which it reads a window of sound."""

    qformer: Part
    d_qformer: Dim
    n_queries: Dim

    letters = {**MultimodalConfig.letters, "qformer": "qf", "d_qformer": "D_qf", "n_queries": "Nq"}
    meanings = {
        **MultimodalConfig.meanings,
        "d_qformer": "width of the Q-Former",
        "n_queries": "queries of a window",
    }


def encoder(c: GraniteEncoderConfig) -> Module:
    """The conformer, with the names of `GraniteSpeechCTCEncoder`.

    Source: transformers `modeling_granite_speech.py`.
    """
    embed, characters = Axis("embed", c.d_model), Axis("vocab", c.n_characters)
    window = Axis("window", c.window)
    block = Module(
        "layers",
        (
            _half_mlp("ff1", c, embed),
            Module("attn", _attention(c, embed), component="attention"),
            Module("conv", _convolve(c, embed), component="mixer"),
            _half_mlp("ff2", c, embed),
            layer_norm("post_norm", embed),
        ),
        repeat=c.n_layers,
    )
    distances = (buffer("attention_dists", window, window, persistent=False),)
    return Module(
        "",
        (
            *(distances if c.layout == "transformers" else ()),
            linear("input_linear", embed, Axis("input", c.d_input), bias=True, component="embedding"),
            block,
            linear("out", characters, embed, bias=True, component="other"),
            linear("out_mid", embed, characters, bias=True, component="other"),
        ),
    )


def _half_mlp(name: str, c: GraniteEncoderConfig, embed: Axis) -> Module:
    ffn = Axis("ffn", c.d_ff)
    parts = (
        layer_norm("pre_norm", embed),
        linear("up_proj", ffn, embed, bias=True),
        Op("act", "silu", {"width": ffn.size}),
        linear("down_proj", embed, ffn, bias=True),
    )
    return Module(name, parts, component="mlp")


def _attention(c: GraniteEncoderConfig, embed: Axis) -> Children:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    rows = Axis("distances", 2 * c.n_distances + 1)
    return (
        layer_norm("pre_norm", embed),
        linear("to_q", heads, embed),
        linear("to_kv", 2 * heads, embed),
        embedding("rel_pos_emb", rows, Axis("head", c.d_head), component="position"),
        *attention_core(c.n_heads, c.n_heads, c.d_head, window=c.window, cached=False),
        linear("to_out", embed, heads, bias=True),
    )


def _convolve(c: GraniteEncoderConfig, embed: Axis) -> Children:
    inner, kernel = Axis("conv", c.d_conv), Axis("kernel", c.kernel_size)
    return (
        layer_norm("norm", embed),
        convolution("up_conv", 2 * inner, embed, ONE, component="mixer"),
        convolution("depth_conv.conv", inner, ONE, kernel, bias=False, component="mixer"),
        batch_norm("batch_norm", inner),
        convolution("down_conv", embed, inner, ONE, component="mixer"),
    )


def granite_speech(c: GraniteSpeechConfig) -> Module:
    """Granite Speech (arXiv:2505.08699), with the names of `GraniteSpeechForConditionalGeneration`."""
    width, embed = Axis("query", c.d_qformer), Axis("embed", c.d_model)
    bridge = (
        Param("query", (ONE, Axis("queries", c.n_queries), width), component="embedding"),
        c.qformer.module("qformer", layout=c.layout),
        linear("linear", embed, width, bias=True),
    )
    return multimodal(c, Module(c.places.bridge, bridge, component="other", stream="encoder"))


ARCHITECTURES = {
    "granite_speech": Architecture(GraniteSpeechConfig, granite_speech),
    "granite_speech_encoder": Architecture(GraniteEncoderConfig, encoder),
}


def _encoder(hf: HFConfig) -> Reading:
    width = whole(hf, "hidden_dim")
    given = {
        "task": "base",
        "d_model": width,
        "n_layers": hf["num_layers"],
        "n_heads": hf["num_heads"],
        # The reference rounds a width that the heads do not divide.
        "d_head": hf["dim_head"] or width // whole(hf, "num_heads"),
        "d_input": hf["input_dim"],
        "d_ff": width * whole(hf, "feedforward_mult"),
        "d_conv": width * whole(hf, "conv_expansion_factor"),
        "n_characters": hf["output_dim"],
        "n_distances": hf["max_pos_emb"],
        "kernel_size": hf["conv_kernel_size"],
        "window": hf["context_size"],
    }
    return Reading("granite_speech_encoder", given)


def _granite_speech(hf: HFConfig) -> Reading:
    queries = hf.nested("projector_config")
    return reading(
        hf,
        "granite_speech",
        audio=hf.nested("encoder_config"),
        qformer=bare(queries),
        d_qformer=queries["hidden_size"],
        n_queries=whole(hf, "window_size") // whole(hf, "downsample_rate"),
        places=PartNames(audio="encoder", bridge="projector"),
        files="whole_text",
    )


HF_READERS = {
    "granite_speech": _granite_speech,
    "granite_speech_encoder": _encoder,
    "granite_speech_plus": _granite_speech,
    "granite_speech_plus_encoder": _encoder,
}
