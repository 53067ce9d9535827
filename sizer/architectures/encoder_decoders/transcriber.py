"""A decoder that writes down what an encoder of sound has heard: Moonshine, Canary, Cohere Transcribe."""

from __future__ import annotations

from sizer.architectures.decoders.decoder import fused_gated_mlp, rotary_buffers
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture
from sizer.architectures.stored import Rules, stored_names
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, heads_axis


@configuration
class TranscriberConfig(Config):
    """The encoder, and the sizes and switches of the decoder.

    `d_source`: width of the encoder, where a matrix brings it to that of the decoder, or its frames
    have positions. `positions`: "rotary"; "frames", rotary and a table for the encoder's frames;
    "learned"; or "waves". `projection`: the matrix that fits the widths, "plain" or "biased".
    """

    encoder: Part
    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    d_source: Dim | None = None
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    d_rotary: Dim | None = None
    n_ctx: Dim | None = None
    bias: bool = True
    output_bias: bool = True
    norm_bias: bool = True
    gated: bool = False
    embedding_norm: bool = False
    head_bias: bool = False
    positions: str = "learned"
    projection: str = ""
    act: str = "gelu"
    tie_embeddings: bool = True
    stored: Rules = ()
    task: str = "seq2seq"

    # The width of the encoder is that of the part, and so is its letter.
    letters = {"encoder": "enc", "d_source": "D_enc", "d_rotary": "Dr"}
    meanings = {"d_source": "width of the encoder", "d_rotary": "width of the rotary part of a head"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_kv_heads=self.n_heads)
        self.derive_quotient("d_head", "d_model", "n_heads")


def transcriber(c: TranscriberConfig) -> Module:
    """The encoder and the decoder, under the names of the layout.

    Source: transformers `modeling_moonshine.py`, `modeling_canary.py`, `modeling_cohere_asr.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    inside = "" if c.task == "base" else "model"
    model = (
        c.encoder.module("encoder", layout=c.layout, inside=inside, stream="encoder"),
        Module("decoder", _decoder(c, embed, vocab)),
    )
    if c.task == "base":
        return _named(c, Module("", model))
    tied_to = "model.decoder.embed_tokens.weight" if c.tie_embeddings else None
    head = linear("proj_out", vocab, embed, bias=c.head_bias, tied_to=tied_to, component="head")
    return _named(c, Module("", (Module("model", model), head)))


def _named(c: TranscriberConfig, tree: Module) -> Module:
    return stored_names(tree, c.stored) if c.layout == "checkpoint" else tree


def _decoder(c: TranscriberConfig, embed: Axis, vocab: Axis) -> tuple[Module, ...]:
    above = (layer_norm("embedding_layernorm", embed),) if c.embedding_norm else ()
    return (
        embedding("embed_tokens", vocab, embed),
        *_positions(c, embed),
        *above,
        *_projection(c, embed),
        Module("layers", _block(c, embed), repeat=c.n_layers),
        layer_norm("norm", embed, bias=c.norm_bias),
    )


def _positions(c: TranscriberConfig, embed: Axis) -> tuple[Module, ...]:
    rotary = rotary_buffers(c.d_head if c.d_rotary is None else c.d_rotary, layout=c.layout)
    if c.positions == "rotary":
        return rotary
    rows = Axis("context", c.n_ctx)
    if c.positions == "frames":
        table = embedding("pos_emb", rows, Axis("source", c.d_source), component="position")
        return (table._replace(stream="encoder"), *rotary)
    if c.positions == "learned":
        return (embedding("pos_emb", rows, embed, component="position"),)
    waves = buffer("positional_embedding", rows, embed, persistent=False, component="position")
    return (Module("pos_emb", (waves,)),) if c.layout == "transformers" else ()


def _projection(c: TranscriberConfig, embed: Axis) -> tuple[Module, ...]:
    if not c.projection:
        return ()
    fits = linear("proj", embed, Axis("source", c.d_source), bias=c.projection == "biased", component="other")
    return (fits._replace(stream="encoder"),)


def _block(c: TranscriberConfig, embed: Axis) -> tuple[Module, ...]:
    ffn, names = Axis("ffn", c.d_ff), ("fc1", "fc2")
    if c.gated:
        feed_forward = fused_gated_mlp("mlp", ffn, embed, bias=True, act=c.act, names=names)
    else:
        feed_forward = mlp("mlp", ffn, embed, act=c.act, names=names)
    return (
        layer_norm("input_layernorm", embed, bias=c.norm_bias),
        _attention("self_attn", c, embed),
        layer_norm("post_attention_layernorm", embed, bias=c.norm_bias),
        _attention("encoder_attn", c, embed, cross=True),
        layer_norm("final_layernorm", embed, bias=c.norm_bias),
        feed_forward,
    )


def _attention(name: str, c: TranscriberConfig, embed: Axis, *, cross: bool = False) -> Module:
    heads, kv_heads = heads_axis("heads", c.n_heads, c.d_head), heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    stream = "encoder" if cross else ""
    return Module(
        name,
        (
            linear("q_proj", heads, embed, bias=c.bias),
            linear("k_proj", kv_heads, embed, bias=c.bias)._replace(stream=stream),
            linear("v_proj", kv_heads, embed, bias=c.bias)._replace(stream=stream),
            *attention_core(c.n_heads, c.n_kv_heads, c.d_head, cross=cross),
            linear("o_proj", embed, heads, bias=c.output_bias),
        ),
        component="attention",
    )


ARCHITECTURES = {"transcriber": Architecture(TranscriberConfig, transcriber)}
