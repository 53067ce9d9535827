"""GroupViT: a tower whose patches are gathered into groups, stage by stage, beside CLIP's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.decoders.reading import whole
from sizer.architectures.multimodal.contrastive import ContrastiveConfig
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, blocks, convolution
from sizer.architectures.vision.clip import VisionConfig, patches, vision_sizes
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, layer_norm, linear, mlp
from sizer.core.pattern import PerLayer
from sizer.core.tree import EACH, Axis, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)


@configuration
class GroupVisionConfig(VisionConfig):
    """Sizes of each stage of the tower.

    `groups`: learned tokens that gather others, `outputs`: what they become, `previous`: those of the
    stage before. `d_mix`: hidden width over the groups, `d_channels`: over the channels of one,
    `d_half`: over the groups of the stage before.
    """

    depths: PerLayer
    groups: PerLayer
    outputs: PerLayer
    previous: PerLayer
    d_mix: Dim
    d_channels: Dim
    d_half: Dim

    letters = {
        **VisionConfig.letters,
        "depths": "Ls",
        "groups": "G",
        "outputs": "Go",
        "previous": "Gp",
        "d_mix": "Fm",
        "d_channels": "Fc",
        "d_half": "Fh",
    }
    meanings = {
        **VisionConfig.meanings,
        "d_mix": "hidden width over the groups",
        "d_channels": "hidden width over the channels of a group",
        "d_half": "hidden width over the groups of the stage before",
    }


@configuration
class GroupVitConfig(ContrastiveConfig):
    """The towers; two matrices lead to where they meet, over a width `d_hidden`."""

    d_hidden: Dim

    letters = {**ContrastiveConfig.letters, "d_hidden": "Dh"}
    meanings = {**ContrastiveConfig.meanings, "d_hidden": "width on the way to where the towers meet"}


def group_vision(c: GroupVisionConfig) -> Module:
    """The tower, with the names of `GroupViTVisionModel`."""
    embed, side, rows = Axis("embed", c.d_model), Axis("patch", c.patch_size), Axis("patches", c.n_patches)
    embeddings = (
        Param("position_embeddings", (ONE, rows, embed), component="position"),
        convolution(
            "patch_embeddings.projection", embed, Axis("channels", c.n_channels), side, side, places=EACH
        ),
        layer_norm("layernorm", embed),
    )
    stages = (_stage(c, i, embed) for i in range(len(c.depths)))
    return Module("", (Module("embeddings", embeddings), *stages, layer_norm("layernorm", embed)))


def _stage(c: GroupVisionConfig, i: int, embed: Axis) -> Module:
    layers = blocks(c, name="layers", repeat=c.depths.sizes()[i])
    parts: Children = (layers,)
    if c.groups.values[i] is not None:
        groups, outputs = Axis("groups", c.groups.sizes()[i]), Axis("groups", c.outputs.sizes()[i])
        token = Param("group_token", (ONE, groups, embed), component="embedding")
        parts = (token, layers, Module("downsample", _gathering(c, embed, groups, outputs)))
        if c.previous.values[i] is not None:
            previous, hidden = Axis("groups", c.previous.sizes()[i]), Axis("ffn", c.d_half)
            projector = (layer_norm("0", embed), _mixer(c, "1", previous, hidden, groups))
            parts = (Module("group_projector", projector), *parts)
    return Module(f"encoder.stages.{i}", parts)


def _gathering(c: GroupVisionConfig, embed: Axis, groups: Axis, outputs: Axis) -> Children:
    """Groups attend to all patches, and each patch then goes to one of them."""
    ffn, heads = Axis("ffn", c.d_ff), heads_axis("heads", c.n_heads, c.d_head)
    return (
        layer_norm("norm_tokens", embed),
        _mixer(c, "mlp_inter", groups, Axis("ffn", c.d_mix), outputs),
        layer_norm("norm_post_tokens", embed),
        layer_norm("norm_x", embed),
        Module(
            "pre_assign_attn",
            (
                Module("attn", _attention(c, embed, heads, "out_proj"), component="attention"),
                layer_norm("norm2", embed),
                mlp("mlp", ffn, embed, act=c.act, names=("fc1", "fc2")),
                layer_norm("norm_post", embed),
            ),
        ),
        Module("assign", _attention(c, embed, heads, "proj"), component="attention"),
        layer_norm("norm_new_x", embed),
        mlp("mlp_channels", Axis("ffn", c.d_channels), embed, act=c.act, names=("fc1", "fc2")),
    )


def _attention(c: GroupVisionConfig, embed: Axis, heads: Axis, output: str) -> Children:
    return (
        *(linear(name, heads, embed, bias=True) for name in ("q_proj", "k_proj", "v_proj")),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False, cross=True),
        linear(output, embed, heads, bias=True),
    )


def _mixer(c: GroupVisionConfig, name: str, inp: Axis, hidden: Axis, out: Axis) -> Module:
    """An MLP over the groups rather than over the channels."""
    parts = (
        linear("fc1", hidden, inp, bias=True),
        Op("act", c.act, {"width": hidden.size}),
        linear("fc2", out, hidden, bias=True),
    )
    return Module(name, parts, component="mlp")


def groupvit(c: GroupVitConfig) -> Module:
    """GroupViT (arXiv:2202.11094), with the names of `GroupViTModel`.

    Source: transformers `modeling_groupvit.py`.
    """
    assert c.text is not None
    assert c.vision is not None
    meet, hidden = Axis("projection", c.d_projection), Axis("hidden", c.d_hidden)
    parts: Children = (
        c.text.module("text_model", layout=c.layout),
        c.vision.module("vision_model", layout=c.layout),
    )
    for name, width in (("visual_projection", c.d_vision), ("text_projection", c.d_text)):
        layers = (
            linear("0", hidden, Axis("tower", width), bias=True),
            batch_norm("1", hidden),
            linear("3", meet, hidden, bias=True),
        )
        parts = (*parts, Module(name, layers, component="head"))
    return Module("", (*parts, Param("logit_scale", (), component="head")))


ARCHITECTURES = {
    "group_vision": Architecture(GroupVisionConfig, group_vision),
    "groupvit": Architecture(GroupVitConfig, groupvit),
}


def _vision(hf: HFConfig) -> Reading:
    width, ratio = hf["hidden_size"], hf["assign_mlp_ratio"]
    mixing, channels = ratio if isinstance(ratio, list | tuple) else (ratio, ratio)
    lists = {key: list(hf[key]) for key in ("depths", "num_group_tokens", "num_output_groups")}
    depths, groups, outputs = lists.values()
    for key, values in lists.items():
        if len(values) < len(depths):
            raise InvalidConfig(f"{key} lists {len(values)} stages and depths {len(depths)}")
    given = vision_sizes(
        hf,
        n_layers=sum(depths),
        n_patches=patches(hf),
        depths=PerLayer(tuple(depths)),
        groups=PerLayer(tuple(n or None for n in groups)),
        outputs=PerLayer(tuple(n or None for n in outputs)),
        previous=PerLayer((None, *(n or None for n in outputs[:-1]))),
        d_mix=int(mixing * width),
        d_channels=int(channels * width),
        d_half=width // 2,
    )
    return Reading("group_vision", given)


def _groupvit(hf: HFConfig) -> Reading:
    vision, text = hf.nested("vision_config"), hf.nested("text_config")
    given = {
        "text": bare(text),
        "vision": bare(vision),
        "d_text": text["hidden_size"],
        "d_vision": vision["hidden_size"],
        "d_projection": whole(hf, "projection_dim"),
        "d_hidden": hf["projection_intermediate_dim"],
    }
    return Reading("groupvit", given)


HF_READERS = {"groupvit": _groupvit, "groupvit_vision_model": _vision}
