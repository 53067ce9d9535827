"""HQ-SAM: a SAM with one mask more, which is drawn finer with features from within the tower."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.detection.sam_model import ONE, SamConfig, read_sam, sam, steps, upscale
from sizer.architectures.detection.vitdet import THREE
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, layer_norm
from sizer.core.tree import Axis, Module
from sizer.errors import UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class SamHqConfig(SamConfig):
    """The sizes of a SAM, and `d_vision`: channels of the features from within the tower."""

    d_vision: Dim

    letters = {**SamConfig.letters, "d_vision": "Cv"}
    meanings = {**SamConfig.meanings, "d_vision": "channels of features from within the tower"}


def sam_hq(c: SamHqConfig) -> Module:
    """HQ-SAM (arXiv:2306.01567), with the names of `SamHQModel`.

    Source: transformers `modeling_sam_hq.py`.
    """
    tree = sam(c)
    *before, decoder = tree.children
    assert isinstance(decoder, Module)
    return tree._replace(children=(*before, decoder._replace(children=(*decoder.children, *_finer(c)))))


def _finer(c: SamHqConfig) -> Children:
    """The token of the mask, what draws it, and the ways of three kinds of features to it."""
    embed, vision = Axis("embed", c.d_model), Axis("vision", c.d_vision)
    quarter, eighth = Axis("quarter", c.d_quarter), Axis("eighth", c.d_eighth)
    return (
        embedding("hq_token", ONE, embed),
        steps("hq_mask_mlp", embed, embed, eighth, 3),
        upscale("compress_vit_conv1", vision, embed),
        layer_norm("compress_vit_norm", embed),
        upscale("compress_vit_conv2", embed, eighth),
        upscale("encoder_conv1", embed, quarter),
        layer_norm("encoder_norm", quarter),
        upscale("encoder_conv2", quarter, eighth),
        convolution("mask_conv1", quarter, eighth, THREE, THREE, component="mixer"),
        layer_norm("mask_norm", quarter),
        convolution("mask_conv2", eighth, quarter, THREE, THREE, component="mixer"),
    )


ARCHITECTURES = {"sam_hq": Architecture(SamHqConfig, sam_hq)}


def _sam_hq(hf: HFConfig) -> Reading:
    if not hf.cls.endswith("Model"):
        raise UnknownName("class", hf.cls, ("SamHQModel",), hint="of a sam_hq")
    width = hf.nested("mask_decoder_config")["vit_dim"]
    return Reading("sam_hq", {**read_sam(hf).given, "d_vision": width})


HF_READERS = {"sam_hq": _sam_hq}
