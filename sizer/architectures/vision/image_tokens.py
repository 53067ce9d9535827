"""What makes tokens of an image: what the VQ-VAEs of Chameleon, Janus and Emu3 share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import whole
from sizer.architectures.tower import Children, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class ImageTokensConfig(Config):
    """Sizes of a VQ-VAE. `n_out_channels`: colours that it writes, where it has a decoder.

    `multiples`: channels of each resolution, in multiples of `d_base`; `attending`: the resolutions
    whose blocks attend.
    """

    d_base: Dim
    d_latent: Dim
    d_encoded: Dim
    d_code: Dim
    codebook_size: Dim
    n_blocks: Dim
    n_channels: Dim = 3
    n_out_channels: Dim | None = None
    multiples: tuple[int, ...] = (1, 1, 2, 2, 4)
    attending: tuple[int, ...] = ()
    task: str = "base"

    letters = {
        "d_base": "Cb",
        "d_latent": "Cl",
        "d_encoded": "Ce",
        "d_code": "Cq",
        "codebook_size": "Q",
        "n_blocks": "Nb",
        "n_channels": "Nc",
        "n_out_channels": "No",
    }
    meanings = {
        "d_base": "channels of the first resolution",
        "d_latent": "channels of the latent",
        "d_encoded": "channels that the encoder gives",
        "d_code": "width of a code",
        "codebook_size": "codes",
        "n_blocks": "blocks of a resolution",
        "n_channels": "colour channels",
        "n_out_channels": "colour channels of the decoder",
    }

    def __post_init__(self) -> None:
        check_sizes(self)

    def channels(self, level: int) -> Axis:
        """The channels of a resolution, of which 0 is the image's."""
        return Axis("channels", self.multiples[level] * self.d_base)


def resnet_block(inp: Axis, out: Axis, code: Axis | None, *, shortcut: bool = False) -> Children:
    """Two convolutions with a norm before each, which a `code` scales; `shortcut`: a third beside them."""
    one = Axis("one", 1)
    widen = (convolution("nin_shortcut", out, inp, one, one, component="other"),) if shortcut else ()
    return (
        coded_norm("norm1", inp, code),
        conv3x3("conv1", out, inp),
        coded_norm("norm2", out, code),
        conv3x3("conv2", out, out),
        *widen,
    )


def coded_norm(name: str, width: Axis, code: Axis | None) -> Module:
    """A GroupNorm; in the decoder, the code scales and shifts what it gives."""
    if code is None:
        return layer_norm(name, width)
    one = Axis("one", 1)
    scales = (convolution(f"conv_{x}", width, code, one, one, component="norm") for x in "yb")
    return Module(name, (layer_norm("norm_layer", width), *scales), component="norm")


def conv3x3(name: str, out: Axis, inp: Axis) -> Module:
    """A convolution over three by three places."""
    return convolution(name, out, inp, Axis("kernel", 3), Axis("kernel", 3), component="other")


def image_tokens(hf: HFConfig, *, codes: str = "num_embeddings", **given: Any) -> dict[str, Any]:
    """The sizes of a VQ-VAE. `codes`: the key of how many there are."""
    latent = whole(hf, "latent_channels")
    return {
        "task": "base",
        "d_base": hf["base_channels"],
        "d_latent": latent,
        "d_encoded": 2 * latent if hf["double_latent"] else latent,
        "d_code": hf["embed_dim"],
        "codebook_size": hf[codes],
        "n_blocks": hf["num_res_blocks"],
        "n_channels": hf["in_channels"],
        "multiples": tuple(hf["channel_multiplier"]),
        **given,
    }
