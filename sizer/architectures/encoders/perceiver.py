"""Perceiver IO: a fixed set of latents that reads inputs, attends to itself, and answers queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.parts import ONE, Children, with_heads
from sizer.architectures.encoders.perceiver_inputs import CONV, CONV1X1, preprocessor
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class PerceiverConfig(Config):
    """Sizes and switches of a Perceiver.

    `d_input`: width of what the latents read, embedded tokens or preprocessed pixels.
    `d_qk`, `d_value`: widths of all heads in the self-attention of the latents; `d_cross_qk`,
    `d_cross_value`: where the latents read; `d_output_qk`, `d_output_value`: where labels are read.
    `inputs`: "text", "pixels", "conv1x1", "conv", "patches", or "none" for the bare model.
    Latents count as tokens in FLOPs: a pass over `n_latents` tokens is exact but for the reading.
    """

    d_latents: Dim
    n_latents: Dim
    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    n_cross_heads: Dim
    vocab_size: Dim
    n_ctx: Dim
    n_pixels: Dim | None = None
    d_input: Dim | None = None
    d_qk: Dim | None = None
    d_value: Dim | None = None
    d_cross_qk: Dim | None = None
    d_cross_value: Dim | None = None
    d_output_qk: Dim | None = None
    d_output_value: Dim | None = None
    d_head: Dim | None = None
    d_head_value: Dim | None = None
    d_cross_head: Dim | None = None
    d_cross_head_value: Dim | None = None
    widening: Dim = 1
    cross_widening: Dim = 1
    cross_from_inputs: bool = True
    inputs: str = "text"
    act: str = "gelu"
    task: str = "masked"

    letters = {
        "d_latents": "Dz",
        "n_latents": "Nz",
        "n_cross_heads": "Hc",
        "n_pixels": "Np",
        "d_input": "Di",
        "d_qk": "Dq",
        "d_value": "Dv",
        "d_cross_qk": "Cq",
        "d_cross_value": "Cv",
        "d_output_qk": "Oq",
        "d_output_value": "Ov",
        "widening": "Wf",
        "cross_widening": "Wc",
    }
    meanings = {
        "d_latents": "width of the latents",
        "n_latents": "latents",
        "n_cross_heads": "heads where the latents read",
        "n_pixels": "pixels with a learned position",
        "d_input": "width of what the latents read",
        "d_qk": "width of queries and keys",
        "d_value": "width of values",
        "widening": "width of an MLP over that of its input",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_input=self.d_model, d_qk=self.d_latents, d_output_qk=self.d_latents)
        self.derive(d_value=self.d_qk, d_output_value=self.d_output_qk)
        self.derive(d_cross_qk=self.d_input if self.cross_from_inputs else self.d_latents)
        self.derive(d_cross_value=self.d_cross_qk)
        for name, whole, count in (
            ("d_head", "d_qk", "n_heads"),
            ("d_head_value", "d_value", "n_heads"),
            ("d_cross_head", "d_cross_qk", "n_cross_heads"),
            ("d_cross_head_value", "d_cross_value", "n_cross_heads"),
        ):
            width = divide(getattr(self, whole), getattr(self, count), names=f"{whole} / {count}")
            self.derive(**{name: width})


def perceiver(c: PerceiverConfig) -> Module:
    """Perceiver IO (arXiv:2107.14795), with the tensor names of transformers `modeling_perceiver.py`."""
    latents, inputs = Axis("latents", c.d_latents), Axis("inputs", c.d_input)
    reading = layer(
        c,
        "encoder.cross_attention",
        latents,
        (Axis("cross_qk", c.d_cross_qk), Axis("cross_value", c.d_cross_value)),
        (c.n_cross_heads, c.d_cross_head, c.d_cross_head_value),
        reads=inputs,
        widening=c.cross_widening,
    )
    thinking = layer(
        c,
        "encoder.self_attends",
        latents,
        (Axis("qk", c.d_qk), Axis("value", c.d_value)),
        (c.n_heads, c.d_head, c.d_head_value),
        widening=c.widening,
    )
    model = (
        *preprocessor(c),
        Param("embeddings.latents", (Axis("latent", c.n_latents), latents), component="embedding"),
        reading,
        thinking._replace(repeat=c.n_layers),
        *decoder(c, latents),
    )
    if c.task != "masked":
        return with_heads(c, "perceiver", model)
    head = (
        Param("embedding_decoder.bias", (Axis("vocab", c.vocab_size),), component="head"),
        Op("embedding_decoder", "matmul", {"out": c.vocab_size, "in": c.d_model}, component="head"),
    )
    return with_heads(c, "perceiver", model, *head)


def layer(
    c: PerceiverConfig,
    name: str,
    width: Axis,
    inner: tuple[Axis, Axis],
    heads: tuple[Dim, Dim, Dim],
    *,
    widening: Dim,
    reads: Axis | None = None,
) -> Module:
    """Attention and an MLP; of another sequence, where it `reads` one."""
    qk, value = inner
    count, d_head, d_value = heads
    source = width if reads is None else reads
    stream = "" if reads is None else "encoder"
    norms: Children = (layer_norm("layernorm1", width),)
    if reads is not None:
        norms += (layer_norm("layernorm2", reads)._replace(stream=stream),)
    attention = Module(
        "self",
        (
            *norms,
            linear("query", qk, width, bias=True),
            linear("key", qk, source, bias=True)._replace(stream=stream),
            linear("value", value, source, bias=True)._replace(stream=stream),
            *attention_core(count, count, d_head, d_value=d_value, cross=reads is not None, cached=False),
        ),
    )
    output = linear("output.dense", value if reads is None else width, value, bias=True)
    ffn = Axis("ffn", widening * width.size)
    return Module(
        name,
        (
            Module("attention", (attention, output), component="attention"),
            layer_norm("layernorm", width),
            mlp("mlp", ffn, width, act=c.act, names=("dense1", "dense2")),
        ),
    )


def decoder(c: PerceiverConfig, latents: Axis) -> Children:
    """The queries of the answer, which read the latents."""
    if c.task == "base":
        return ()
    if c.task == "masked":
        return (Module("decoder", token_decoder(c, latents)),)
    width, outputs = latents, Axis("labels", c.n_labels)
    positions: Children = (
        Param("output_position_encodings.position_embeddings", (ONE, latents), component="position"),
    )
    if c.task == "optical_flow":
        width, outputs, positions = Axis("inputs", c.d_input), Axis("flow", 2), ()
    inner = (Axis("output_qk", c.d_output_qk), Axis("output_value", c.d_output_value))
    heads = (1, c.d_output_qk, c.d_output_value)
    attention = layer(c, "decoding_cross_attention", width, inner, heads, reads=latents, widening=1)
    final = linear("final_layer", outputs, width, bias=True, component="head")
    return (Module("decoder.decoder", (*positions, attention, final)),)


def token_decoder(c: PerceiverConfig, latents: Axis) -> Children:
    """A learned query for each token, of eight heads; the answer is compared with the embedding."""
    embed, context = Axis("embed", c.d_model), Axis("context", c.n_ctx)
    heads = (8, 32, divide(c.d_model, 8, names="d_model / 8"))
    inner = (heads_axis("heads", 8, 32), embed)
    return (
        Param("output_position_encodings.position_embeddings", (context, embed), component="position"),
        layer(c, "decoding_cross_attention", embed, inner, heads, reads=latents, widening=1),
    )


ARCHITECTURES = {"perceiver": Architecture(PerceiverConfig, perceiver)}

# Two coordinates, each with 64 sines and cosines, and themselves.
_FOURIER = 2 * 2 * 64 + 2
# What the classes for images read: the preprocessor, and the width of its rows.
_IMAGES = {
    "PerceiverForImageClassificationLearned": ("conv1x1", 2 * CONV1X1),
    "PerceiverForImageClassificationFourier": ("pixels", 3 + _FOURIER),
    "PerceiverForImageClassificationConvProcessing": ("conv", CONV + _FOURIER),
    "PerceiverForOpticalFlow": ("patches", CONV + _FOURIER),
}


def _perceiver(hf: HFConfig) -> Reading:
    if hf.task == "multimodal_autoencoding":
        raise InvalidConfig(f"{hf.name}: {hf.cls} is not known; other classes of Perceiver are")
    inputs, width = _IMAGES.get(hf.cls, ("none" if hf.task == "base" else "text", None))
    from_inputs = hf["cross_attention_shape_for_attention"] == "kv"
    flow = hf.task == "optical_flow" and not from_inputs
    return Reading(
        "perceiver",
        hf.fill(
            PerceiverConfig,
            n_latents=hf["num_latents"],
            n_layers=hf["num_self_attends_per_block"],
            n_heads=hf["num_self_attention_heads"],
            n_cross_heads=hf["num_cross_attention_heads"],
            n_pixels=hf["image_size"] ** 2 if inputs == "conv1x1" else None,
            d_input=width,
            d_qk=hf["qk_channels"],
            d_value=hf["v_channels"],
            d_cross_qk=hf["qk_channels"],
            d_cross_value=hf["v_channels"],
            d_output_qk=width if flow else None,
            d_head=None,
            widening=hf["self_attention_widening_factor"],
            cross_widening=hf["cross_attention_widening_factor"],
            cross_from_inputs=from_inputs,
            inputs=inputs,
            act=hf["hidden_act"],
        ),
    )


HF_READERS = {"perceiver": _perceiver}
