"""X-CLIP: CLIP over videos, whose frames send each other messages and whose words are prompted by them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.multimodal.contrastive import ContrastiveConfig
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import CLIP, Children, TowerConfig, attention, blocks
from sizer.architectures.vision.clip import VisionConfig, patches, vision_sizes, vision_tower
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
MESSAGES = CLIP._replace(attention="message_attn")


@configuration
class FramesConfig(TowerConfig):
    """Sizes of the tower over the frames of a video."""

    n_frames: Dim

    letters = {**TowerConfig.letters, "n_frames": "Nf"}
    meanings = {**TowerConfig.meanings, "n_frames": "frames of a video"}


@configuration
class XClipConfig(ContrastiveConfig):
    """The towers over words, frames and their outputs, and the layers that prompt the words."""

    frames: Part
    n_prompt_layers: Dim
    n_prompt_heads: Dim
    d_prompt_head: Dim | None = None
    prompt_act: str = "quick_gelu"

    letters = {
        **ContrastiveConfig.letters,
        "frames": "mit",
        "n_prompt_layers": "Lp",
        "n_prompt_heads": "Hp",
        "d_prompt_head": "Dhp",
    }
    meanings = {
        **ContrastiveConfig.meanings,
        "n_prompt_layers": "layers that prompt the words",
        "n_prompt_heads": "their heads",
        "d_prompt_head": "width of one of them",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.derive_quotient("d_prompt_head", "d_projection", "n_prompt_heads")


def xclip_vision(c: VisionConfig) -> Module:
    """The tower over images, with the names of `XCLIPVisionModel`: a frame's message goes to all frames."""
    embed = Axis("embed", c.d_model)
    messages = (
        linear("message_fc", embed, embed, bias=True, component="attention"),
        layer_norm("message_ln", embed),
        attention(replace(c, module_names=MESSAGES)),
    )
    stack = blocks(c, *messages)
    parts: Children = (*(stack if part.name == stack.name else part for part in vision_tower(c).children),)
    return Module("", parts)


def xclip_frames(c: FramesConfig) -> Module:
    """The tower over frames: the multiframe integration transformer."""
    axes = (ONE, Axis("frames", c.n_frames), Axis("embed", c.d_model))
    return Module("", (Param("position_embedding", axes, component="position"), blocks(c)))


def xclip(c: XClipConfig) -> Module:
    """X-CLIP (arXiv:2208.02816), with the names of `XCLIPModel`. Source: `modeling_x_clip.py`."""
    assert c.text is not None
    assert c.vision is not None
    meet = Axis("projection", c.d_projection)
    vision, text = Axis("vision", c.d_vision), Axis("text", c.d_text)
    prompts = (
        layer_norm("layernorm", meet),
        Module("decoder", _prompt_layer(c, meet), repeat=c.n_prompt_layers),
        Param("alpha", (meet,)),
    )
    parts: Children = (
        c.text.module("text_model", layout=c.layout),
        c.vision.module("vision_model", layout=c.layout, stream="encoder"),
        linear("visual_projection", meet, vision, component="head"),
        linear("text_projection", meet, text, component="head"),
        layer_norm("prompts_visual_layernorm", vision),
        Param("prompts_visual_projection", (vision, meet), "matmul", component="other"),
        c.frames.module("mit", layout=c.layout, stream="encoder"),
        Module("prompts_generator", prompts, component="other"),
        Param("logit_scale", (), component="head"),
    )
    return Module("", parts)


def _prompt_layer(c: XClipConfig, embed: Axis) -> Children:
    """Words attend to what was seen; the MLP is four times as wide."""
    ffn, heads = 4 * embed, heads_axis("heads", c.n_prompt_heads, c.d_prompt_head)
    cross = (
        *(linear(name, heads, embed) for name in ("q_proj", "k_proj", "v_proj")),
        *attention_core(c.n_prompt_heads, c.n_prompt_heads, c.d_prompt_head, cached=False, cross=True),
        linear("proj", embed, heads, bias=True),
    )
    feed = (
        linear("0", ffn, embed, bias=True),
        Op("act", c.prompt_act, {"width": ffn.size}),
        linear("3", embed, ffn, bias=True),
    )
    return (
        layer_norm("norm1", embed),
        Module("cross_attn", cross, component="attention"),
        layer_norm("norm3", embed),
        Module("mlp", feed, component="mlp"),
    )


ARCHITECTURES = {
    "xclip": Architecture(XClipConfig, xclip),
    "xclip_frames": Architecture(FramesConfig, xclip_frames),
    "xclip_vision": Architecture(VisionConfig, xclip_vision),
}


def _vision(hf: HFConfig) -> Reading:
    flags = {"class_token": True, "patch_bias": False, "pre_norm": "pre_layernorm"}
    return Reading("xclip_vision", vision_sizes(hf, n_patches=patches(hf), **flags))


def _frames(hf: HFConfig) -> Part:
    """The tower over frames, whose sizes stand in the configuration of that over images."""
    given = {
        "task": "base",
        "d_model": hf["mit_hidden_size"],
        "n_layers": hf["mit_num_hidden_layers"],
        "n_heads": hf["mit_num_attention_heads"],
        "d_ff": hf["mit_intermediate_size"],
        "n_frames": hf["num_frames"],
        "act": hf["hidden_act"],
    }
    return Part("xclip_frames", given)


def _xclip(hf: HFConfig) -> Reading:
    vision, text = hf.nested("vision_config"), hf.nested("text_config")
    given = {
        "text": bare(text),
        "vision": bare(vision),
        "frames": _frames(vision),
        "d_text": text["hidden_size"],
        "d_vision": vision["hidden_size"],
        "d_projection": whole(hf, "projection_dim"),
        "n_prompt_layers": hf["prompt_layers"],
        "n_prompt_heads": hf["prompt_num_attention_heads"],
        "prompt_act": hf["prompt_hidden_act"],
    }
    return Reading("xclip", given)


HF_READERS = {"xclip": _xclip, "xclip_vision_model": _vision}
