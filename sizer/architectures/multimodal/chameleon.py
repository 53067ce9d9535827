"""Chameleon: a decoder over words and the tokens of images, and the VQ-VAE that makes those."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import DecoderConfig, decoder
from sizer.architectures.decoders.reading import dense, whole
from sizer.architectures.heads import with_parts
from sizer.architectures.multimodal.emu3 import conv3x3, resnet_block
from sizer.architectures.multimodal.model import bare, task_of
from sizer.architectures.multimodal.tower import Children, convolution
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, first_and_rest, layer_norm
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class VQVAEConfig(Config):
    """Sizes and switches of Chameleon's VQ-VAE, of which only the encoder is there.

    `multiples`: channels of each resolution, in multiples of `d_base`; `attending`: the resolutions
    whose blocks attend. `middle`: the blocks between attend.
    """

    d_base: Dim
    d_latent: Dim
    d_encoded: Dim
    d_code: Dim
    codebook_size: Dim
    n_blocks: Dim
    n_channels: Dim = 3
    multiples: tuple[int, ...] = (1, 1, 2, 2, 4)
    attending: tuple[int, ...] = ()
    middle: bool = True
    task: str = "base"

    letters = {
        "d_base": "Cb",
        "d_latent": "Cl",
        "d_encoded": "Ce",
        "d_code": "Cq",
        "codebook_size": "Q",
        "n_blocks": "Nb",
        "n_channels": "Nc",
    }
    meanings = {
        "d_base": "channels of the first resolution",
        "d_latent": "channels of the latent",
        "d_encoded": "channels that the encoder gives",
        "d_code": "width of a code",
        "codebook_size": "codes",
        "n_blocks": "blocks of a resolution",
        "n_channels": "colour channels",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


@configuration
class ChameleonConfig(DecoderConfig):
    """Sizes of the decoder. `images`: what makes tokens of an image."""

    images: Part

    letters = {**DecoderConfig.letters, "images": "img"}


def vqvae(c: VQVAEConfig) -> Module:
    """The VQ-VAE, with the tensor names of `ChameleonVQVAE`.

    Source: transformers `modeling_chameleon.py`.
    """
    code, latent, one = Axis("code", c.d_code), Axis("latent", c.d_latent), Axis("one", 1)
    return Module(
        "",
        (
            Module("encoder", _encoder(c)),
            convolution("quant_conv", code, latent, one, one, component="other"),
            embedding("quantize.embedding", Axis("codes", c.codebook_size), code),
            # What reads images never writes them.
            convolution("post_quant_conv", latent, code, one, one, component="other")._replace(uses=0),
        ),
        component="other",
    )


def _encoder(c: VQVAEConfig) -> Children:
    top = _channels(c, len(c.multiples) - 1)
    attention = (Module("attn_1", _attention(top), component="attention"),) if c.middle else ()
    middle = (
        Module("block_1", resnet_block(top, top, None)),
        *attention,
        Module("block_2", resnet_block(top, top, None)),
    )
    return (
        conv3x3("conv_in", Axis("channels", c.d_base), Axis("image", c.n_channels)),
        *(_down(c, level) for level in range(len(c.multiples))),
        Module("mid", middle),
        layer_norm("norm_out", top),
        conv3x3("conv_out", Axis("encoded", c.d_encoded), top),
    )


def _channels(c: VQVAEConfig, level: int) -> Axis:
    return Axis("channels", c.multiples[level] * c.d_base)


def _down(c: VQVAEConfig, level: int) -> Module:
    # The first resolution comes from the convolution over the image, of `d_base` channels.
    before, out = (1, *c.multiples)[level], _channels(c, level)
    widens = before != c.multiples[level]
    first = resnet_block(Axis("channels", before * c.d_base), out, None, shortcut=widens)
    blocks = first_and_rest("block", first, resnet_block(out, out, None), c.n_blocks)
    attention: Children = ()
    if level in c.attending:
        attention = (Module("attn", _attention(out), repeat=c.n_blocks, component="attention"),)
    halving = (conv3x3("downsample.conv", out, out),) if level < len(c.multiples) - 1 else ()
    return Module(f"down.{level}", (blocks, *attention, *halving))


def _attention(width: Axis) -> Children:
    """One head over all places."""
    one = Axis("one", 1)
    q, k, v, out = (
        convolution(name, width, width, one, one, component="attention")
        for name in ("q", "k", "v", "proj_out")
    )
    return (layer_norm("norm", width), q, k, v, *attention_core(1, 1, width.size, cached=False), out)


def chameleon(c: ChameleonConfig) -> Module:
    """Chameleon (arXiv:2405.09818), with the tensor names of `ChameleonForConditionalGeneration`.

    Source: transformers `modeling_chameleon.py`.
    """
    around = "" if c.task == "base" else "model"
    images = c.images.module("vqmodel", layout=c.layout, inside=around, stream="encoder")
    return with_parts(decoder(c), c, images)


ARCHITECTURES = {
    "chameleon": Architecture(ChameleonConfig, chameleon),
    "chameleon_vqvae": Architecture(VQVAEConfig, vqvae),
}


def _vqvae(hf: HFConfig) -> Reading:
    latent, multiples = whole(hf, "latent_channels"), tuple(hf["channel_multiplier"])
    plain, places = hf["attn_type"] == "vanilla", hf["attn_resolutions"] or ()
    sides = (whole(hf, "resolution") // 2**level for level in range(len(multiples)))
    given = {
        "task": "base",
        "d_base": hf["base_channels"],
        "d_latent": latent,
        "d_encoded": 2 * latent if hf["double_latent"] else latent,
        "d_code": hf["embed_dim"],
        "codebook_size": hf["num_embeddings"],
        "n_blocks": hf["num_res_blocks"],
        "n_channels": hf["in_channels"],
        "multiples": multiples,
        "attending": tuple(level for level, side in enumerate(sides) if plain and side in places),
        "middle": plain,
    }
    return Reading("chameleon_vqvae", given)


def _chameleon(hf: HFConfig) -> Reading:
    bias, first, second = bool(hf["attention_bias"]), "input_layernorm", "post_attention_layernorm"
    return dense(
        hf,
        "chameleon",
        ChameleonConfig,
        task=task_of(hf),
        images=bare(hf.nested("vq_config")),
        d_head=None,
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=bool(hf["mlp_bias"]),
        qk_norm="heads_bias",
        norms=("", first, "", second) if hf["swin_norm"] else (first, "", second, ""),
    )


HF_READERS = {"chameleon": _chameleon, "chameleon_vqgan": _vqvae}
