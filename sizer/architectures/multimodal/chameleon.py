"""Chameleon: a decoder over words and the tokens of images, and the VQ-VAE that makes those; Janus's too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare, task_of
from sizer.architectures.decoders.decoder import DecoderConfig, decoder
from sizer.architectures.decoders.reading import dense, whole
from sizer.architectures.heads import with_parts
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.image_tokens import ImageTokensConfig, conv3x3, image_tokens, resnet_block
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, first_and_rest, layer_norm
from sizer.core.tree import Axis, Module

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class VQVAEConfig(ImageTokensConfig):
    """Sizes of the VQ-VAE. `middle`: the blocks between its two halves attend."""

    middle: bool = True


@configuration
class ChameleonConfig(DecoderConfig):
    """Sizes of the decoder. `images`: what makes tokens of an image."""

    images: Part

    letters = {**DecoderConfig.letters, "images": "img"}


def vqvae(c: VQVAEConfig) -> Module:
    """The VQ-VAE, with the tensor names of `ChameleonVQVAE` and `JanusVQVAE`.

    Source: transformers `modeling_chameleon.py`, `modeling_janus.py`.
    """
    # What reads images never writes them.
    decoder = () if c.n_out_channels is None else (Module("decoder", _decoder(c), uses=0),)
    code, latent, one = Axis("code", c.d_code), Axis("latent", c.d_latent), Axis("one", 1)
    return Module(
        "",
        (
            Module("encoder", _encoder(c)),
            convolution("quant_conv", code, latent, one, one, component="other"),
            embedding("quantize.embedding", Axis("codes", c.codebook_size), code),
            convolution("post_quant_conv", latent, code, one, one, component="other")._replace(uses=0),
            *decoder,
        ),
        component="other",
    )


def _encoder(c: VQVAEConfig) -> Children:
    top = c.channels(len(c.multiples) - 1)
    return (
        conv3x3("conv_in", Axis("channels", c.d_base), Axis("image", c.n_channels)),
        *(_down(c, level) for level in range(len(c.multiples))),
        _middle(c, top),
        layer_norm("norm_out", top),
        conv3x3("conv_out", Axis("encoded", c.d_encoded), top),
    )


def _decoder(c: VQVAEConfig) -> Children:
    top, first = c.channels(len(c.multiples) - 1), c.channels(0)
    return (
        conv3x3("conv_in", top, Axis("latent", c.d_latent)),
        _middle(c, top),
        *(_up(c, level) for level in reversed(range(len(c.multiples)))),
        layer_norm("norm_out", first),
        conv3x3("conv_out", Axis("image", c.n_out_channels), first),
    )


def _middle(c: VQVAEConfig, top: Axis) -> Module:
    attention = (Module("attn_1", _attention(top), component="attention"),) if c.middle else ()
    blocks = (Module(f"block_{i}", resnet_block(top, top, None)) for i in (1, 2))
    first, second = blocks
    return Module("mid", (first, *attention, second))


def _down(c: VQVAEConfig, level: int) -> Module:
    # The first resolution comes from the convolution over the image, of `d_base` channels.
    before, out = (1, *c.multiples)[level], c.channels(level)
    halving = (conv3x3("downsample.conv", out, out),) if level < len(c.multiples) - 1 else ()
    return Module(f"down.{level}", (*_blocks(c, level, before, c.n_blocks), *halving))


def _up(c: VQVAEConfig, level: int) -> Module:
    """A resolution of the decoder, which counts them from the lowest and has a block more in each."""
    before, out = (*c.multiples, c.multiples[-1])[level + 1], c.channels(level)
    doubling = (conv3x3("upsample.conv", out, out),) if level > 0 else ()
    blocks = _blocks(c, level, before, c.n_blocks + 1)
    return Module(f"up.{len(c.multiples) - 1 - level}", (*blocks, *doubling))


def _blocks(c: VQVAEConfig, level: int, before: int, count: Dim) -> Children:
    """The blocks of a resolution; the first comes from `before` times `d_base` channels."""
    out, widens = c.channels(level), before != c.multiples[level]
    first = resnet_block(Axis("channels", before * c.d_base), out, None, shortcut=widens)
    blocks = first_and_rest("block", first, resnet_block(out, out, None), count)
    if level not in c.attending:
        return (blocks,)
    return (blocks, Module("attn", _attention(out), repeat=count, component="attention"))


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
    plain, places = hf["attn_type"] == "vanilla", hf["attn_resolutions"] or ()
    sides = (whole(hf, "resolution") // 2**level for level in range(len(hf["channel_multiplier"])))
    attending = tuple(level for level, side in enumerate(sides) if plain and side in places)
    return Reading("chameleon_vqvae", image_tokens(hf, attending=attending, middle=plain))


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
