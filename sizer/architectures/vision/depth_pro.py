"""Depth Pro: two DINOv2 over patches of an image at several scales, and what joins their features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import whole
from sizer.architectures.parts import Part, part_of
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.architectures.vision.lists import listed, listed_sizes
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Leaf, Module, Param
from sizer.errors import InvalidConfig, UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE, TWO, THREE = Axis("one", 1), Axis("kernel", 2), Axis("kernel", 3)


@configuration
class DepthProConfig(Config):
    """The encoders, their widths, and those of the features that are joined.

    `scaled`, `hooked`: channels of the features of each scale, and of each layer that is read besides.
    `matched`: the last of them are as many as are joined.
    """

    image: Part
    patch: Part
    d_image: Dim
    d_patch: Dim
    d_fusion: Dim
    scaled: PerLayer
    hooked: PerLayer
    matched: bool = True
    task: str = "base"

    letters = {
        "image": "img",
        "patch": "pat",
        "d_image": "D_img",
        "d_patch": "D_pat",
        "d_fusion": "Df",
        "scaled": "Cs",
        "hooked": "Ch",
    }
    meanings = {
        "d_image": "width of the encoder of the image",
        "d_patch": "width of the encoder of its patches",
        "d_fusion": "channels that are joined",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def depth_pro(c: DepthProConfig) -> Module:
    """Depth Pro (arXiv:2410.02073), with the names of `DepthProModel`.

    Source: transformers `modeling_depth_pro.py`.
    """
    image, fusion = Axis("embed", c.d_image), Axis("fusion", c.d_fusion)
    scaled = [Axis("channels", width) for width in c.scaled.sizes()]
    hooked = [Axis("channels", width) for width in c.hooked.sizes()]
    first = scaled[0]
    upsample = (
        _larger("image_block.layers.0", image, first, bias=True),
        *(Module(f"scaled_images.{i}", _steps(c, out, out, 1)) for i, out in enumerate(scaled)),
        *(
            Module(f"intermediate.{i}", _steps(c, out if i else fusion, out, 2 + i))
            for i, out in enumerate(hooked)
        ),
    )
    features = [*scaled, *hooked]
    projected = features[:-1] if c.matched else features
    projections = (
        convolution(f"projections.{i}", fusion, inp, THREE, THREE, bias=False, component="mixer")
        for i, inp in enumerate(projected)
    )
    neck = (
        Module("feature_upsample", upsample),
        convolution("fuse_image_with_low_res", first, 2 * first, ONE, ONE, component="mixer"),
        Module("feature_projection", tuple(projections)),
    )
    return Module(
        "",
        (
            c.patch.module("encoder.patch_encoder.model", layout=c.layout),
            c.image.module("encoder.image_encoder.model", layout=c.layout),
            Module("neck", neck),
        ),
    )


def _steps(c: DepthProConfig, inner: Axis, out: Axis, count: int) -> Children:
    """A projection, and convolutions that each double the sides."""
    first = convolution("layers.0", inner, Axis("embed", c.d_patch), ONE, ONE, bias=False, component="mixer")
    inputs = (inner, *(out for _ in range(count - 1)))
    return (first, *(_larger(f"layers.{i}", inp, out) for i, inp in enumerate(inputs, 1)))


def _larger(name: str, inp: Axis, out: Axis, *, bias: bool = False) -> Module:
    """A convolution the other way round, whose weight is `[in, out, …]`."""
    weight = Param("weight", (inp, out, TWO, TWO), "matmul")
    leaves: tuple[Leaf, ...] = (weight, Param("bias", (out,))) if bias else (weight,)
    return Module(name, leaves, component="mixer", kind="conv")


ARCHITECTURES = {"depth_pro": Architecture(DepthProConfig, depth_pro)}


def _depth_pro(hf: HFConfig) -> Reading:
    if hf.cls != "DepthProModel":
        raise UnknownName("class", hf.cls, ("DepthProModel",), hint="of a depth_pro")
    scaled, hooked = (
        listed_sizes(hf, "scaled_images_feature_dims"),
        listed_sizes(hf, "intermediate_feature_dims"),
    )
    listed(hf, "scaled_images_ratios", len(scaled))
    listed(hf, "scaled_images_overlap_ratios", len(scaled))
    listed(hf, "intermediate_hook_ids", len(hooked))
    image, patch = _encoder(hf, "image_model_config"), _encoder(hf, "patch_model_config")
    fusion = whole(hf, "fusion_hidden_size")
    given = {
        "task": "base",
        "image": part_of(image),
        "patch": part_of(patch),
        "d_image": whole(image, "hidden_size"),
        "d_patch": whole(patch, "hidden_size"),
        "d_fusion": fusion,
        "scaled": PerLayer(scaled),
        "hooked": PerLayer(hooked),
        "matched": hooked[-1] == fusion,
    }
    return Reading("depth_pro", given)


def _encoder(hf: HFConfig, key: str) -> HFConfig:
    """An encoder, which reads images of the side that the whole cuts its patches to."""
    own = hf.nested(key, "dinov2")
    if own.model_type != "dinov2":
        raise InvalidConfig(f"{key} is a {own.model_type}; only dinov2 is read")
    if not hf.in_file(key) and own["image_size"] != hf["patch_size"]:
        raise InvalidConfig(f"patch_size is not the side of the images of {key}, {own['image_size']}")
    return own.having(image_size=hf["patch_size"])


HF_READERS = {"depth_pro": _depth_pro}
