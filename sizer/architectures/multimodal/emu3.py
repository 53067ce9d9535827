"""Emu3: a language model over words and the tokens of images, and the VQ-GAN that makes those."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, Places, multimodal, reading
from sizer.architectures.registry import Architecture, Reading, hf_reader
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, first_and_rest, layer_norm, linear
from sizer.core.tree import Axis, Module, heads_axis
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

PLACES = Places(text="text_model", vision="vqmodel")


@configuration
class VQGanConfig(Config):
    """Sizes and switches of Emu3's VQ-GAN.

    `multiples`: channels of each resolution, in multiples of `d_base`; `attending`: the resolutions
    whose blocks attend, at a width of `d_model`. `n_halvings`: how often time is halved.
    """

    d_base: Dim
    d_model: Dim
    n_heads: Dim
    d_latent: Dim
    d_encoded: Dim
    d_code: Dim
    codebook_size: Dim
    n_blocks: Dim
    n_decoder_blocks: Dim
    n_halvings: Dim
    n_channels: Dim = 3
    n_out_channels: Dim = 3
    d_head: Dim | None = None
    multiples: tuple[int, ...] = (1, 2, 2, 4)
    attending: tuple[int, ...] = (3,)
    task: str = "base"

    letters = {
        "d_base": "Cb",
        "d_latent": "Cl",
        "d_encoded": "Ce",
        "d_code": "Cq",
        "codebook_size": "Q",
        "n_blocks": "Nb",
        "n_decoder_blocks": "Nd",
        "n_halvings": "Nt",
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
        "n_decoder_blocks": "blocks of a resolution of the decoder",
        "n_halvings": "halvings of the time",
        "n_channels": "colour channels",
        "n_out_channels": "colour channels of the decoder",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
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
    top, encoded = _channels(c, len(c.multiples) - 1), Axis("encoded", c.d_encoded)
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
    top, first = _channels(c, len(c.multiples) - 1), _channels(c, 0)
    return (
        Module("time_res_stack", _in_time(latent), repeat=c.n_blocks),
        Module("time_conv", (_conv3("conv.conv", latent, 3),), repeat=c.n_halvings),
        conv3x3("conv_in", top, latent),
        Module("middle_block", _middle(c, top, code)),
        *(_up(c, level, code) for level in reversed(range(len(c.multiples)))),
        _norm("norm_out", first, code),
        conv3x3("conv_out", Axis("image", c.n_out_channels), first),
    )


def _channels(c: VQGanConfig, level: int) -> Axis:
    return Axis("channels", c.multiples[level] * c.d_base)


def _down(c: VQGanConfig, level: int) -> Module:
    # The first resolution comes from the convolution over the image, of `d_base` channels.
    before, attends = (1, *c.multiples)[level], level in c.attending
    sampling: Children = ()
    if level < len(c.multiples) - 1:
        sampling = (conv3x3("downsample.conv", _channels(c, level), _channels(c, level)),)
    blocks = _level(c, level, before, c.n_blocks, None, attends=attends)
    return Module(f"down_block.down.{level}", (*blocks, *sampling))


def _up(c: VQGanConfig, level: int, code: Axis) -> Module:
    before, attends = (*c.multiples, c.multiples[-1])[level + 1], level in c.attending
    sampling: Children = ()
    if level > 0:
        sampling = (conv3x3("upsample.conv", _channels(c, level), _channels(c, level)),)
    blocks = _level(c, level, before, c.n_decoder_blocks, code, attends=attends)
    return Module(f"up_block.up.{level}", (*blocks, *sampling))


def _level(
    c: VQGanConfig, level: int, before: int, count: Dim, code: Axis | None, *, attends: bool
) -> Children:
    """The blocks of a resolution; the first comes from `before` times `d_base` channels."""
    inp, out = Axis("channels", before * c.d_base), _channels(c, level)
    widens = before != c.multiples[level]
    first = resnet_block(inp, out, code, shortcut=widens)
    blocks = first_and_rest("block", first, resnet_block(out, out, code), count)
    if not attends:
        return (blocks,)
    norms = Module("attn_norms", (_norm("", out, code),), repeat=count)
    return (blocks, norms, Module("attn", _attention(c), repeat=count, component="attention"))


def _middle(c: VQGanConfig, width: Axis, code: Axis | None) -> Children:
    return (
        Module("block_1", resnet_block(width, width, code)),
        _norm("attn_norm", width, code),
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


def resnet_block(inp: Axis, out: Axis, code: Axis | None, *, shortcut: bool = False) -> Children:
    """Two convolutions with a norm before each, which a `code` scales; `shortcut`: a third beside them."""
    one = Axis("one", 1)
    widen = (convolution("nin_shortcut", out, inp, one, one, component="other"),) if shortcut else ()
    return (
        _norm("norm1", inp, code),
        conv3x3("conv1", out, inp),
        _norm("norm2", out, code),
        conv3x3("conv2", out, out),
        *widen,
    )


def _norm(name: str, width: Axis, code: Axis | None) -> Module:
    """A GroupNorm; in the decoder, the code scales and shifts what it gives."""
    if code is None:
        return layer_norm(name, width)
    one = Axis("one", 1)
    scales = (convolution(f"conv_{x}", width, code, one, one, component="norm") for x in "yb")
    return Module(name, (layer_norm("norm_layer", width), *scales), component="norm")


def conv3x3(name: str, out: Axis, inp: Axis) -> Module:
    """A convolution over three by three places."""
    return convolution(name, out, inp, Axis("kernel", 3), Axis("kernel", 3), component="other")


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
    factor, latent = hf["temporal_downsample_factor"], hf["latent_channels"]
    if not isinstance(factor, int) or factor < 1:
        raise InvalidConfig(f"temporal_downsample_factor = {clip(repr(factor))} is not a positive number")
    given = {
        "task": "base",
        "d_base": hf["base_channels"],
        "d_model": hf["hidden_size"],
        "n_heads": hf["num_attention_heads"],
        "d_latent": latent,
        "d_encoded": 2 * latent if hf["double_latent"] else latent,
        "d_code": hf["embed_dim"],
        "codebook_size": hf["codebook_size"],
        "n_blocks": hf["num_res_blocks"],
        "n_decoder_blocks": hf["num_res_blocks"] + 1,
        "n_halvings": factor.bit_length() - 1,
        "n_channels": hf["in_channels"],
        "n_out_channels": hf["out_channels"],
        "multiples": tuple(hf["channel_multiplier"]),
        "attending": tuple(hf["attn_resolutions"] or ()),
    }
    return Reading("emu3_vqgan", given)


def _emu3(hf: HFConfig) -> Reading:
    """With the class of its language model alone, that."""
    text = hf.nested("text_config")
    if hf.cls == "Emu3ForCausalLM":
        return hf_reader(text.model_type)(text)
    return reading(hf, "emu3", vision=hf.nested("vq_config"), places=PLACES, files="whole_text")


HF_READERS = {"emu3": _emu3, "emu3_vqgan": _vqgan}
