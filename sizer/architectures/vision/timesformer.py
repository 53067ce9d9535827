"""TimeSformer: a ViT that also attends along time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, attention, blocks
from sizer.architectures.vision.clip import ONE
from sizer.architectures.vision.vit import VitConfig, vit_model
from sizer.architectures.vision.vit_types import EARLY, read_vit
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import ONCE, Axis, Module, Param, Places
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# How blocks attend, by the word for it in a configuration.
KINDS = {"divided_space_time": "divided", "space_only": "frames", "joint_space_time": "joint"}
FUSED = EARLY._replace(qkv=("attention.qkv",))


@configuration
class TimesformerConfig(VitConfig):
    """Sizes of what it adds. `n_seen_frames`: frames of a video; `n_moments`: those with a position.

    `kind`: blocks attend within "frames", to everything ("joint"), or along time and then within a
    frame ("divided").
    """

    n_seen_frames: Dim = 8
    n_moments: Dim | None = None
    kind: str = "frames"

    letters = {**VitConfig.letters, "n_moments": "Nt", "n_seen_frames": "Nv"}
    meanings = {
        **VitConfig.meanings,
        "n_moments": "frames with a position",
        "n_seen_frames": "frames of a video",
    }


def timesformer(c: TimesformerConfig) -> Module:
    """TimeSformer (arXiv:2102.05095), with the names of `TimesformerModel`.

    Source: transformers `modeling_timesformer.py`.
    """
    embed = Axis("embed", c.d_model)
    embeddings, _, *rest = vit_model(c)
    assert isinstance(embeddings, Module)
    *tokens, patches, table = embeddings.children
    assert isinstance(patches, Module)
    patches = patches._replace(places=Places(c.n_patches * c.n_seen_frames))
    moments: Children = ()
    if c.n_moments is not None:
        axes = (ONE, Axis("moments", c.n_moments), embed)
        moments = (Param("time_embeddings", axes, component="position"),)
    embeddings = embeddings._replace(children=(*tokens, patches, table, *moments))
    model = (embeddings, _blocks(c, embed), *rest)
    if c.task == "base":
        return Module("", model)
    labels = Axis("labels", c.n_labels)
    classifier = linear("classifier", labels, embed, bias=True, component="head", places=ONCE)
    return Module("", (Module("timesformer", model), classifier))


def _blocks(c: TimesformerConfig, embed: Axis) -> Module:
    """Blocks that attend within each frame, within each patch along time, or everywhere."""
    moving, frame = c.n_patches * c.n_seen_frames, c.n_patches + 1
    everywhere, framed = Places(moving + 1), Places(frame * c.n_seen_frames)
    if c.kind == "joint":
        return blocks(c)._replace(places=everywhere)
    in_frame = replace(c, window=frame)
    if c.kind == "frames":
        return blocks(in_frame)._replace(places=framed)
    along = (
        layer_norm("temporal_layernorm", embed),
        attention(replace(c, window=c.n_seen_frames))._replace(name="temporal_attention"),
        linear("temporal_dense", embed, embed, bias=True, component="attention"),
    )
    block = blocks(in_frame, Module("", along, places=Places(moving)))
    children = (
        child._replace(places=framed)
        if isinstance(child, Module) and child.name == c.module_names.attention
        else child
        for child in block.children
    )
    return block._replace(children=tuple(children), places=everywhere)


ARCHITECTURES = {"timesformer": Architecture(TimesformerConfig, timesformer)}


def _timesformer(hf: HFConfig) -> Reading:
    kind = hf["attention_type"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidConfig(f"attention_type = {clip(repr(kind))} is none of those that are known")
    video = hf.cls.endswith("ForVideoClassification")
    found = read_vit(
        hf,
        **({"task": "video_classification"} if video else {}),
        bias="qkvo" if hf["qkv_bias"] else "o",
        n_moments=None if kind == "space_only" else hf["num_frames"],
        n_seen_frames=hf["num_frames"],
        kind=KINDS[kind],
        module_names=FUSED,
    )
    return Reading("timesformer", found.given)


HF_READERS = {"timesformer": _timesformer}
