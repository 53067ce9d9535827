"""Conformers: wav2vec 2.0's and w2v-BERT's, whose blocks have a convolution between two half MLPs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.audio.wav2vec2 import (
    ONE,
    Wav2Vec2Config,
    adapter,
    feature_layers,
    positions,
    with_speech_head,
)
from sizer.architectures.audio.wav2vec2_types import wav2vec2_fields
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear
from sizer.core.tree import EACH, Axis, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class ConformerConfig(Wav2Vec2Config):
    """Sizes and switches of the blocks.

    `d_conv`: frames under a block's convolution. `n_waves`: rows of the table of relative waves,
    `n_distances` of a table of distances that each block learns, `d_rotary` of rotary positions.
    `d_input`: numbers of a frame, where there is no waveform.
    """

    d_conv: Dim
    n_waves: Dim | None = None
    n_distances: Dim | None = None
    d_input: Dim | None = None

    letters = {
        **Wav2Vec2Config.letters,
        "d_conv": "Kc",
        "n_waves": "Nw",
        "n_distances": "Nd",
        "d_input": "Di",
    }
    meanings = {
        **Wav2Vec2Config.meanings,
        "d_conv": "frames under a block's convolution",
        "n_waves": "rows of the table of relative waves",
        "n_distances": "distances with a vector of their own",
        "d_input": "numbers of a frame",
    }


def conformer(c: ConformerConfig) -> Module:
    """wav2vec 2.0 with the blocks of a conformer (arXiv:2005.08100, arXiv:2108.06209).

    Source: transformers `modeling_wav2vec2_conformer.py`, `modeling_wav2vec2_bert.py`.
    """
    embed, hears = Axis("embed", c.d_model), c.d_input is None
    frame = Axis("channels", c.channels.sizes()[-1]) if hears else Axis("input", c.d_input)
    projection = (
        layer_norm("layer_norm", frame),
        linear("projection", embed, frame, bias=True, component="embedding"),
    )
    around = (
        Module("pos_conv_embed", positions(c, embed), component="position"),
        layer_norm("layer_norm", embed),
    )
    model = (
        *((Param("masked_spec_embed", (embed,), component="embedding"),) if c.masked else ()),
        *((Module("feature_extractor", feature_layers(c)),) if hears else ()),
        Module("feature_projection", projection),
        Module("encoder", (*_waves(c, embed), *(around if hears else ()), _blocks(c, embed, hears))),
        *adapter(c, embed),
    )
    return with_speech_head(c, model, embed, frame)


def _waves(c: ConformerConfig, embed: Axis) -> Children:
    """What the encoder keeps of its positions."""
    if c.n_waves is not None and c.layout == "transformers":
        table = buffer("pe", ONE, Axis("waves", c.n_waves), embed, persistent=False)
        return (Module("embed_positions", (table,)),)
    if c.d_rotary is not None:
        # w2v-BERT leaves them out of its files.
        turns = buffer("inv_freq", Axis("rotary", c.d_rotary), persistent=c.d_input is None)
        return (Module("embed_positions", (turns,)),)
    return ()


def _blocks(c: ConformerConfig, embed: Axis, hears: bool) -> Module:
    ffn, kernel = Axis("ffn", c.d_ff), Axis("kernel", c.d_conv)

    def half_mlp(name: str) -> Children:
        parts = (
            linear("intermediate_dense", ffn, embed, bias=True),
            Op("act", c.act, {"width": ffn.size}),
            linear("output_dense", embed, ffn, bias=True),
        )
        return (layer_norm(f"{name}_layer_norm", embed), Module(name, parts, component="mlp"))

    # Where frames come one by one, a norm that sees no others stands for that of the batch.
    norm = batch_norm("batch_norm", embed) if hears else layer_norm("depthwise_layer_norm", embed)
    convolve = (
        layer_norm("layer_norm", embed),
        convolution("pointwise_conv1", 2 * embed, embed, ONE, bias=False, component="mixer"),
        convolution("depthwise_conv", embed, ONE, kernel, bias=False, component="mixer", places=EACH),
        norm,
        convolution("pointwise_conv2", embed, embed, ONE, bias=False, component="mixer"),
    )
    return Module(
        "layers",
        (
            *half_mlp("ffn1"),
            layer_norm("self_attn_layer_norm", embed),
            Module("self_attn", _attention(c, embed), component="attention"),
            Module("conv_module", convolve, component="mixer"),
            *half_mlp("ffn2"),
            layer_norm("final_layer_norm", embed),
        ),
        repeat=c.n_layers,
    )


def _attention(c: ConformerConfig, embed: Axis) -> Children:
    heads, head = heads_axis("heads", c.n_heads, c.d_head), Axis("head", c.d_head)
    relative: Children = ()
    if c.n_waves is not None:
        biases = (Param(f"pos_bias_{x}", (Axis("heads", c.n_heads), head)) for x in "uv")
        relative = (linear("linear_pos", heads, embed), *biases)
    if c.n_distances is not None:
        rows = Axis("distances", c.n_distances)
        relative = (embedding("distance_embedding", rows, head, component="position"),)
    return (
        *(linear(f"linear_{letter}", heads, embed, bias=True) for letter in "qkv"),
        *relative,
        *((Op("positions", "relative", {}),) if relative else ()),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
        linear("linear_out", embed, heads, bias=True),
    )


ARCHITECTURES = {"conformer": Architecture(ConformerConfig, conformer)}


def _positions(hf: HFConfig) -> dict[str, Any]:
    kind = hf["position_embeddings_type"]
    if kind == "relative":
        return {"n_waves": 2 * hf["max_source_positions"] - 1}
    if kind == "rotary":
        return {"d_rotary": hf["hidden_size"] // hf["num_attention_heads"] // 2}
    if kind == "relative_key":
        return {"n_distances": hf["left_max_position_embeddings"] + hf["right_max_position_embeddings"] + 1}
    return {}


def _conformer(hf: HFConfig) -> Reading:
    given = {"prefix": "wav2vec2_conformer", "d_conv": hf["conv_depthwise_kernel_size"], **_positions(hf)}
    return Reading("conformer", wav2vec2_fields(hf, **given))


def _bert(hf: HFConfig) -> Reading:
    """w2v-BERT 2.0 (arXiv:2312.05187) reads frames of a spectrogram."""
    if hf["add_adapter"] or hf["use_intermediate_ffn_before_adapter"]:
        raise InvalidConfig("add_adapter: the adapters of a wav2vec2-bert are not described")
    given = {
        "prefix": "wav2vec2_bert",
        "d_conv": hf["conv_depthwise_kernel_size"],
        "d_input": hf["feature_projection_input_dim"],
        **_positions(hf),
    }
    return Reading("conformer", wav2vec2_fields(hf, **given))


HF_READERS = {"wav2vec2-bert": _bert, "wav2vec2-conformer": _conformer}
