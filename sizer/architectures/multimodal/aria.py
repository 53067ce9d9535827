"""Aria: learned queries read the patches of an image, and the text is a mixture of experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import MultimodalConfig, multimodal, reading
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# How many queries read an image of so many patches, where a file does not say.
QUERIES = {"1225": 128, "4900": 256}


@configuration
class AriaConfig(MultimodalConfig):
    """The parts, and the queries, which attend with as many heads as the tower."""

    n_queries: Dim
    n_heads: Dim
    d_head: Dim | None = None

    letters = {**MultimodalConfig.letters, "n_queries": "Nq", "n_heads": "H_img", "d_head": "Dh_img"}
    meanings = {**MultimodalConfig.meanings, "n_queries": "queries, the tokens of an image at most"}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.derive_quotient("d_head", "d_vision", "n_heads")


def aria(c: AriaConfig) -> Module:
    """Aria (arXiv:2410.05993), with the names of `AriaForConditionalGeneration`.

    Source: transformers `modeling_aria.py`.
    """
    vision, embed = Axis("vision", c.d_vision), Axis("embed", c.d_model)
    projector = (
        Param("query", (Axis("queries", c.n_queries), vision), component="embedding"),
        _attention(c, vision),
        layer_norm("layer_norm", vision),
        _feed_forward(embed, vision),
    )
    return multimodal(c, Module(c.places.bridge, projector, component="other", stream="encoder"))


def _attention(c: AriaConfig, vision: Axis) -> Module:
    """Queries, keys and values go through two matrices each, the second ones in a tensor together."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    inner = (
        Param("in_proj_weight", (3 * heads, vision), "matmul"),
        Param("in_proj_bias", (3 * heads,)),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cross=True, cached=False),
        linear("out_proj", vision, heads, bias=True),
    )
    return Module(
        "cross_attn",
        (
            linear("q_proj", vision, vision),
            linear("k_proj", vision, vision),
            linear("v_proj", vision, vision),
            Module("multihead_attn", inner),
            linear("linear", vision, vision, bias=True),
            layer_norm("layer_norm", vision),
            layer_norm("layer_norm_kv", vision),
        ),
        component="attention",
    )


def _feed_forward(embed: Axis, vision: Axis) -> Module:
    return Module(
        "feed_forward",
        (
            linear("linear_in", embed, vision),
            Op("act", "gelu_new", {"width": embed.size}),
            linear("linear_out", embed, embed),
        ),
    )


ARCHITECTURES = {"aria": Architecture(AriaConfig, aria)}


def _aria(hf: HFConfig) -> Reading:
    vision = hf.nested("vision_config")
    queries = hf["projector_patch_to_query_dict"] or QUERIES
    # Files that transformers writes hold the largest as well, and that is what it goes by.
    most = hf.in_file("max_value_projector_patch_to_query_dict") or max(queries.values())
    return reading(
        hf,
        "aria",
        vision=vision,
        d_vision=vision["hidden_size"],
        n_heads=vision["num_attention_heads"],
        n_queries=most,
        files="whole_text",
    )


HF_READERS = {"aria": _aria}
