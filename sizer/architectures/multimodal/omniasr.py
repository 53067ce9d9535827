"""OmniASR: convolutions over the waveform, an encoder like wav2vec 2.0's, and a LLaMA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, bare, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import TowerConfig, TowerNames, blocks, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(
    block="layers",
    attention="attention",
    mlp=("feed_forward", "intermediate_dense", "output_dense"),
    norms=("layer_norm", "", "final_layer_norm", ""),
)


@configuration
class OmniAudioConfig(TowerConfig):
    """Sizes of the tower.

    `channels`, `kernels`: of each convolution over the waveform. `n_position_frames`: frames under
    the convolution that gives positions, each group of `d_group` channels apart.
    """

    channels: PerLayer
    kernels: PerLayer
    n_position_frames: Dim
    n_groups: Dim
    d_group: Dim | None = None
    conv_bias: bool = True

    letters = {
        "channels": "Cw",
        "kernels": "Kw",
        "n_position_frames": "Kp",
        "n_groups": "G",
        "d_group": "Dg",
    }
    meanings = {
        "n_position_frames": "frames under the convolution that gives positions",
        "n_groups": "groups of its channels",
        "d_group": "channels of a group",
    }

    def __post_init__(self) -> None:
        TowerConfig.__post_init__(self)
        self.derive_quotient("d_group", "d_model", "n_groups")


def audio(c: OmniAudioConfig) -> Module:
    """The tower, with the names of `OmniASRAudioModel`. Source: transformers `modeling_omniasr.py`."""
    embed, frames = Axis("embed", c.d_model), Axis("kernel", c.n_position_frames)
    widths = [Axis("channels", width) for width in c.channels.sizes()]
    inputs = [Axis("one", 1), *widths[:-1]]
    kernels = [Axis("kernel", size) for size in c.kernels.sizes()]
    layers = (
        Module(
            f"conv_layers.{i}",
            (
                convolution("conv", out, inp, kernel, bias=c.conv_bias, act=c.act),
                layer_norm("layer_norm", out),
            ),
        )
        for i, (out, inp, kernel) in enumerate(zip(widths, inputs, kernels, strict=True))
    )
    last = widths[-1]
    return Module(
        "",
        (
            Module(
                "subsampling",
                (
                    *layers,
                    layer_norm("layer_norm", last),
                    linear("projection", embed, last, bias=True, component="embedding"),
                ),
            ),
            convolution(
                "encode_positions.conv",
                embed,
                Axis("group", c.d_group),
                frames,
                act=c.act,
                component="position",
            ),
            blocks(c),
            layer_norm("layer_norm", embed),
        ),
    )


def omniasr(c: MultimodalConfig) -> Module:
    """OmniASR, with the names of `OmniASRForConditionalGeneration`: one matrix joins tower and text."""
    embed, frames = Axis("embed", c.d_model), Axis("audio", c.d_audio)
    bridge = linear(c.places.bridge, embed, frames, bias=True, component="other")
    return multimodal(c, bridge._replace(stream="encoder"))


@configuration
class LettersConfig(Config):
    """The tower under a head that writes letters as they are heard."""

    audio: Part
    d_audio: Dim
    vocab_size: Dim
    task: str = "ctc"

    letters = {"audio": "aud", "d_audio": "D_aud"}
    meanings = {"d_audio": "width of the audio tower"}

    def __post_init__(self) -> None:
        check_sizes(self)


def letters(c: LettersConfig) -> Module:
    """OmniASR for CTC, with the names of `OmniASRForCTC`."""
    if c.task == "base":
        return Module("", (c.audio.module("audio_tower", layout=c.layout),))
    tower = c.audio.module("audio_tower", layout=c.layout, inside="model")
    vocab, frames = Axis("vocab", c.vocab_size), Axis("audio", c.d_audio)
    return Module(
        "", (Module("model", (tower,)), linear("ctc_head", vocab, frames, bias=True, component="head"))
    )


ARCHITECTURES = {
    "omniasr_ctc": Architecture(LettersConfig, letters),
    "omniasr": Architecture(MultimodalConfig, omniasr),
    "omniasr_audio": Architecture(OmniAudioConfig, audio),
}


def _audio(hf: HFConfig) -> Reading:
    channels, kernels = hf["conv_dim"], hf["conv_kernel"]
    if len(channels) != len(kernels):
        raise InvalidConfig(f"conv_dim lists {len(channels)} layers and conv_kernel {len(kernels)}")
    given = {
        "task": "base",
        "d_model": hf["hidden_size"],
        "n_layers": hf["num_hidden_layers"],
        "n_heads": hf["num_attention_heads"],
        "d_ff": hf["intermediate_size"],
        "act": hf["hidden_act"],
        "channels": PerLayer(tuple(channels)),
        "kernels": PerLayer(tuple(kernels)),
        "n_position_frames": whole(hf, "num_conv_pos_embeddings"),
        "n_groups": whole(hf, "num_conv_pos_embedding_groups"),
        "conv_bias": bool(hf["conv_bias"]),
        "module_names": NAMES,
    }
    return Reading("omniasr_audio", given)


def _omniasr(hf: HFConfig) -> Reading:
    audio = hf.nested("audio_config")
    return reading(hf, "omniasr", audio=audio, d_audio=audio["hidden_size"])


def _letters(hf: HFConfig) -> Reading:
    audio = hf.nested("audio_config")
    given = {
        "task": "base" if hf.cls.endswith("Model") else "ctc",
        "audio": bare(audio),
        "d_audio": audio["hidden_size"],
        "vocab_size": hf["vocab_size"],
    }
    return Reading("omniasr_ctc", given)


HF_READERS = {"omniasr": _omniasr, "omniasr_audio": _audio, "omniasr_ctc": _letters}
