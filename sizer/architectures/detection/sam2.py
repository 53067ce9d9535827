"""SAM 2 over an image: Hiera below, and a SAM's decoder that also reads finer features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.detection.sam_model import (
    ONE,
    SamConfig,
    decoder_fields,
    decoder_of,
    prompts_of,
    steps,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, renamed
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# What SAM 2 calls modules that SAM names otherwise.
NAMES = {"out_proj": "o_proj", "lin1": "proj_in", "lin2": "proj_out"}


@configuration
class Sam2Config(SamConfig):
    """The sizes of a SAM, and `d_neck`: channels that the tower gives."""

    d_neck: Dim

    letters = {**SamConfig.letters, "d_neck": "Dn"}
    meanings = {**SamConfig.meanings, "d_neck": "channels that the tower gives"}


def sam2(c: Sam2Config) -> Module:
    """SAM 2 (arXiv:2408.00714), with the names of `Sam2Model`. Source: transformers `modeling_sam2.py`."""
    directions = (Axis("axes", 2), Axis("features", c.n_features))
    shared = buffer("positional_embedding", *directions, component="position")
    _, mask, no_mask, _, no_point = prompts_of(c, shared)
    points = embedding("point_embed", Axis("points", c.n_points), Axis("embed", c.d_model))
    prompts = (Module("shared_embedding", (shared,)), mask, no_mask, points, no_point)
    nothing = (ONE, ONE, Axis("neck", c.d_neck))
    return Module(
        "",
        (
            Module("shared_image_embedding", (shared,)),
            c.vision.module("vision_encoder", layout=c.layout, stream="encoder"),
            Param("no_memory_embedding", nothing, component="embedding"),
            Module("prompt_encoder", prompts),
            Module("mask_decoder", _decoder(c)),
        ),
    )


def _decoder(c: Sam2Config) -> Children:
    """SAM's, with finer features, and a token that says whether the thing is there at all."""
    embed = Axis("embed", c.d_model)
    quarter, eighth = Axis("quarter", c.d_quarter), Axis("eighth", c.d_eighth)
    return (
        *renamed(Module("", decoder_of(c)), NAMES).children,
        convolution("conv_s0", eighth, embed, ONE, ONE, component="mixer"),
        convolution("conv_s1", quarter, embed, ONE, ONE, component="mixer"),
        embedding("obj_score_token", ONE, embed),
        steps("pred_obj_score_head", embed, embed, ONE, 3),
    )


ARCHITECTURES = {"sam2": Architecture(Sam2Config, sam2)}


def read_sam2(hf: HFConfig, name: str, tower: str) -> Reading:
    """A SAM 2 of that name over that kind of tower."""
    if not hf.cls.endswith("Model"):
        raise UnknownName("class", hf.cls, (name,), hint=f"of a {hf.model_type}")
    vision, fields = hf.nested("vision_config"), decoder_fields(hf)
    if vision.model_type != tower:
        raise InvalidConfig(f"vision_config: {clip(vision.model_type)} is not described; a {tower} is")
    n_layers = fields["n_layers"]
    given = {
        **fields,
        "vision": bare(vision),
        "d_neck": vision["fpn_hidden_size"],
        "n_features": fields["d_model"] // 2,
        "d_inner": fields["d_final"],
        # transformers makes the MLPs as deep as there are blocks.
        "n_between": n_layers - 2 if n_layers > 2 else None,
    }
    return Reading("sam2", given)


def _sam2(hf: HFConfig) -> Reading:
    return read_sam2(hf, "Sam2Model", "sam2_vision_model")


def _tracker(hf: HFConfig) -> Reading:
    """SAM 3's, which cuts out what points and boxes show, is a SAM 2 over another tower."""
    return read_sam2(hf, "Sam3TrackerModel", "sam3_vision_model")


HF_READERS = {"sam2": _sam2, "sam3_tracker": _tracker}
