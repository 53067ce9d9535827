"""SeamlessM4T's encoder of speech: a wav2vec-BERT conformer, and an adapter that shortens what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.registry import Architecture
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


@configuration
class SpeechEncoderConfig(Config):
    """Sizes and switches of the encoder.

    `positions`: "relative" (Transformer-XL's), "relative_key" (a vector for each distance),
    "rotary" or "none". `depthwise_norm`: what follows a block's convolution, "batch" or "layer".
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    d_input: Dim
    kernel_size: Dim
    n_adapter_layers: Dim | None = None
    adapter_kernel: Dim | None = None
    n_position_rows: Dim | None = None
    d_head: Dim | None = None
    positions: str = "relative"
    depthwise_norm: str = "batch"
    act: str = "swish"
    task: str = "base"

    letters = {
        "d_input": "Di",
        "kernel_size": "Kc",
        "n_adapter_layers": "La",
        "adapter_kernel": "Ka",
        "n_position_rows": "Np",
    }
    meanings = {
        "d_input": "numbers of a frame of sound",
        "kernel_size": "frames under a block's convolution",
        "n_adapter_layers": "blocks of the adapter",
        "adapter_kernel": "frames under the adapter's convolutions",
        "n_position_rows": "rows of the table of distances",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def speech_encoder(c: SpeechEncoderConfig) -> Module:
    """The encoder, with the names of `SeamlessM4TSpeechEncoder`.

    Source: transformers `modeling_seamless_m4t.py`, `modeling_seamless_m4t_v2.py`.
    """
    embed, sound = Axis("embed", c.d_model), Axis("sound", c.d_input)
    block = Module(
        "layers",
        (
            layer_norm("ffn1_layer_norm", embed),
            _mlp(c, "ffn1", embed),
            layer_norm("self_attn_layer_norm", embed),
            Module("self_attn", _attention(c, embed, positions=True), component="attention"),
            Module("conv_module", _convolve(c, embed), component="mixer"),
            layer_norm("ffn2_layer_norm", embed),
            _mlp(c, "ffn2", embed),
            layer_norm("final_layer_norm", embed),
        ),
        repeat=c.n_layers,
    )
    projection = (
        layer_norm("layer_norm", sound),
        linear("projection", embed, sound, bias=True, component="embedding"),
    )
    return Module(
        "",
        (
            Module("feature_projection", projection),
            Module("encoder", (*_tables(c, embed), block, layer_norm("layer_norm", embed))),
            _mlp(c, "intermediate_ffn", embed),
            *_adapter(c, embed),
            layer_norm("inner_layer_norm", embed),
        ),
    )


def _tables(c: SpeechEncoderConfig, embed: Axis) -> Children:
    if c.positions == "rotary":
        half = Axis("rotary", divide(c.d_head, 2, names="d_head / 2"))
        return (Module("embed_positions", (buffer("inv_freq", half),)),)
    if c.n_position_rows is None or c.positions != "relative" or c.layout == "checkpoint":
        return ()
    rows = Axis("distances", 2 * c.n_position_rows - 1)
    return (Module("embed_positions", (buffer("pe", ONE, rows, embed, persistent=False),)),)


def _mlp(c: SpeechEncoderConfig, name: str, embed: Axis) -> Module:
    return mlp(name, Axis("ffn", c.d_ff), embed, act=c.act, names=("intermediate_dense", "output_dense"))


def _attention(c: SpeechEncoderConfig, embed: Axis, *, positions: bool) -> Children:
    heads, each = heads_axis("heads", c.n_heads, c.d_head), Axis("heads", c.n_heads)
    head = Axis("head", c.d_head)
    extra: Children = ()
    if positions and c.positions == "relative":
        biases = (Param("pos_bias_u", (each, head)), Param("pos_bias_v", (each, head)))
        extra = (linear("linear_pos", heads, embed), *biases)
    elif positions and c.positions == "relative_key":
        rows = Axis("distances", c.n_position_rows)
        extra = (embedding("distance_embedding", rows, head, component="position"),)
    return (
        *(linear(f"linear_{name}", heads, embed, bias=True) for name in "qkv"),
        *extra,
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
        linear("linear_out", embed, heads, bias=True),
    )


def _convolve(c: SpeechEncoderConfig, embed: Axis) -> Children:
    kernel = Axis("kernel", c.kernel_size)
    batched = c.depthwise_norm == "batch"
    return (
        layer_norm("layer_norm", embed),
        convolution("pointwise_conv1", 2 * embed, embed, ONE, bias=False, component="mixer"),
        convolution("depthwise_conv", embed, ONE, kernel, bias=False, component="mixer"),
        batch_norm("batch_norm", embed) if batched else layer_norm("depthwise_layer_norm", embed),
        convolution("pointwise_conv2", embed, embed, ONE, bias=False, component="mixer"),
    )


def _adapter(c: SpeechEncoderConfig, embed: Axis) -> Children:
    """Blocks that shorten both what they add to and what they attend to."""
    if c.n_adapter_layers is None:
        return ()
    kernel = Axis("kernel", c.adapter_kernel)
    layers = (
        layer_norm("residual_layer_norm", embed),
        convolution("residual_conv", 2 * embed, embed, kernel, component="mixer"),
        layer_norm("self_attn_layer_norm", embed),
        convolution("self_attn_conv", 2 * embed, embed, kernel, component="mixer"),
        Module("self_attn", _attention(c, embed, positions=False), component="attention"),
        layer_norm("ffn_layer_norm", embed),
        _mlp(c, "ffn", embed),
    )
    return (Module("adapter.layers", layers, repeat=c.n_adapter_layers),)


ARCHITECTURES = {"seamless_speech": Architecture(SpeechEncoderConfig, speech_encoder)}


def speech_fields(hf: HFConfig) -> dict[str, Any]:
    """The encoder's fields in the configuration of a SeamlessM4T, of either version."""
    second, positions = hf.model_type == "seamless_m4t_v2", hf["position_embeddings_type"]
    known = ("relative_key",) if second else ("relative", "rotary")
    rows = None
    if positions == "relative" and not second:
        rows = hf["max_source_positions"]
    elif positions == "relative_key" and second:
        rows = hf["left_max_position_embeddings"] + hf["right_max_position_embeddings"] + 1
    return {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": hf["speech_encoder_layers"],
        "n_heads": hf["speech_encoder_attention_heads"],
        "d_ff": hf["speech_encoder_intermediate_size"],
        "d_input": hf["feature_projection_input_dim"],
        "kernel_size": hf["conv_depthwise_kernel_size"],
        "n_adapter_layers": hf["num_adapter_layers"] if hf["add_adapter"] else None,
        "adapter_kernel": hf["adaptor_kernel_size"] if hf["add_adapter"] else None,
        "n_position_rows": rows,
        "positions": positions if positions in known else "none",
        "depthwise_norm": "layer" if second else "batch",
        "act": hf["speech_encoder_hidden_act"],
    }
