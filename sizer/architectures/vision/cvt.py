"""CvT: stages of attention whose queries, keys and values see the neighbours of a patch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import positive
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, batch_norm, convolution
from sizer.architectures.vision.scaled import listed
from sizer.architectures.vision.vit_types import task_of_vision
from sizer.core.config import Config, check_size, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig, shown

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
# The stages with a token for the whole image, where a file does not say.
TOKENS = (False, False, True)
# Lists of the configuration that decide no size; each must have an entry a stage.
OTHERS = ("patch_stride", "patch_padding", "padding_kv", "padding_q", "stride_kv", "stride_q")
RATES = ("drop_rate", "attention_drop_rate")


@configuration
class CvtConfig(Config):
    """Sizes and switches of each stage of a CvT.

    `kernels`: sides of the windows that become patches, and `near` of those that attention sees through.
    `convolved`, `biased`: the stages that have these, and biases of queries, keys and values.
    `tokens`: those with a token for the whole image.
    """

    widths: PerLayer
    depths: PerLayer
    heads: PerLayer
    head_widths: PerLayer
    ffns: PerLayer
    kernels: PerLayer
    near: PerLayer
    convolved: tuple[bool, ...]
    biased: tuple[bool, ...]
    tokens: tuple[bool, ...]
    n_channels: Dim = 3
    task: str = "base"

    letters = {
        "widths": "C",
        "depths": "L",
        "heads": "H",
        "head_widths": "Dh",
        "ffns": "F",
        "kernels": "K",
        "near": "Kn",
        "n_channels": "Nc",
    }
    meanings = {"n_channels": "colour channels"}

    def __post_init__(self) -> None:
        check_sizes(self)


def cvt(c: CvtConfig) -> Module:
    """CvT (arXiv:2103.15808), with the names of `CvtModel`. Source: transformers `modeling_cvt.py`."""
    widths = [Axis("embed", width) for width in c.widths.sizes()]
    inputs = [Axis("image", c.n_channels), *widths[:-1]]
    stages = []
    for i, depth in enumerate(c.depths.sizes()):
        kernel = Axis("kernel", c.kernels.sizes()[i])
        token = (Param("cls_token", (ONE, ONE, widths[-1]), component="embedding"),) if c.tokens[i] else ()
        patches = (
            convolution("projection", widths[i], inputs[i], kernel, kernel),
            layer_norm("normalization", widths[i]),
        )
        embedding = Module("embedding.convolution_embeddings", patches)
        layers = Module("layers", _block(c, i, widths[i]), repeat=depth)
        stages.append(Module(f"encoder.stages.{i}", (*token, embedding, layers)))
    if c.task == "base":
        return Module("", tuple(stages))
    head = linear("classifier", Axis("labels", c.n_labels), widths[-1], bias=True, component="head")
    return Module("", (Module("cvt", tuple(stages)), layer_norm("layernorm", widths[-1]), head))


def _block(c: CvtConfig, i: int, embed: Axis) -> Children:
    ffn = Axis("ffn", c.ffns.sizes()[i])
    return (
        layer_norm("layernorm_before", embed),
        Module("attention", _attention(c, i, embed), component="attention"),
        layer_norm("layernorm_after", embed),
        linear("intermediate.dense", ffn, embed, bias=True, component="mlp"),
        Op("act", "gelu", {"width": ffn.size}, component="mlp"),
        linear("output.dense", embed, ffn, bias=True, component="mlp"),
    )


def _attention(c: CvtConfig, i: int, embed: Axis) -> Children:
    n_heads, d_head = c.heads.sizes()[i], c.head_widths.sizes()[i]
    heads, side = heads_axis("heads", n_heads, d_head), Axis("kernel", c.near.sizes()[i])
    names = ("query", "key", "value")
    near = (
        convolution("convolution", embed, ONE, side, side, bias=False, component="attention"),
        batch_norm("normalization", embed),
    )
    seen = (Module(f"convolution_projection_{name}.convolution_projection", near) for name in names)
    inside = (
        *(seen if c.convolved[i] else ()),
        *(linear(f"projection_{name}", heads, embed, bias=c.biased[i]) for name in names),
        *attention_core(n_heads, n_heads, d_head, cached=False),
    )
    return (Module("attention", inside), linear("output.dense", embed, heads, bias=True))


ARCHITECTURES = {"cvt": Architecture(CvtConfig, cvt)}


def _entries(key: str, values: Any, n_stages: int) -> list[Any]:
    """A list with an entry a stage, of whatever kind."""
    if not isinstance(values, list | tuple) or len(values) != n_stages:
        raise InvalidConfig(f"{key} = {shown(values)} does not list {n_stages} stages")
    return list(values)


def _convolved(hf: HFConfig, n_stages: int) -> tuple[bool, ...]:
    methods = _entries("qkv_projection_method", hf["qkv_projection_method"], n_stages)
    for method in methods:
        if method not in ("dw_bn", "avg", "linear"):
            raise InvalidConfig(f"qkv_projection_method {shown(method)} is none of dw_bn, avg and linear")
    return tuple(method == "dw_bn" for method in methods)


def _cvt(hf: HFConfig) -> Reading:
    depths = listed(hf, "depth")
    n_stages = len(depths)
    # Each stage takes its rate of dropped paths from the layer of its own number.
    if any(depth <= i for i, depth in enumerate(depths)):
        raise InvalidConfig(f"depth = {list(depths)}; stage i must have more than i layers, from 0 on")
    for key in (*OTHERS, *RATES):
        _entries(key, hf[key], n_stages)
    _entries("drop_path_rate", hf.get("drop_path_rate", (0.0,) * len(TOKENS)), n_stages)
    widths, heads = listed(hf, "embed_dim", n_stages), listed(hf, "num_heads", n_stages)
    if any(width % n_heads for width, n_heads in zip(widths, heads, strict=True)):
        raise InvalidConfig(f"embed_dim = {list(widths)} are no multiples of num_heads = {list(heads)}")
    ratios = [positive("mlp_ratio", ratio) for ratio in _entries("mlp_ratio", hf["mlp_ratio"], n_stages)]
    ffns = tuple(int(width * ratio) for width, ratio in zip(widths, ratios, strict=True))
    for ffn in ffns:
        check_size("mlp_ratio times a width", ffn)
    given = {
        "task": task_of_vision(hf),
        "n_labels": hf.n_labels,
        "widths": PerLayer(widths),
        "depths": PerLayer(depths),
        "heads": PerLayer(heads),
        "head_widths": PerLayer(tuple(w // h for w, h in zip(widths, heads, strict=True))),
        "ffns": PerLayer(ffns),
        "kernels": PerLayer(listed(hf, "patch_sizes", n_stages)),
        "near": PerLayer(listed(hf, "kernel_qkv", n_stages)),
        "convolved": _convolved(hf, n_stages),
        "biased": tuple(bool(has) for has in _entries("qkv_bias", hf["qkv_bias"], n_stages)),
        "tokens": tuple(bool(t) for t in _entries("cls_token", hf.get("cls_token", TOKENS), n_stages)),
        "n_channels": hf["num_channels"],
    }
    return Reading("cvt", given)


HF_READERS = {"cvt": _cvt}
