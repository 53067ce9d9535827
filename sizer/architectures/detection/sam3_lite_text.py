"""SAM 3 with a small text: MobileCLIP's, whose first and last blocks mix with convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import listed_layers
from sizer.architectures.detection.sam3 import sam3_reading
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, TowerConfig, TowerNames, batch_norm, blocks, convolution
from sizer.architectures.vision.clip import ONE, vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, layer_norm, linear
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = TowerNames(block="layers")


@configuration
class LiteTextConfig(TowerConfig):
    """Sizes of the text.

    `kinds`: "mixer" for a block of convolutions over `d_kernel` tokens, "attention" for one of a CLIP.
    `d_projection`: width that is given.
    """

    vocab_size: Dim
    n_ctx: Dim
    d_projection: Dim
    d_kernel: Dim
    kinds: Pattern

    letters = {**TowerConfig.letters, "d_projection": "Dp", "d_kernel": "Kc", "kinds": "L"}
    meanings = {
        **TowerConfig.meanings,
        "d_projection": "width that is given",
        "d_kernel": "tokens under a convolution",
    }


def lite_text(c: LiteTextConfig) -> Module:
    """The text of MobileCLIP (arXiv:2311.17049), with the names of `Sam3LiteTextTextModel`.

    Source: transformers `modeling_sam3_lite_text.py`.
    """
    embed = Axis("embed", c.d_model)
    axes = (ONE, ONE, Axis("context", c.n_ctx), embed)
    tables = (
        embedding("token_embedding", Axis("vocab", c.vocab_size), embed),
        Param("position_embedding.position_embedding", axes, component="position"),
    )
    parts = {"mixer": _mixer(c, embed), "attention": blocks(c).children}
    layers = tuple(Module("", parts[kind], at=c.kinds.layers(kind)) for kind in c.kinds.kinds_like(""))
    return Module(
        "",
        (
            Module("embeddings", tables),
            Module("layers", layers, repeat=c.n_layers),
            layer_norm("final_layer_norm", embed),
            linear("projection", Axis("projection", c.d_projection), embed, component="head"),
        ),
    )


def _mixer(c: LiteTextConfig, embed: Axis) -> Children:
    """Convolutions along the text, each channel by itself, and an MLP after them."""
    scale, ffn = Param("layer_scale", (embed, ONE, ONE)), Axis("ffn", c.d_ff)
    mixed = (
        batch_norm("batchnorm_skip", embed),
        _along(c, "conv", embed),
        batch_norm("batchnorm_conv", embed),
    )
    mlp = (
        convolution("fc1", ffn, embed, ONE, ONE, act=c.act, component="mlp"),
        convolution("fc2", embed, ffn, ONE, ONE, component="mlp"),
    )
    after = (
        _along(c, "depthwise_conv", embed),
        batch_norm("depthwise_batchnorm", embed),
        Module("mlp", mlp, component="mlp"),
    )
    mixer = (scale, batch_norm("reference_batchnorm", embed), Module("mixer", mixed))
    return (scale, Module("token_mixer", mixer), Module("conv_feed_forward", after))


def _along(c: LiteTextConfig, name: str, embed: Axis) -> Module:
    return convolution(name, embed, ONE, ONE, Axis("kernel", c.d_kernel), bias=False, component="mixer")


ARCHITECTURES = {"sam3_lite_text_text": Architecture(LiteTextConfig, lite_text)}


def _text(hf: HFConfig) -> Reading:
    n_layers = listed_layers(hf)
    ends = (0, n_layers - 1) if hf["use_repmixer_blocks"] else ()
    given = vision_sizes(
        hf,
        vocab_size=hf["vocab_size"],
        n_ctx=hf["max_position_embeddings"],
        d_projection=hf["projection_dim"],
        d_kernel=hf["repmixer_kernel_size"],
        kinds=Pattern(tuple("mixer" if i in ends else "attention" for i in range(n_layers))),
        module_names=NAMES,
    )
    return Reading("sam3_lite_text_text", given)


def _whole(hf: HFConfig) -> Reading:
    return sam3_reading(hf, bare(hf.nested("text_config")))


HF_READERS = {"sam3_lite_text": _whole, "sam3_lite_text_text_model": _text}
