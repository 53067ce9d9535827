"""SuperPoint finds points of an image and describes them; LightGlue matches those of two images."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import whole
from sizer.architectures.parts import Part, part_of
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import LLAMA_LIKE, Children, TowerConfig, attention, convolution
from sizer.architectures.vision.lists import activation, listed_sizes
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Op
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE, TWO, THREE = Axis("one", 1), Axis("axes", 2), Axis("kernel", 3)


@configuration
class SuperPointConfig(Config):
    """Sizes of a SuperPoint.

    `widths`: channels of each block; `d_decoder`: of both decoders; `n_scores`: places of a point in a
    square, and none of them; `d_descriptor`: width of what describes a point.
    """

    widths: PerLayer
    d_decoder: Dim
    n_scores: Dim
    d_descriptor: Dim
    task: str = "base"

    letters = {"widths": "C", "d_decoder": "Cd", "n_scores": "Ns", "d_descriptor": "Dd"}
    meanings = {
        "d_decoder": "channels of the decoders",
        "n_scores": "places of a point",
        "d_descriptor": "width of a description",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def superpoint(c: SuperPointConfig) -> Module:
    """SuperPoint (arXiv:1712.07629). Source: transformers `modeling_superpoint.py`."""
    widths = [ONE, *(Axis("channels", width) for width in c.widths.sizes())]
    blocks = (
        Module(f"encoder.conv_blocks.{i}", (_square("conv_a", out, inp), _square("conv_b", out, out)))
        for i, (inp, out) in enumerate(pairwise(widths))
    )
    last, inner = widths[-1], Axis("channels", c.d_decoder)
    scores, description = Axis("scores", c.n_scores), Axis("descriptor", c.d_descriptor)
    return Module(
        "",
        (
            *blocks,
            _square("keypoint_decoder.conv_score_a", inner, last),
            convolution("keypoint_decoder.conv_score_b", scores, inner, ONE, ONE, component="head"),
            _square("descriptor_decoder.conv_descriptor_a", inner, last),
            convolution(
                "descriptor_decoder.conv_descriptor_b", description, inner, ONE, ONE, component="head"
            ),
        ),
    )


def _square(name: str, out: Axis, inp: Axis) -> Module:
    return convolution(name, out, inp, THREE, THREE, act="relu", component="mixer")


@configuration
class LightGlueConfig(TowerConfig):
    """Sizes of a LightGlue. `detector`: what finds and describes points, in `d_detector` numbers.

    `projected`: those numbers are not as many as the width. `d_rotary`: frequencies that two coordinates
    are projected to.
    """

    detector: Part
    d_detector: Dim
    projected: bool = False

    letters = {**TowerConfig.letters, "detector": "det", "d_detector": "D_det"}
    meanings = {
        **TowerConfig.meanings,
        "d_detector": "width of a description",
        "d_rotary": "frequencies of a point's position",
    }


def lightglue(c: LightGlueConfig) -> Module:
    """LightGlue (arXiv:2306.13643). Source: transformers `modeling_lightglue.py`."""
    embed, one = Axis("embed", c.d_model), Axis("one", 1)
    layer = (*_half(c, "self", embed), *_half(c, "cross", embed))
    assignment = (
        linear("final_projection", embed, embed, bias=True),
        linear("matchability", one, embed, bias=True),
    )
    first = linear(
        "input_projection", embed, Axis("descriptor", c.d_detector), bias=True, component="embedding"
    )
    position = linear("projector", Axis("rotary", c.d_rotary), TWO, component="position")
    confidence = (linear("token", one, embed, bias=True),)
    return Module(
        "",
        (
            c.detector.module("keypoint_detector", layout=c.layout),
            *((first,) if c.projected else ()),
            Module("positional_encoder", (position,)),
            Module("transformer_layers", layer, repeat=c.n_layers),
            Module("match_assignment_layers", assignment, repeat=c.n_layers, component="head"),
            Module("token_confidence", confidence, repeat=c.n_layers - 1, component="head"),
        ),
    )


def _half(c: LightGlueConfig, kind: str, embed: Axis) -> Children:
    """Attention to the points of an image, its own or the other, and an MLP over both sides of it."""
    both = Axis("ffn", c.d_ff)
    mlp = (
        linear("fc1", both, both, bias=True),
        layer_norm("layer_norm", both),
        Op("act", c.act, {"width": both.size}),
        linear("fc2", embed, both, bias=True),
    )
    return (
        attention(c)._replace(name=f"{kind}_attention"),
        Module(f"{kind}_mlp", mlp, component="mlp"),
    )


ARCHITECTURES = {
    "lightglue": Architecture(LightGlueConfig, lightglue),
    "superpoint": Architecture(SuperPointConfig, superpoint),
}


def _superpoint(hf: HFConfig) -> Reading:
    widths = listed_sizes(hf, "encoder_hidden_sizes")
    if len(widths) == 1:
        raise InvalidConfig("encoder_hidden_sizes lists 1 block; there are at least two")
    given = {
        "task": "base",
        "widths": PerLayer(widths),
        "d_decoder": whole(hf, "decoder_hidden_size"),
        "n_scores": whole(hf, "keypoint_decoder_dim"),
        "d_descriptor": whole(hf, "descriptor_decoder_dim"),
    }
    return Reading("superpoint", given)


def _lightglue(hf: HFConfig) -> Reading:
    own = hf.nested("keypoint_detector_config", "superpoint")
    if own.model_type != "superpoint":
        raise InvalidConfig(f"keypoint_detector_config is a {own.model_type}; only superpoint is read")
    width, n_heads = whole(hf, "descriptor_dim"), whole(hf, "num_attention_heads")
    if width % n_heads or width // n_heads < 2:
        raise InvalidConfig(f"descriptor_dim = {width} is not num_attention_heads = {n_heads} pairs or more")
    detector = whole(own, "descriptor_decoder_dim")
    given = {
        "task": "base",
        "detector": part_of(own),
        "d_detector": detector,
        "projected": detector != width,
        "d_model": width,
        "n_layers": whole(hf, "num_hidden_layers"),
        "n_heads": n_heads,
        "n_kv_heads": None if hf["num_key_value_heads"] is None else whole(hf, "num_key_value_heads"),
        "d_head": whole(hf, "head_dim") if hf.given("head_dim") else None,
        "d_ff": 2 * width,
        "d_rotary": width // n_heads // 2,
        "bias": "qkvo" if hf["attention_bias"] else "",
        "act": activation(hf, "hidden_act"),
        "module_names": LLAMA_LIKE,
    }
    return Reading("lightglue", given)


HF_READERS = {"lightglue": _lightglue, "superpoint": _superpoint}
