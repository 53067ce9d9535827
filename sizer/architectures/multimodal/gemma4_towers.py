"""Gemma 4's towers for images and sound; the linears of either may clip what they read and give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import head_width, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import (
    LLAMA_LIKE,
    Children,
    TowerConfig,
    blocks,
    convolution,
    rotary,
)
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, buffer, layer_norm, linear, rms_norm
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
QKVO = ("q_proj", "k_proj", "v_proj", "o_proj")
GATED = ("gate_proj", "up_proj", "down_proj")
NAMES = LLAMA_LIKE._replace(
    block="encoder.layers",
    qkv=tuple(f"{name}.linear" for name in QKVO[:3]),
    output="o_proj.linear",
    mlp=("mlp", *(f"{name}.linear" for name in GATED)),
    norms=(
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    ),
    rotary="encoder.rotary_emb",
)


@configuration
class Gemma4VisionConfig(TowerConfig):
    """Sizes of the vision tower. `n_positions`: rows for each of the two axes. `clipped`: see above."""

    n_pixels: Dim
    n_positions: Dim
    clipped: bool = False
    standardize: bool = False

    letters = {**TowerConfig.letters, "n_pixels": "Npx", "n_positions": "Np"}
    meanings = {
        **TowerConfig.meanings,
        "n_pixels": "numbers in a patch",
        "n_positions": "positions along an axis",
    }


@configuration
class Gemma4AudioConfig(Config):
    """Sizes of the audio tower. `d_stem`, `d_stem_out`: channels of the two convolutions before it."""

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_stem: Dim
    d_stem_out: Dim
    d_joined: Dim
    d_out: Dim
    kernel_size: Dim
    window: Dim | None = None
    d_head: Dim | None = None
    clipped: bool = True
    act: str = "silu"
    task: str = "base"

    letters = {
        "d_stem": "Ds",
        "d_stem_out": "Dt",
        "d_joined": "Dj",
        "d_out": "Do",
        "kernel_size": "Kc",
    }
    meanings = {
        "d_stem": "channels of the first convolution",
        "d_stem_out": "channels of the second convolution",
        "d_joined": "numbers of a frame after them",
        "d_out": "width that the tower gives",
        "kernel_size": "frames under a block's convolution",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def vision(c: Gemma4VisionConfig) -> Module:
    """The vision tower, with the names of `Gemma4VisionModel`. Source: transformers `modeling_gemma4.py`."""
    embed, pixels, two = Axis("embed", c.d_model), Axis("pixels", c.n_pixels), Axis("axes", 2)
    table = Param(
        "position_embedding_table", (two, Axis("positions", c.n_positions), embed), component="position"
    )
    patches = (linear("input_proj", embed, pixels, component="embedding"), table)
    in_mlp = tuple(Module(f"mlp.{name}", _limits(c.clipped)) for name in GATED)
    in_attention = tuple(Module(name, _limits(c.clipped)) for name in QKVO)
    standard = (buffer("std_bias", embed), buffer("std_scale", embed)) if c.standardize else ()
    return Module(
        "",
        (
            Module("patch_embedder", patches),
            *rotary(c),
            blocks(c, *in_mlp, in_attention=in_attention),
            *standard,
        ),
    )


def _limits(clipped: bool) -> Children:
    """The least and the most that a linear reads and gives, saved with it."""
    if not clipped:
        return ()
    return tuple(buffer(f"{what}_{end}") for what in ("input", "output") for end in ("min", "max"))


def _clipped(name: str, out: Axis, inp: Axis, c: Gemma4AudioConfig) -> Module:
    return Module(name, (linear("linear", out, inp), *_limits(c.clipped)))


def audio(c: Gemma4AudioConfig) -> Module:
    """The audio tower, a conformer, with the names of `Gemma4AudioModel`."""
    embed, ffn = Axis("embed", c.d_model), Axis("ffn", 4 * c.d_model)

    def half_mlp(name: str) -> Module:
        return Module(
            name,
            (
                rms_norm("pre_layer_norm", embed),
                _clipped("ffw_layer_1", ffn, embed, c),
                Op("act", c.act, {"width": ffn.size}),
                _clipped("ffw_layer_2", embed, ffn, c),
                rms_norm("post_layer_norm", embed),
            ),
            component="mlp",
        )

    block = Module(
        "layers",
        (
            half_mlp("feed_forward1"),
            rms_norm("norm_pre_attn", embed),
            Module("self_attn", _audio_attention(c, embed), component="attention"),
            rms_norm("norm_post_attn", embed),
            Module("lconv1d", _light_convolution(c, embed), component="mixer"),
            half_mlp("feed_forward2"),
            rms_norm("norm_out", embed),
        ),
        repeat=c.n_layers,
    )
    out = linear("output_proj", Axis("out", c.d_out), embed, bias=True, component="other")
    half = Axis("rotary", divide(c.d_model, 2, names="d_model / 2"))
    scales: tuple[Module, ...] = ()
    if c.layout == "transformers":
        scales = (Module("rel_pos_enc", (buffer("inv_timescales", ONE, ONE, half, persistent=False),)),)
    return Module("", (Module("subsample_conv_projection", _stem(c, embed)), *scales, block, out))


def _stem(c: Gemma4AudioConfig, embed: Axis) -> Children:
    stem, out, three = Axis("stem", c.d_stem), Axis("stem", c.d_stem_out), Axis("kernel", 3)
    return (
        convolution("layer0.conv", stem, ONE, three, three, bias=False, act="relu"),
        layer_norm("layer0.norm", stem, bias=False),
        convolution("layer1.conv", out, stem, three, three, bias=False, act="relu"),
        layer_norm("layer1.norm", out, bias=False),
        linear("input_proj_linear", embed, Axis("stem", c.d_joined), component="embedding"),
    )


def _audio_attention(c: Gemma4AudioConfig, embed: Axis) -> Children:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    cap = (buffer("softcap", persistent=False),) if c.layout == "transformers" else ()
    return (
        *(_clipped(name, heads, embed, c) for name in QKVO[:3]),
        linear("relative_k_proj", heads, embed),
        Param("per_dim_scale", (Axis("head", c.d_head),)),
        *cap,
        *attention_core(c.n_heads, c.n_heads, c.d_head, window=c.window, cached=False),
        _clipped("post", embed, embed, c),
    )


def _light_convolution(c: Gemma4AudioConfig, embed: Axis) -> Children:
    kernel = Axis("kernel", c.kernel_size)
    return (
        rms_norm("pre_layer_norm", embed),
        _clipped("linear_start", 2 * embed, embed, c),
        convolution("depthwise_conv1d", embed, ONE, kernel, bias=False, component="mixer"),
        rms_norm("conv_norm", embed),
        Op("act", c.act, {"width": embed.size}),
        _clipped("linear_end", embed, embed, c),
    )


ARCHITECTURES = {
    "gemma4_audio": Architecture(Gemma4AudioConfig, audio),
    "gemma4_vision": Architecture(Gemma4VisionConfig, vision),
}


def _vision(hf: HFConfig) -> Reading:
    axis = head_width(hf) // 2
    given = {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "n_kv_heads": hf["num_key_value_heads"],
        "d_head": hf["head_dim"],
        "d_ff": hf["intermediate_size"],
        "d_rotary": axis + axis % 2,
        "n_pixels": 3 * whole(hf, "patch_size") ** 2,
        "n_positions": hf["position_embedding_size"],
        "bias": "",
        "mlp_bias": False,
        "down_bias": False,
        "gated": True,
        "norm": "rms",
        "qk_norm": "head",
        "act": hf["hidden_activation"],
        "clipped": bool(hf["use_clipped_linears"]),
        "standardize": bool(hf["standardize"]),
        "module_names": NAMES,
    }
    return Reading("gemma4_vision", given)


def _audio(hf: HFConfig) -> Reading:
    first, second = hf["subsampling_conv_channels"]
    reach = hf["attention_chunk_size"] + hf["attention_context_left"] - 1 + hf["attention_context_right"]
    given = {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "d_stem": first,
        "d_stem_out": second,
        # The reference counts a quarter of the first channels, whatever the number of mel bands.
        "d_joined": first // 4 * second,
        "d_out": hf["output_proj_dims"],
        "kernel_size": hf["conv_kernel_size"],
        "window": reach,
        "clipped": bool(hf["use_clipped_linears"]),
        "act": hf["hidden_act"],
    }
    return Reading("gemma4_audio", given)


HF_READERS = {"gemma4_audio": _audio, "gemma4_vision": _vision}
