"""Mimi: a SEANet whose halves have a transformer each, and codebooks of sense beside those of sound."""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING

from sizer.architectures.audio.parts import ONE, transposed
from sizer.architectures.audio.seanet import (
    SeanetConfig,
    counters,
    decoder,
    encoder,
    listed,
    seanet_fields,
)
from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import stored_names
from sizer.architectures.tower import (
    LLAMA_LIKE,
    Children,
    TowerConfig,
    TowerNames,
    blocks,
    convolution,
    rotary,
)
from sizer.core.config import check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import buffer
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = LLAMA_LIKE._replace(
    mlp=("mlp", "fc1", "fc2"), scales=("self_attn_layer_scale.scale", "mlp_layer_scale.scale")
)
# Of a configuration that has none.
RATIOS = (8, 6, 5, 4)
# Files name the parts of both halves side by side.
STORED = (
    (r"^(encoder|decoder)\.((?:en|de)coder_transformer|downsample|upsample)\.", r"\2."),
    (r"^(?:encoder\.|decoder\.)?(encoder|decoder)_seanet\.", r"\1."),
)


@configuration
class MimiConfig(SeanetConfig, TowerConfig):
    """Sizes of a Mimi, of whose codebooks `n_semantic` stand apart.

    `d_quantizer`: width of what is quantized, where that is not `d_model`. `stride`: frames that become
    one between encoder and codebooks, where any do. `n_groups`: of the convolution that undoes it.
    `halves`: "encoder", "decoder", or both with the codebooks between them.
    """

    n_semantic: Dim
    d_quantizer: Dim | None = None
    stride: Dim | None = None
    n_groups: Dim = 1
    d_group: Dim | None = None
    halves: tuple[str, ...] = ("encoder", "decoder")
    whole: bool = True
    task: str = "base"
    mlp_bias: bool = False
    module_names: TowerNames = NAMES

    letters = {
        **TowerConfig.letters,
        **SeanetConfig.letters,
        "n_semantic": "Ns",
        "d_quantizer": "Dz",
        "stride": "Sl",
        "n_groups": "G",
        "d_group": "Dg",
    }
    meanings = {
        **TowerConfig.meanings,
        **SeanetConfig.meanings,
        "n_codebooks": "codebooks of sound",
        "n_semantic": "codebooks of sense",
        "d_quantizer": "width of what is quantized",
        "stride": "frames of which one is quantized",
        "n_groups": "groups of the convolution that makes them again",
        "d_group": "channels of a group",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_kv_heads=self.n_heads)
        self.derive_quotient("d_head", "d_model", "n_heads")
        if "decoder" in self.halves:
            self.derive(d_group=divide(self.d_model, self.n_groups, names="d_model / n_groups"))


def mimi(c: MimiConfig) -> Module:
    """Mimi (Défossez et al. 2024), with the names of `MimiModel`. Source: transformers `modeling_mimi.py`."""
    parts: Children = ()
    for half, children in (("encoder", _encoder(c)), ("decoder", _decoder(c))):
        if half in c.halves:
            parts = (*parts, Module(half if c.whole else "", children))
    if c.whole:
        books = (
            Module("semantic_residual_vector_quantizer", _quantizer(c, c.n_semantic)),
            Module("acoustic_residual_vector_quantizer", _quantizer(c, c.n_codebooks)),
        )
        parts = (*parts, Module("quantizer", books))
    tree = Module("", parts, component="other")
    return stored_names(tree, STORED) if c.layout == "checkpoint" else tree


def _encoder(c: MimiConfig) -> Children:
    embed = Axis("embed", c.d_model)
    last: Children = ()
    if c.stride is not None:
        conv = convolution("conv", embed, embed, Axis("kernel", 2 * c.stride), bias=False, component="other")
        last = (Module("downsample", (conv, *counters(c.layout))),)
    return (Module("encoder_seanet", encoder(c)), Module("encoder_transformer", _transformer(c)), *last)


def _decoder(c: MimiConfig) -> Children:
    first: Children = ()
    if c.stride is not None:
        frames = Axis("kernel", 2 * c.stride)
        conv = transposed("conv", Axis("group", c.d_group), Axis("embed", c.d_model), frames, bias=False)
        first = (Module("upsample", (conv,)),)
    return (*first, Module("decoder_transformer", _transformer(c)), Module("decoder_seanet", decoder(c)))


def _transformer(c: MimiConfig) -> Children:
    return (blocks(c), *rotary(c))


def _quantizer(c: MimiConfig, n_codebooks: Dim) -> Children:
    size, width, embed = Axis("codes", c.codebook_size), Axis("code", c.d_code), Axis("embed", c.d_model)
    fits: Children = ()
    if c.d_quantizer is not None:
        narrow = Axis("quantizer", c.d_quantizer)
        fits = (
            convolution("input_proj", narrow, embed, ONE, bias=False, component="other"),
            convolution("output_proj", embed, narrow, ONE, bias=False, component="other"),
        )
    book = (buffer("initialized", ONE), buffer("cluster_usage", size), buffer("embed_sum", size, width))
    return (*fits, Module("layers", (Module("codebook", book),), repeat=n_codebooks))


ARCHITECTURES = {"mimi": Architecture(MimiConfig, mimi)}


def _mimi(hf: HFConfig) -> Reading:
    all_of_them, semantic = whole(hf, "num_quantizers"), whole(hf, "num_semantic_quantizers")
    if semantic >= all_of_them:
        raise InvalidConfig(f"num_semantic_quantizers = {semantic} is not less than num_quantizers")
    halves: tuple[str, ...] = ("encoder", "decoder")
    alone = hf.model_type.removeprefix("mimi_")
    if alone in halves:
        halves = (alone,)
    else:
        # A half that is not wanted is null in the file.
        halves = tuple(half for half in halves if hf.in_file(f"{half}_config", {}) is not None)
    quantized, d_head = whole(hf, "vector_quantization_hidden_dimension"), hf["head_dim"]
    given = {
        "n_semantic": semantic,
        "n_codebooks": all_of_them - semantic,
        "d_quantizer": None if quantized == hf["hidden_size"] else quantized,
        "stride": _stride(hf),
        "n_groups": hf["upsample_groups"],
        "halves": halves,
        "whole": alone == "mimi",
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "n_kv_heads": hf["num_key_value_heads"],
        "d_head": d_head,
        "d_rotary": d_head or whole(hf, "hidden_size") // whole(hf, "num_attention_heads"),
        "d_ff": hf["intermediate_size"],
        "window": hf["sliding_window"],
        "bias": "qkvo" if hf["attention_bias"] else "",
        "act": hf["hidden_act"],
    }
    return Reading("mimi", seanet_fields(hf, _ratios(hf), **given))


def _ratios(hf: HFConfig) -> tuple[int, ...]:
    return listed(hf, "upsampling_ratios") if hf["upsampling_ratios"] else RATIOS


def _stride(hf: HFConfig) -> int | None:
    """How many frames of the SEANet become one, which the rates of both say."""
    ratios, rate = _ratios(hf), hf.in_file("frame_rate", hf.in_file("_frame_rate"))
    frames = ceil(whole(hf, "sampling_rate") / prod(ratios))
    if rate is None:
        rate = whole(hf, "sampling_rate") / (2 * prod(ratios))
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= frames:
        raise InvalidConfig(f"frame_rate = {clip(repr(rate))} is not a number up to {frames}")
    return None if rate == frames else int(frames / rate)


HF_READERS = {"mimi": _mimi, "mimi_decoder": _mimi, "mimi_encoder": _mimi}
