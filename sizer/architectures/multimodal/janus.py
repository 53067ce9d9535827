"""Janus: a tower reads images into a LLaMA, and a VQ-VAE writes those whose tokens it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, PartNames, bare, multimodal, reading
from sizer.architectures.decoders.reading import whole
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import CLIP
from sizer.architectures.vision.clip import patches, vision_sizes
from sizer.architectures.vision.image_tokens import image_tokens
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, linear
from sizer.core.tree import Axis, Module, Op

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

PLACES = PartNames(vision="vision_model", bridge="aligner")


@configuration
class JanusConfig(MultimodalConfig):
    """The parts. `images`: what makes images of tokens.

    `n_bridge_layers`, `n_code_layers`: matrices behind the first between tower and text, and between
    codes of images and text. `d_code_bridge`: width of the latter. `d_image_token`: what the head of
    images reads.
    """

    images: Part
    d_code: Dim
    codebook_size: Dim
    d_code_bridge: Dim
    d_image_token: Dim
    n_bridge_layers: Dim | None = None
    n_code_layers: Dim | None = None

    letters = {
        **MultimodalConfig.letters,
        "images": "vq",
        "d_code": "Cq_vq",
        "codebook_size": "Q_vq",
        "d_code_bridge": "D_cb",
        "d_image_token": "D_it",
        "n_bridge_layers": "L_br",
        "n_code_layers": "L_cb",
    }
    meanings = {
        **MultimodalConfig.meanings,
        "d_code": "width of a code",
        "codebook_size": "codes",
        "d_code_bridge": "width between codes and text",
        "d_image_token": "width that the head of images reads",
        "n_bridge_layers": "matrices behind the first between tower and text",
        "n_code_layers": "matrices behind the first between codes and text",
    }


def janus(c: JanusConfig) -> Module:
    """Janus (arXiv:2410.13848), with the names of `JanusForConditionalGeneration`.

    Source: transformers `modeling_janus.py`.
    """
    code, codes = Axis("code", c.d_code), Axis("codes", c.codebook_size)
    bridge = Axis("bridge", c.d_bridge)
    aligner = _aligner(c.places.bridge, bridge, Axis("vision", c.d_vision), c.n_bridge_layers)
    # None of these runs where images are read and words written.
    images = c.images.module("vqmodel", layout=c.layout, inside="" if c.task == "base" else "model")
    between = Axis("bridge", c.d_code_bridge)
    head = (
        linear("proj_out", between, Axis("image", c.d_image_token), bias=True),
        Op("act", "gelu", {"width": between.size}),
        linear("vision_head", codes, between, bias=True),
    )
    writing = (
        images,
        embedding("generation_embeddings", codes, code),
        _aligner("generation_aligner", between, code, c.n_code_layers),
        Module("generation_head", head, component="head"),
    )
    return multimodal(c, aligner._replace(stream="encoder"), *(part._replace(uses=0) for part in writing))


def _aligner(name: str, out: Axis, inp: Axis, n_layers: Dim | None) -> Module:
    act = Op("act", "gelu", {"width": out.size})
    rest: tuple[Module, ...] = ()
    if n_layers is not None:
        rest = (Module("", (act, linear("hidden_layers", out, out, bias=True)._replace(repeat=n_layers))),)
    return Module(name, (linear("fc1", out, inp, bias=True), *rest), component="other")


ARCHITECTURES = {"janus": Architecture(JanusConfig, janus)}


def _vision(hf: HFConfig) -> Reading:
    given = vision_sizes(
        hf,
        d_ff=int(whole(hf, "hidden_size") * hf["mlp_ratio"]),
        n_patches=patches(hf),
        bias="qkvo" if hf["attention_bias"] else "o",
        qk_norm="full" if hf["use_qk_norm"] else None,
        module_names=CLIP._replace(output="projection_layer"),
    )
    return Reading("clip_vision", given)


def _vqvae(hf: HFConfig) -> Reading:
    """The blocks of the lowest resolution attend."""
    last = len(hf["channel_multiplier"]) - 1
    sizes = image_tokens(hf, attending=(last,), n_out_channels=hf["out_channels"])
    return Reading("chameleon_vqvae", sizes)


def _janus(hf: HFConfig) -> Reading:
    vision, images = hf.nested("vision_config"), hf.nested("vq_config")
    return reading(
        hf,
        "janus",
        vision=vision,
        d_vision=vision["hidden_size"],
        d_bridge=vision["projection_dim"],
        n_bridge_layers=whole(vision, "depth") - 1 or None,
        images=bare(images),
        d_code=images["embed_dim"],
        codebook_size=images["num_embeddings"],
        d_code_bridge=images["projection_dim"],
        n_code_layers=whole(images, "num_hidden_layers") - 1 or None,
        d_image_token=images["image_token_embed_dim"],
        places=PLACES,
    )


HF_READERS = {"janus": _janus, "janus_vision_model": _vision, "janus_vqgan": _vqvae}
