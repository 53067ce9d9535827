"""EfficientLoFTR matches two images by their features, a few pixels at a time and then each."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import positive, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import LLAMA_LIKE, Children, TowerConfig, attention, batch_norm, convolution
from sizer.architectures.vision.lists import activation, as_list, as_size
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, first_and_rest, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Op
from sizer.errors import InvalidConfig, UnknownName, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE, THREE = Axis("one", 1), Axis("kernel", 3)
# What a file that does not list its stages has.
WIDTHS, DEPTHS, STRIDES = (64, 64, 128, 256), (1, 2, 4, 14), (2, 1, 2, 2)
# The share of a head that is turned, where a file does not say: both axes of an image, twice.
TURNED = 4.0


@configuration
class EfficientLoFTRConfig(TowerConfig):
    """Sizes and switches of an EfficientLoFTR.

    `widths`, `depths`: channels and blocks of each stage; `around`: the stages whose first block adds its
    input. `gathered`: the side of the squares of features that a query is made of. `d_turned`:
    frequencies of rotary positions.
    """

    widths: PerLayer
    depths: PerLayer
    around: tuple[bool, ...]
    gathered: Dim
    d_turned: Dim
    inner_act: str = "leaky_relu"

    letters = {
        **TowerConfig.letters,
        "widths": "C",
        "depths": "Lc",
        "gathered": "Kq",
        "d_turned": "Dx",
    }
    meanings = {
        **TowerConfig.meanings,
        "gathered": "side of the squares of a query",
        "d_turned": "frequencies of rotary positions",
    }


def efficientloftr(c: EfficientLoFTRConfig) -> Module:
    """EfficientLoFTR (arXiv:2403.04765). Source: transformers `modeling_efficientloftr.py`."""
    widths = [ONE, *(Axis("channels", width) for width in c.widths.sizes())]
    stages = (
        Module(f"backbone.stages.{i}", (_stage(widths[i], widths[i + 1], depth, c.around[i]),))
        for i, depth in enumerate(c.depths.sizes())
    )
    names = ("inv_freq", "original_inv_freq")
    turned = Axis("rotary", c.d_turned)
    frequencies = tuple(buffer(name, turned, persistent=False) for name in names)
    layer = (Module("self_attention", _half(c)), Module("cross_attention", _half(c)))
    model = (
        *stages,
        Module("local_feature_transformer.layers", layer, repeat=c.n_layers),
        *((Module("rotary_emb", frequencies),) if c.layout == "transformers" else ()),
    )
    if c.task == "base":
        return Module("", model)
    refined = Module("refinement_layer", _refinement(widths[:1:-1]), component="head")
    return Module("", (Module("efficientloftr", model), refined))


def _square(name: str, out: Axis, inp: Axis, side: Axis) -> Module:
    return convolution(name, out, inp, side, side, bias=False, component="mixer")


def _stage(inp: Axis, out: Axis, depth: Dim, around: bool) -> Module:
    identity = (batch_norm("identity", out),)
    first = (*_block(inp, out), *(identity if around else ()))
    return first_and_rest("blocks", first, (*_block(out, out), *identity), depth)


def _block(inp: Axis, out: Axis) -> Children:
    sides = {"conv1": THREE, "conv2": ONE}
    return tuple(
        Module(name, (_square("conv", out, inp, side), batch_norm("norm", out)))
        for name, side in sides.items()
    )


def _half(c: EfficientLoFTRConfig) -> Children:
    """Attention between squares of features, and an MLP over each of them with what it saw."""
    embed, ffn, side = Axis("embed", c.d_model), Axis("ffn", c.d_ff), Axis("kernel", c.gathered)
    gather = (_square("q_aggregation", embed, ONE, side), layer_norm("norm", embed))
    inside = (
        linear("fc1", ffn, 2 * embed),
        Op("act", c.inner_act, {"width": ffn.size}),
        linear("fc2", embed, ffn),
        layer_norm("layer_norm", embed),
    )
    return (
        Module("aggregation", gather),
        attention(c)._replace(name="attention"),
        Module("mlp", inside, component="mlp"),
    )


def _refinement(widths: list[Axis]) -> Children:
    """From the last features to those of the stages before, each as large as it was."""
    layers = (
        Module(
            f"out_conv_layers.{i}",
            (
                _square("out_conv1", coarse, fine, ONE),
                _square("out_conv2", coarse, coarse, THREE),
                batch_norm("batch_norm", coarse),
                _square("out_conv3", fine, coarse, THREE),
            ),
        )
        for i, (coarse, fine) in enumerate(pairwise(widths))
    )
    return (_square("out_conv", widths[0], widths[0], ONE), *layers)


ARCHITECTURES = {"efficientloftr": Architecture(EfficientLoFTRConfig, efficientloftr)}


def _efficientloftr(hf: HFConfig) -> Reading:
    known = ("EfficientLoFTRModel", "EfficientLoFTRForKeypointMatching")
    if hf.cls not in known:
        raise UnknownName("class", hf.cls, known, hint="of an efficientloftr")
    widths, depths, strides = (
        tuple(as_size(key, entry) for entry in as_list(key, usual if hf[key] is None else hf[key]))
        for key, usual in (("out_features", WIDTHS), ("stage_num_blocks", DEPTHS), ("stage_stride", STRIDES))
    )
    width, n_heads = whole(hf, "hidden_size"), whole(hf, "num_attention_heads")
    if not len(widths) == len(depths) == len(strides) >= 2:
        raise InvalidConfig("out_features, stage_num_blocks and stage_stride list different stages, or one")
    if width != widths[-1]:
        raise InvalidConfig(f"hidden_size = {width} is not the last of out_features, {widths[-1]}")
    given = {
        "task": "base" if hf.cls == known[0] else "keypoint_matching",
        "widths": PerLayer(widths),
        "depths": PerLayer(depths),
        "around": tuple(
            inp == out and stride == 1
            for (inp, out), stride in zip(pairwise((1, *widths)), strides, strict=True)
        ),
        "gathered": whole(hf, "q_aggregation_kernel_size"),
        "d_turned": _turned(hf, width // n_heads),
        "d_model": width,
        "n_layers": whole(hf, "num_attention_layers"),
        "n_heads": n_heads,
        # Both follow from other keys, unless a file has them besides.
        "n_kv_heads": whole(hf, "num_key_value_heads") if hf.given("num_key_value_heads") else None,
        "d_ff": whole(hf, "intermediate_size") if hf.given("intermediate_size") else 2 * width,
        "bias": "qkvo" if hf["attention_bias"] else "",
        "act": activation(hf, "activation_function"),
        "inner_act": activation(hf, "mlp_activation_function"),
        "module_names": LLAMA_LIKE,
    }
    return Reading("efficientloftr", given)


def _turned(hf: HFConfig, d_head: int) -> int:
    rope: Any = hf.in_file("rope_parameters") or {}
    if not isinstance(rope, dict) or rope.get("rope_type", "default") != "default":
        raise InvalidConfig(f"rope_parameters = {clip(repr(rope))} are not those of the default kind")
    if hf.given("head_dim"):
        raise InvalidConfig("head_dim: a width of heads of its own is not read for this type")
    share = positive("partial_rotary_factor", rope.get("partial_rotary_factor", TURNED))
    return -(-int(d_head * share) // 2)


HF_READERS = {"efficientloftr": _efficientloftr}
