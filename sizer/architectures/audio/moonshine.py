"""Moonshine's encoders: of a whole waveform, and of one that is still being heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import (
    LLAMA_LIKE,
    Children,
    TowerConfig,
    TowerNames,
    blocks,
    convolution,
    norm,
    rotary,
)
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear, renamed
from sizer.core.tree import Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
# Samples under each convolution over a waveform that is heard whole.
KERNELS = (127, 7, 3)
# Frames under each of the two over one that is still being heard.
FRAMES_KERNEL = 5
NAMES = LLAMA_LIKE._replace(mlp=("mlp", "fc1", "fc2"))


@configuration
class MoonshineEncoderConfig(TowerConfig):
    """Sizes of an encoder. `d_frame`: samples of a frame, where sound is heard frame by frame."""

    d_frame: Dim | None = None
    norm: str = "plain"
    module_names: TowerNames = NAMES

    letters = {**TowerConfig.letters, "d_frame": "Nf"}
    meanings = {**TowerConfig.meanings, "d_frame": "samples of a frame"}


def encoder(c: MoonshineEncoderConfig) -> Module:
    """The encoder (arXiv:2410.15608), with the names of `MoonshineEncoder`, or of the streaming one.

    Source: transformers `modeling_moonshine.py`, `modeling_moonshine_streaming.py`.
    """
    embed = Axis("embed", c.d_model)
    if c.d_frame is None:
        return Module("", (*_waveform(embed), blocks(c), norm(c, "layer_norm", embed), *rotary(c)))
    hears = Module("embedder", _frames(embed, Axis("frame", c.d_frame)), component="embedding")
    return _gamma(Module("", (hears, blocks(c), norm(c, "final_norm", embed))))


def _waveform(embed: Axis) -> Children:
    first, second, third = (Axis("kernel", size) for size in KERNELS)
    return (
        convolution("conv1", embed, ONE, first, bias=False, act="tanh"),
        layer_norm("groupnorm", embed)._replace(kind="group_norm"),
        convolution("conv2", 2 * embed, embed, second, act="gelu"),
        convolution("conv3", embed, 2 * embed, third, act="gelu"),
    )


def _frames(embed: Axis, frame: Axis) -> Children:
    kernel = Axis("kernel", FRAMES_KERNEL)
    return (
        Module("comp", (Param("log_k", ()),)),
        linear("linear", embed, frame),
        convolution("conv1", 2 * embed, embed, kernel, act="silu"),
        convolution("conv2", embed, 2 * embed, kernel),
    )


def _gamma(module: Module) -> Module:
    """The same tree, whose norms call their factors gamma."""
    if module.kind == "layer_norm":
        return renamed(module, {"weight": "gamma"})
    children = tuple(_gamma(child) if isinstance(child, Module) else child for child in module.children)
    return module._replace(children=children)


ARCHITECTURES = {"moonshine_encoder": Architecture(MoonshineEncoderConfig, encoder)}


def _streaming(hf: HFConfig) -> Reading:
    given = hf.fill(
        MoonshineEncoderConfig,
        task="base",
        d_head=hf["head_dim"] or whole(hf, "hidden_size") // whole(hf, "num_attention_heads"),
        d_frame=round(hf["sample_rate"] * hf["frame_ms"] / 1000),
        d_rotary=None,
        window=None,
        bias="qkvo" if hf["attention_bias"] else "",
        act=hf["hidden_act"],
    )
    return Reading("moonshine_encoder", given)


HF_READERS = {"moonshine_streaming_encoder": _streaming}
