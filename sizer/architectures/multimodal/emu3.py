"""Emu3: a language model over words and the tokens of images, and the VQ-GAN that makes those."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, PartNames, multimodal, reading
from sizer.architectures.registry import Architecture, Reading, hf_reader
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.architectures.vision.image_tokens import (
    ImageTokensConfig,
    coded_norm,
    conv3x3,
    image_tokens,
    resnet_block,
)
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, first_and_rest, layer_norm, linear
from sizer.core.tree import Axis, Module, heads_axis
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

PLACES = PartNames(text="text_model", vision="vqmodel")


@configuration
class VQGanConfig(ImageTokensConfig):
    """Sizes of what Emu3's VQ-GAN adds: what attends does so at a width of `d_model`.

    `n_halvings`: how often time is halved.
    """

    d_model: Dim
    n_heads: Dim
    n_decoder_blocks: Dim
    n_halvings: Dim
    d_head: Dim | None = None

    letters = {**ImageTokensConfig.letters, "n_decoder_blocks": "Nd", "n_halvings": "Nt"}
    meanings = {
        **ImageTokensConfig.meanings,
        "n_decoder_blocks": "blocks of a resolution of the decoder",
        "n_halvings": "halvings of the time",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.derive_quotient("d_head", "d_model", "n_heads")


def vqgan(c: VQGanConfig) -> Module:
    """Emu3's VQ-GAN (arXiv:2409.18869), with the tensor names of `Emu3VQVAE`.

    Source: transformers `modeling_emu3.py`.
    """
    code, latent = Axis("code", c.d_code), Axis("latent", c.d_latent)
    in_time = (Axis("kernel", 3), Axis("one", 1), Axis("one", 1))
    return Module(
        "",
        (
            Module("encoder", _encoder(c)),
            convolution("quant_conv.conv", code, latent, *in_time, component="other"),
            embedding("quantize.embedding", Axis("codes", c.codebook_size), code),
            convolution("post_quant_conv.conv", latent, code, *in_time, component="other", act="")._replace(
                uses=0
            ),
            # What reads images never writes them.
            Module("decoder", _decoder(c), uses=0),
        ),
        component="other",
    )


def _encoder(c: VQGanConfig) -> Children:
    top, encoded = c.channels(len(c.multiples) - 1), Axis("encoded", c.d_encoded)
    return (
        conv3x3("conv_in", Axis("channels", c.d_base), Axis("image", c.n_channels)),
        *(_down(c, level) for level in range(len(c.multiples))),
        Module("middle_block", _middle(c, top, None)),
        layer_norm("norm_out", top),
        conv3x3("conv_out", encoded, top),
        Module("time_conv", (_conv3("conv.conv", encoded, 4),), repeat=c.n_halvings),
        Module("time_res_stack", _in_time(encoded), repeat=c.n_blocks),
    )


def _decoder(c: VQGanConfig) -> Children:
    code, latent = Axis("code", c.d_code), Axis("latent", c.d_latent)
    top, first = c.channels(len(c.multiples) - 1), c.channels(0)
    return (
        Module("time_res_stack", _in_time(latent), repeat=c.n_blocks),
        Module("time_conv", (_conv3("conv.conv", latent, 3),), repeat=c.n_halvings),
        conv3x3("conv_in", top, latent),
        Module("middle_block", _middle(c, top, code)),
        *(_up(c, level, code) for level in reversed(range(len(c.multiples)))),
        coded_norm("norm_out", first, code),
        conv3x3("conv_out", Axis("image", c.n_out_channels), first),
    )


def _down(c: VQGanConfig, level: int) -> Module:
    # The first resolution comes from the convolution over the image, of `d_base` channels.
    before, attends = (1, *c.multiples)[level], level in c.attending
    sampling: Children = ()
    if level < len(c.multiples) - 1:
        sampling = (conv3x3("downsample.conv", c.channels(level), c.channels(level)),)
    blocks = _level(c, level, before, c.n_blocks, None, attends=attends)
    return Module(f"down_block.down.{level}", (*blocks, *sampling))


def _up(c: VQGanConfig, level: int, code: Axis) -> Module:
    before, attends = (*c.multiples, c.multiples[-1])[level + 1], level in c.attending
    sampling: Children = ()
    if level > 0:
        sampling = (conv3x3("upsample.conv", c.channels(level), c.channels(level)),)
    blocks = _level(c, level, before, c.n_decoder_blocks, code, attends=attends)
    return Module(f"up_block.up.{level}", (*blocks, *sampling))


def _level(
    c: VQGanConfig, level: int, before: int, count: Dim, code: Axis | None, *, attends: bool
) -> Children:
    """The blocks of a resolution; the first comes from `before` times `d_base` channels."""
    inp, out = Axis("channels", before * c.d_base), c.channels(level)
    widens = before != c.multiples[level]
    first = resnet_block(inp, out, code, shortcut=widens)
    blocks = first_and_rest("block", first, resnet_block(out, out, code), count)
    if not attends:
        return (blocks,)
    norms = Module("attn_norms", (coded_norm("", out, code),), repeat=count)
    return (blocks, norms, Module("attn", _attention(c), repeat=count, component="attention"))


def _middle(c: VQGanConfig, width: Axis, code: Axis | None) -> Children:
    return (
        Module("block_1", resnet_block(width, width, code)),
        coded_norm("attn_norm", width, code),
        Module("attn_1", _attention(c), component="attention"),
        Module("block_2", resnet_block(width, width, code)),
    )


def _attention(c: VQGanConfig) -> Children:
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    return (
        *(linear(f"{name}_proj", heads, embed, bias=True) for name in "qkv"),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
        linear("out_proj", embed, heads, bias=True),
    )


def _conv3(name: str, width: Axis, frames: int) -> Module:
    kernel = (Axis("frames", frames), Axis("kernel", 3), Axis("kernel", 3))
    return convolution(name, width, width, *kernel, component="other")


def _in_time(width: Axis) -> Children:
    return (
        batch_norm("norm1", width),
        _conv3("conv1.conv", width, 3),
        batch_norm("norm2", width),
        _conv3("conv2.conv", width, 3),
    )


ARCHITECTURES = {
    "emu3": Architecture(MultimodalConfig, multimodal),
    "emu3_vqgan": Architecture(VQGanConfig, vqgan),
}


def _vqgan(hf: HFConfig) -> Reading:
    factor = hf["temporal_downsample_factor"]
    if not isinstance(factor, int) or factor < 1:
        raise InvalidConfig(f"temporal_downsample_factor = {clip(repr(factor))} is not a positive number")
    given = image_tokens(
        hf,
        codes="codebook_size",
        d_model=hf["hidden_size"],
        n_heads=hf["num_attention_heads"],
        n_decoder_blocks=hf["num_res_blocks"] + 1,
        n_halvings=factor.bit_length() - 1,
        n_out_channels=hf["out_channels"],
        attending=tuple(hf["attn_resolutions"] or ()),
    )
    return Reading("emu3_vqgan", given)


def _emu3(hf: HFConfig) -> Reading:
    """With the class of its language model alone, that."""
    text = hf.nested("text_config")
    if hf.cls == "Emu3ForCausalLM":
        return hf_reader(text.model_type)(text)
    return reading(hf, "emu3", vision=hf.nested("vq_config"), places=PLACES, files="whole_text")


HF_READERS = {"emu3": _emu3, "emu3_vqgan": _vqgan}
