"""Phi-4's audio tower: a conformer, whose blocks attend, convolve, and stand between two half MLPs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import fused_gated_mlp
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import (
    LLAMA_LIKE,
    Children,
    TowerConfig,
    attention,
    convolution,
)
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, layer_norm, linear
from sizer.core.tree import EACH, Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE, THREE = Axis("one", 1), Axis("kernel", 3)


@configuration
class Phi4AudioConfig(TowerConfig):
    """Sizes of the tower.

    `d_stem`: channels of the convolutions before the blocks, which halve time `n_halvings` times
    and leave `n_stem_rows` of the `n_mels` bands. `d_conv`, `d_depthwise`, `d_pointwise`: widths in
    the convolution of a block. `n_buckets`: distances with a bias of their own for each head.
    """

    n_mels: Dim
    n_stem_rows: Dim
    d_stem: Dim
    d_conv: Dim
    d_depthwise: Dim
    d_pointwise: Dim
    kernel_size: Dim
    n_buckets: Dim
    n_halvings: int = 3

    letters = {
        "n_mels": "Nm",
        "n_stem_rows": "Ns",
        "d_stem": "Ds",
        "d_conv": "Dc",
        "d_depthwise": "Dd",
        "d_pointwise": "Dp",
        "kernel_size": "Kc",
        "n_buckets": "Nb",
    }
    meanings = {
        "n_mels": "mel bands of the spectrogram",
        "n_stem_rows": "bands of frequency that the convolutions leave",
        "d_stem": "channels of the convolutions before the blocks",
        "d_conv": "width of the gate before a block's convolution",
        "d_depthwise": "channels of a block's convolution",
        "d_pointwise": "width after it",
        "kernel_size": "frames under a block's convolution",
        "n_buckets": "distances with a bias of their own",
    }


def phi4_audio(c: Phi4AudioConfig) -> Module:
    """Phi-4's conformer (arXiv:2503.01743), with the names of `Phi4MultimodalAudioModel`.

    Source: transformers `modeling_phi4_multimodal.py`.
    """
    embed, mels = Axis("embed", c.d_model), Axis("mels", c.n_mels)
    ffn = Axis("ffn", c.d_ff)

    def half_mlp(name: str) -> Module:
        names = ("gate_up_proj", "down_proj")
        mlp = fused_gated_mlp(name, ffn, embed, bias=True, act=c.act, names=names)
        return mlp._replace(children=(layer_norm("layer_norm", embed), *mlp.children))

    block = Module(
        "encoders",
        (
            half_mlp("feed_forward_in"),
            layer_norm("layer_norm_att", embed),
            attention(c),
            Module("conv", _convolve(c, embed), component="mixer"),
            half_mlp("feed_forward_out"),
            layer_norm("layer_norm", embed),
        ),
        repeat=c.n_layers,
    )
    statistics = (buffer("global_mean", mels), buffer("global_invstd", mels))
    biases = embedding(
        "relative_attention_bias_layer.bias_values",
        Axis("buckets", c.n_buckets),
        Axis("heads", c.n_heads),
        component="position",
    )
    return Module("", (Module("encoder_embedding", statistics), _stem(c, embed), biases, block))


def _stem(c: Phi4AudioConfig, embed: Axis) -> Module:
    stem, square = Axis("stem", c.d_stem), (THREE, THREE)
    halvings: Children = ()
    for i in range(2, 3 * c.n_halvings - 1, 3):
        halvings = (
            *halvings,
            convolution(f"conv.{i}", stem, ONE, *square),
            convolution(f"conv.{i + 1}", stem, stem, ONE, ONE, act="relu"),
        )
    out = linear("out", embed, Axis("stem", c.d_stem * c.n_stem_rows), bias=True, component="embedding")
    return Module("embed", (convolution("conv.0", stem, ONE, *square, act="relu"), *halvings, out))


def _convolve(c: Phi4AudioConfig, embed: Axis) -> Children:
    """A gate, a convolution of each channel over time, and two matrices."""
    gate, depthwise = Axis("conv", c.d_conv), Axis("depthwise", c.d_depthwise)
    pointwise, kernel = Axis("pointwise", c.d_pointwise), Axis("kernel", c.kernel_size)
    return (
        layer_norm("layer_norm", embed),
        Module(
            "glu",
            (
                convolution("ext_pw_conv_1d", 2 * gate, embed, ONE, component="mixer"),
                Param("b1", (ONE, gate, ONE)),
                Param("b2", (ONE, gate, ONE)),
            ),
        ),
        convolution("dw_sep_conv_1d.dw_conv", depthwise, ONE, kernel, component="mixer", places=EACH),
        convolution("dw_sep_conv_1d.pw_conv", pointwise, depthwise, ONE, component="mixer"),
        convolution("ext_pw_conv_1d", gate, embed, ONE, component="mixer"),
    )


ARCHITECTURES = {"phi4_audio": Architecture(Phi4AudioConfig, phi4_audio)}


def _phi4_audio(hf: HFConfig) -> Reading:
    rows, halvings = whole(hf, "input_size"), whole(hf, "time_reduction").bit_length() - 1
    for _ in range(halvings):
        rows = -(-rows // 2)
    far = whole(hf, "bias_max_distance")
    given = {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_blocks"],
        "n_heads": hf["num_attention_heads"],
        "d_ff": hf["intermediate_size"],
        "act": hf["activation"],
        "n_mels": hf["input_size"],
        "n_stem_rows": hf.in_file("nemo_final_size", rows),
        "d_stem": hf["nemo_conv_channels"],
        "d_conv": hf["ext_pw_out_channel"],
        "d_depthwise": whole(hf, "hidden_size") * whole(hf, "depthwise_multiplier"),
        "d_pointwise": hf["depthwise_separable_out_channel"],
        "kernel_size": hf["kernel_size"],
        "n_buckets": far if hf["bias_symmetric"] else 2 * far,
        "n_halvings": halvings,
        "module_names": LLAMA_LIKE,
    }
    return Reading("phi4_audio", given)


HF_READERS = {"phi4_multimodal_audio": _phi4_audio}
