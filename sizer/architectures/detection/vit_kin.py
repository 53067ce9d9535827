"""YOLOS and TimeSformer: a ViT that finds objects, and one that also attends along time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import whole
from sizer.architectures.detection.detr import boxes
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import stored_names
from sizer.architectures.tower import attention, blocks
from sizer.architectures.vision.clip import ONE, side
from sizer.architectures.vision.vit import VitConfig, vit_model
from sizer.architectures.vision.vit_types import EARLY, read_vit
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

MIDDLE = (("encoder.interpolation.mid_position", "encoder.mid_position"),)
FUSED = EARLY._replace(qkv=("attention.qkv",))


@configuration
class KinConfig(VitConfig):
    """Sizes of what they add. `n_middle`: rows of the positions that YOLOS adds in its blocks.

    `n_moments`: frames with a position; `divided`: each block attends along time first.
    """

    n_middle: Dim | None = None
    n_moments: Dim | None = None
    divided: bool = False

    letters = {**VitConfig.letters, "n_middle": "Nm", "n_moments": "Nt"}
    meanings = {
        **VitConfig.meanings,
        "n_middle": "rows of the positions inside the blocks",
        "n_moments": "frames with a position",
    }


def yolos(c: KinConfig) -> Module:
    """YOLOS (arXiv:2106.00666), with the names of `YolosForObjectDetection`.

    Source: transformers `modeling_yolos.py`.
    """
    embed = Axis("embed", c.d_model)
    model = vit_model(c)
    if c.n_middle is not None:
        axes = (Axis("layers", c.n_layers - 1), ONE, Axis("middle", c.n_middle), embed)
        middle = Param("mid_position_embeddings", axes, component="position")
        model = (*model, Module("encoder.interpolation", (middle,)))
    tree = Module("", model)
    if c.task != "base":
        outputs = (embed, embed, Axis("labels", c.n_labels + 1))
        layers = (linear(f"layers.{i}", out, embed, bias=True) for i, out in enumerate(outputs))
        labels = Module("class_labels_classifier", tuple(layers), component="head")
        tree = Module("", (Module("vit", model), labels, boxes(embed)))
    return stored_names(tree, MIDDLE) if c.layout == "checkpoint" else tree


def timesformer(c: KinConfig) -> Module:
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


ARCHITECTURES = {
    "timesformer": Architecture(KinConfig, timesformer),
    "yolos": Architecture(KinConfig, yolos),
}


def _yolos(hf: HFConfig) -> Reading:
    detects = hf.cls.endswith("ForObjectDetection")
    if not detects and not hf.cls.endswith("Model"):
        raise UnknownName("class", hf.cls, ("YolosModel", "YolosForObjectDetection"), hint="of a yolos")
    (height, width), (rows, columns) = side(hf, "image_size"), side(hf, "patch_size")
    tokens = whole(hf, "num_detection_tokens")
    middle = 1 + height * width // (rows * columns) + tokens
    found = read_vit(
        hf,
        task="detection" if detects else "base",
        n_detection=tokens,
        n_positions=(height // rows) * (width // columns) + tokens + 1,
        n_middle=middle if hf["use_mid_position_embeddings"] else None,
        d_pooler=None if detects else hf["hidden_size"],
        module_names=EARLY,
    )
    return Reading("yolos", found.given)


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


HF_READERS = {"timesformer": _timesformer, "yolos": _yolos}
