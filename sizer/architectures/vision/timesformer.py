"""TimeSformer: a ViT that also attends along time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import attention, blocks
from sizer.architectures.vision.clip import ONE
from sizer.architectures.vision.vit import VitConfig, vit_model
from sizer.architectures.vision.vit_types import EARLY, read_vit
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

FUSED = EARLY._replace(qkv=("attention.qkv",))


@configuration
class TimesformerConfig(VitConfig):
    """Sizes of what it adds. `n_moments`: frames with a position.

    `divided`: each block attends along time first.
    """

    n_moments: Dim | None = None
    divided: bool = False

    letters = {**VitConfig.letters, "n_moments": "Nt"}
    meanings = {**VitConfig.meanings, "n_moments": "frames with a position"}


def timesformer(c: TimesformerConfig) -> Module:
    """TimeSformer (arXiv:2102.05095), with the names of `TimesformerModel`.

    Source: transformers `modeling_timesformer.py`.
    """
    embed = Axis("embed", c.d_model)
    along = (
        layer_norm("temporal_layernorm", embed),
        attention(c)._replace(name="temporal_attention"),
        linear("temporal_dense", embed, embed, bias=True, component="attention"),
    )
    embeddings, _, *rest = vit_model(c)
    assert isinstance(embeddings, Module)
    if c.n_moments is not None:
        axes = (ONE, Axis("moments", c.n_moments), embed)
        table = Param("time_embeddings", axes, component="position")
        embeddings = embeddings._replace(children=(*embeddings.children, table))
    model = (embeddings, blocks(c, *(along if c.divided else ())), *rest)
    if c.task == "base":
        return Module("", model)
    classifier = linear("classifier", Axis("labels", c.n_labels), embed, bias=True, component="head")
    return Module("", (Module("timesformer", model), classifier))


ARCHITECTURES = {"timesformer": Architecture(TimesformerConfig, timesformer)}


def _timesformer(hf: HFConfig) -> Reading:
    kind = hf["attention_type"]
    if kind not in ("divided_space_time", "space_only", "joint_space_time"):
        raise InvalidConfig(f"attention_type = {clip(repr(kind))} is none of those that are known")
    video = hf.cls.endswith("ForVideoClassification")
    found = read_vit(
        hf,
        **({"task": "video_classification"} if video else {}),
        bias="qkvo" if hf["qkv_bias"] else "o",
        n_moments=None if kind == "space_only" else hf["num_frames"],
        divided=kind == "divided_space_time",
        module_names=FUSED,
    )
    return Reading("timesformer", found.given)


HF_READERS = {"timesformer": _timesformer}
