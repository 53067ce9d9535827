"""Phi-4 multimodal: Phi-3's decoder, with towers for images and sound below its embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.decoder import DecoderConfig, decoder
from sizer.architectures.decoders.phi import PHI3
from sizer.architectures.decoders.reading import dense, every, rotary_width
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module, Param

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


@configuration
class Phi4MultimodalConfig(DecoderConfig):
    """The decoder and its towers. `n_joined`: frames of sound that are one token of the text."""

    vision: Part
    audio: Part
    d_vision: Dim
    d_audio: Dim
    n_joined: Dim = 1

    letters = {
        **DecoderConfig.letters,
        "vision": "img",
        "audio": "aud",
        "d_vision": "D_img",
        "d_audio": "D_aud",
        "n_joined": "Nj",
    }
    meanings = {
        **DecoderConfig.meanings,
        "d_vision": "width of the vision tower",
        "d_audio": "width of the audio tower",
        "n_joined": "frames of sound in one token",
    }


def phi4_multimodal(c: Phi4MultimodalConfig) -> Module:
    """Phi-4 multimodal (arXiv:2503.01743), with the names of `Phi4MultimodalForCausalLM`.

    Source: transformers `modeling_phi4_multimodal.py`.
    """
    tree = decoder(c)
    towers = Module("embed_tokens_extend", (_image(c), _sound(c)), stream="encoder")
    if c.task == "base":
        return tree._replace(children=(towers, *tree.children))
    model, *head = tree.children
    assert isinstance(model, Module)
    return tree._replace(children=(model._replace(children=(towers, *model.children)), *head))


def _image(c: Phi4MultimodalConfig) -> Module:
    vision = Axis("vision", c.d_vision)
    return Module(
        "image_embed",
        (
            c.vision.module("img_processor", layout=c.layout),
            Param("global_img_feature_extensor", (ONE, ONE, vision), component="embedding"),
            Param("sub_img_feature_extensor", (ONE, ONE, ONE, vision), component="embedding"),
            *_projections(c, "img_projection_up", "img_projection_down", vision),
        ),
    )


def _sound(c: Phi4MultimodalConfig) -> Module:
    """The tower; its projections are others where an image stands beside the sound."""
    joined = Axis("audio", c.d_audio * c.n_joined)
    with_image = _projections(c, "up_proj_for_vision_speech", "down_proj_for_vision_speech", joined)
    return Module(
        "audio_embed",
        (
            c.audio.module("encoder", layout=c.layout),
            *_projections(c, "up_proj_for_speech", "down_proj_for_speech", joined),
            Module("", with_image, uses=0),
        ),
    )


def _projections(c: Phi4MultimodalConfig, up: str, down: str, width: Axis) -> Children:
    embed = Axis("embed", c.d_model)
    return (
        linear(up, embed, width, bias=True, component="other"),
        linear(down, embed, embed, bias=True, component="other"),
    )


ARCHITECTURES = {"phi4_multimodal": Architecture(Phi4MultimodalConfig, phi4_multimodal)}


def _phi4_multimodal(hf: HFConfig) -> Reading:
    vision, audio = hf.nested("vision_config"), hf.nested("audio_config")
    decoder = dense(hf, module_names=PHI3, d_rotary=rotary_width(hf, default=1.0), **every(hf)).given
    towers = {
        "vision": bare(vision),
        "audio": bare(audio),
        "d_vision": vision["hidden_size"],
        "d_audio": audio["hidden_size"],
        "n_joined": audio["downsample_rate"],
    }
    return Reading("phi4_multimodal", {**decoder, **towers})


HF_READERS = {"phi4_multimodal": _phi4_multimodal}
