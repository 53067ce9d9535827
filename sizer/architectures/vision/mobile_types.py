"""How MobileNet V2 and MobileViT follow from their configurations: widths that a factor scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import positive, whole
from sizer.architectures.registry import Reading
from sizer.architectures.vision.grid import image_sides
from sizer.architectures.vision.lists import activation
from sizer.architectures.vision.scaled import listed, rounded
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import check_size
from sizer.core.pattern import PerLayer
from sizer.errors import InvalidConfig, shown

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# Channels of MobileNet V2's blocks, and of the convolutions before and after them.
STEM, TOP = 32, 1280
# Steps of the blocks of MobileNet V2, over pixels.
STEPS = (2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1)
BLOCKS = (16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320)
# Blocks of MobileViT's first stages, of convolutions, and of those of attention.
FIRST, ATTENDING = (1, 3), (2, 4, 3)
# The same of V2, and the channels of its stages before they are scaled.
FIRST_V2, STAGES_V2 = (1, 2), (64, 128, 256, 384, 512)


def _common(hf: HFConfig) -> dict[str, Any]:
    return {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "n_channels": hf["num_channels"],
        "act": activation(hf, "hidden_act"),
    }


def _mobilenet_v2(hf: HFConfig) -> Reading:
    divisor, least = whole(hf, "depth_divisible_by"), whole(hf, "min_depth")
    factor = positive("depth_multiplier", hf["depth_multiplier"])
    ratio = positive("expand_ratio", hf["expand_ratio"])

    def scaled(width: int, times: float) -> int:
        return rounded("a width of the network", round(width * times), divisor, least)

    widths = tuple(scaled(width, factor) for width in BLOCKS)
    given = {
        **_common(hf),
        "d_stem": scaled(STEM, factor),
        "widths": PerLayer(widths),
        "expanded": PerLayer(tuple(scaled(width, ratio) for width in widths[:-1])),
        "d_top": TOP if hf["finegrained_output"] and factor < 1 else scaled(TOP, factor),
        "expands_first": not hf["first_layer_is_expansion"],
        "steps": _steps(hf.get("output_stride", 32)),
        **image_sides(hf),
    }
    return Reading("mobilenet_v2", given)


def _steps(most: int) -> tuple[int, ...]:
    """The steps of the blocks, until an image is shrunk that far; the rest look further instead."""
    found, shrunk = [], 2
    for step in STEPS:
        found.append(1 if shrunk == most else step)
        shrunk *= found[-1]
    return tuple(found)


def _stages(hf: HFConfig, stem: int, widths: tuple[int, ...], n_first: int) -> dict[str, Any]:
    """The sizes of the convolutions: each block is wide by a factor of what it reads."""
    ratio = positive("expand_ratio", hf["expand_ratio"])

    def wide(sizes: tuple[int, ...]) -> PerLayer:
        return PerLayer(tuple(rounded("expand_ratio times a width", round(n * ratio), 8) for n in sizes))

    return {
        **_common(hf),
        "d_stem": stem,
        "widths": PerLayer(widths),
        "expanded": wide((stem, *widths[:-1])),
        "inner": wide(widths[:n_first]),
        "kernel": whole(hf, "conv_kernel_size"),
    }


def _mobilevit(hf: HFConfig) -> Reading:
    stem, *widths, top = listed(hf, "neck_hidden_sizes", 7)
    d_models, heads = listed(hf, "hidden_sizes", 3), whole(hf, "num_attention_heads")
    if any(width % heads for width in d_models):
        raise InvalidConfig(
            f"hidden_sizes = {shown(list(d_models))} are not all multiples of num_attention_heads = {heads}"
        )
    ratio = positive("mlp_ratio", hf["mlp_ratio"])
    given = {
        **_stages(hf, stem, tuple(widths), len(FIRST)),
        "depths": PerLayer((*FIRST, *ATTENDING)),
        "d_models": PerLayer(d_models),
        "n_heads": heads,
        "head_widths": PerLayer(tuple(width // heads for width in d_models)),
        "ffns": _ffns(tuple(int(width * ratio) for width in d_models)),
        "d_top": top,
        "qkv_bias": bool(hf["qkv_bias"]),
    }
    return Reading("mobilevit", given)


def _mobilevitv2(hf: HFConfig) -> Reading:
    """The widths of V2 are those of one network, times a factor."""
    factor = positive("width_multiplier", hf["width_multiplier"])
    divisors = (16, 8, 8, 8, 8)

    def scaled(width: int, divisor: int = 8) -> int:
        return rounded("width_multiplier times a width", width * factor, divisor)

    d_models = tuple(scaled(width) for width in listed(hf, "base_attn_unit_dims", 3))
    times = whole(hf, "ffn_multiplier")
    stem = rounded("the first width", max(16, min(64, 32 * factor)), 8, 16)
    widths = tuple(scaled(width, divisor) for width, divisor in zip(STAGES_V2, divisors, strict=True))
    given = {
        **_stages(hf, stem, widths, len(FIRST_V2)),
        "depths": PerLayer((*FIRST_V2, *listed(hf, "n_attn_blocks", 3))),
        "d_models": PerLayer(d_models),
        "ffns": _ffns(tuple(times * width // 16 * 16 for width in d_models)),
        "second": True,
    }
    return Reading("mobilevit", given)


def _ffns(sizes: tuple[int, ...]) -> PerLayer:
    for size in sizes:
        check_size("the width of an MLP", size)
    return PerLayer(sizes)


HF_READERS = {"mobilenet_v2": _mobilenet_v2, "mobilevit": _mobilevit, "mobilevitv2": _mobilevitv2}
