"""Muse Spark: Muse Glimmer's tower, and convolutions over the waveform."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.multimodal.muse import read_muse
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear, mlp, rms_norm
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


@configuration
class MuseAudioConfig(Config):
    """Sizes of the stages: `patches` are the steps that each joins into one."""

    widths: PerLayer
    depths: PerLayer
    patches: PerLayer
    ffns: PerLayer
    kernel: Dim
    d_out: Dim
    act: str = "gelu"
    task: str = "base"

    letters = {"widths": "C", "depths": "L", "patches": "P", "ffns": "F", "kernel": "K", "d_out": "Do"}
    meanings = {"kernel": "steps under a convolution", "d_out": "width that the text is given"}

    def __post_init__(self) -> None:
        check_sizes(self)


def muse_audio(c: MuseAudioConfig) -> Module:
    """The tower, with the names of `MuseSparkAudioModel`. Source: transformers `modeling_muse_spark.py`."""
    widths = [Axis("channels", width) for width in c.widths.sizes()]
    inputs = [ONE, *widths[:-1]]
    kernel, out = Axis("kernel", c.kernel), Axis("out", c.d_out)
    stages = []
    for i, (width, depth) in enumerate(zip(widths, c.depths.sizes(), strict=True)):
        joined = Axis("joined", inputs[i].size * c.patches.sizes()[i])
        embedder = (
            linear("proj", width, joined, bias=True, component="embedding"),
            rms_norm("norm", width),
        )
        block = (
            convolution("conv", width, ONE, kernel, component="mixer"),
            rms_norm("norm", width),
            mlp("mlp", Axis("ffn", c.ffns.sizes()[i]), width, act=c.act, names=("fc1", "fc2")),
        )
        parts = (Module("patch_embedder", embedder), Module("conv_blocks", block, repeat=depth))
        stages.append(Module(f"layers.{i}", parts))
    return Module(
        "",
        (
            *stages,
            rms_norm("norm", widths[-1]),
            linear("proj", out, widths[-1], bias=True, component="other"),
            rms_norm("post_proj_norm", out),
        ),
    )


ARCHITECTURES = {"muse_audio": Architecture(MuseAudioConfig, muse_audio)}


def _audio(hf: HFConfig) -> Reading:
    widths = tuple(hf["hidden_sizes"])
    if not len(widths) == len(hf["depths"]) == len(hf["patch_sizes"]):
        raise InvalidConfig("hidden_sizes, depths and patch_sizes do not list as many stages")
    given = {
        "widths": PerLayer(widths),
        "depths": PerLayer(tuple(hf["depths"])),
        "patches": PerLayer(tuple(hf["patch_sizes"])),
        "ffns": PerLayer(tuple(int(width * hf["mlp_ratio"]) for width in widths)),
        "kernel": hf["conv_kernel_size"],
        "d_out": hf["out_hidden_size"],
        "act": hf["hidden_act"],
    }
    return Reading("muse_audio", given)


def _muse_spark(hf: HFConfig) -> Reading:
    return read_muse(hf, audio=hf.nested("audio_config"))


HF_READERS = {"muse_spark": _muse_spark, "muse_spark_audio": _audio}
