"""YOLOS: a ViT that finds objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import whole
from sizer.architectures.detection.detr import boxes
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.stored import stored_names
from sizer.architectures.vision.clip import ONE, side
from sizer.architectures.vision.vit import VitConfig, vit_model
from sizer.architectures.vision.vit_types import EARLY, read_vit
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module, Param, Places
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

MIDDLE = (("encoder.interpolation.mid_position", "encoder.mid_position"),)


@configuration
class YolosConfig(VitConfig):
    """Sizes of what it adds. `n_middle`: rows of the positions that are added in the blocks."""

    n_middle: Dim | None = None

    letters = {**VitConfig.letters, "n_middle": "Nm"}
    meanings = {**VitConfig.meanings, "n_middle": "rows of the positions inside the blocks"}


def yolos(c: YolosConfig) -> Module:
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
        found = Module("", (labels, boxes(embed)), places=Places(c.n_detection))
        tree = Module("", (Module("vit", model), found))
    return stored_names(tree, MIDDLE) if c.layout == "checkpoint" else tree


ARCHITECTURES = {"yolos": Architecture(YolosConfig, yolos)}


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


HF_READERS = {"yolos": _yolos}
