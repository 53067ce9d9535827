"""Gemma 3n: several residual streams (AltUp), embeddings for each layer, and shared keys and values.

What Gemma 4 keeps of it (embeddings for each layer, layers without keys and values of their own)
stands here for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.reading import (
    activation,
    count_of,
    layer_types,
    listed_layers,
    rope_parameters,
)
from sizer.architectures.heads import Children, with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide, round_up
from sizer.core.layers import attention_core, buffer, embedding, gated_mlp, linear, rms_norm
from sizer.core.pattern import Pattern, PerLayer
from sizer.core.tree import Axis, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

SLIDING, FULL = "sliding_attention", "full_attention"


@configuration
class Gemma3nConfig(Config):
    """Sizes and switches of a Gemma 3n.

    `layers`: "window" or "full", with "_shared" after it where a layer uses the keys and values of
    an earlier one. `d_ff`: for all layers, or `layers_d_ff` with one for each.
    `stored_kv`: checkpoints hold projections of keys and values for the shared layers too.
    """

    d_model: Dim
    n_layers: Dim
    layers: Pattern
    n_heads: Dim
    n_kv_heads: Dim
    d_head: Dim
    vocab_size: Dim
    d_ff: Dim | None = None
    layers_d_ff: PerLayer | None = None
    d_rotary: Dim | None = None
    d_per_layer: Dim = 256
    per_layer_vocab_size: Dim = 262144
    n_altup: Dim = 4
    laurel_rank: Dim = 64
    window: Dim | None = None
    attention_bias: bool = False
    stored_kv: bool = True
    tie_embeddings: bool = True
    act: str = "gelu_pytorch_tanh"

    letters = {
        "layers_d_ff": "F",
        "d_rotary": "Dr",
        "d_per_layer": "Dp",
        "per_layer_vocab_size": "Vp",
        "n_altup": "A",
        "laurel_rank": "R",
    }
    meanings = {
        "d_rotary": "width of the rotary part of a head",
        "d_per_layer": "width of the embedding of each layer",
        "per_layer_vocab_size": "rows of the embeddings of each layer",
        "n_altup": "residual streams",
        "laurel_rank": "rank of the learned residual",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_rotary=round_up(self.d_head, 2) if isinstance(self.d_head, int) else self.d_head)
        if (self.d_ff is None) == (self.layers_d_ff is None):
            raise InvalidConfig("give either d_ff or layers_d_ff")


def gemma3n(c: Gemma3nConfig) -> Module:
    """Gemma 3n's text model, with the tensor names of `Gemma3nForCausalLM`.

    AltUp: arXiv:2301.13310; LAuReL: arXiv:2411.07501. Source: transformers `modeling_gemma3n.py`.
    """
    return with_head(c, gemma3n_model(c))


def gemma3n_model(c: Gemma3nConfig) -> Children:
    """The decoder without a head."""
    embed, in_memory = Axis("embed", c.d_model), c.layout == "transformers"
    block = Module(
        "layers",
        (
            _altup(c, embed),
            rms_norm("input_layernorm", embed),
            _laurel(c, embed),
            *(_attention(c, embed, kind) for kind in c.layers.kinds_like("")),
            rms_norm("post_attention_layernorm", embed),
            rms_norm("pre_feedforward_layernorm", embed),
            *_feed_forward(c, embed),
            rms_norm("post_feedforward_layernorm", embed),
            *per_layer_inputs(c, embed),
        ),
        repeat=c.n_layers,
    )
    scales = ("per_layer_projection_scale", "per_layer_input_scale") if in_memory else ()
    streams = c.n_altup - 1
    return (
        scaled_embedding("embed_tokens", Axis("vocab", c.vocab_size), embed, layout=c.layout),
        *per_layer_embeddings(c, embed),
        *(buffer(name, persistent=False) for name in scales),
        Module("altup_projections", linear("", embed, embed).children, streams, kind="linear"),
        block,
        Module("altup_unembed_projections", linear("", embed, embed).children, streams, kind="linear"),
        rms_norm("norm", embed),
        *rotary_by_kind(c, {"full": c.d_rotary, "window": c.d_rotary}),
    )


def scaled_embedding(name: str, rows: Axis, width: Axis, *, layout: str) -> Module:
    """A table whose rows are scaled by a constant, which is kept in memory only."""
    table = embedding(name, rows, width)
    if layout == "checkpoint":
        return table
    return table._replace(children=(*table.children, buffer("embed_scale", persistent=False)))


def per_layer_embeddings(c: Any, embed: Axis) -> Children:
    """A second table with a narrow vector for every layer, and its mate made from the first."""
    rows = Axis("vocab", c.per_layer_vocab_size)
    narrow, all_layers = Axis("per_layer", c.d_per_layer), Axis("per_layer", c.n_layers * c.d_per_layer)
    return (
        scaled_embedding("embed_tokens_per_layer", rows, all_layers, layout=c.layout),
        linear("per_layer_model_projection", all_layers, embed, component="embedding"),
        rms_norm("per_layer_projection_norm", narrow),
    )


def per_layer_inputs(c: Any, embed: Axis) -> Children:
    """How a layer takes its own embedding in: gated, projected, normed."""
    narrow = Axis("per_layer", c.d_per_layer)
    return (
        linear("per_layer_input_gate", narrow, embed, component="mlp"),
        linear("per_layer_projection", embed, narrow, component="mlp"),
        rms_norm("post_per_layer_input_norm", embed),
    )


def rotary_by_kind(c: Any, widths: dict[str, Dim]) -> Children:
    """The inverse frequencies of each kind of layer, which no checkpoint holds."""
    if c.layout == "checkpoint":
        return ()
    names = {"full": FULL, "window": SLIDING}
    tables = (
        buffer(
            f"{names[kind]}_{name}", Axis("rotary", divide(width, 2, names="d_rotary / 2")), persistent=False
        )
        for kind, width in widths.items()
        if c.layers.kinds_like(kind)
        for name in ("inv_freq", "original_inv_freq")
    )
    return (Module("rotary_emb", tuple(tables)),)


def _altup(c: Gemma3nConfig, embed: Axis) -> Module:
    """Predicts all streams from each, runs one through the block, and corrects the others."""
    streams = Axis("streams", c.n_altup)
    pairs = Axis("streams", c.n_altup * c.n_altup)
    scale = (buffer("router_input_scale", persistent=False),) if c.layout == "transformers" else ()
    return Module(
        "altup",
        (
            rms_norm("router_norm", embed),
            *scale,
            # The router runs before the block and after it.
            linear("modality_router", streams, embed)._replace(uses=2),
            linear("prediction_coefs", pairs, streams),
            # Each stream is predicted from all of them.
            Op("predict", "matmul", {"out": pairs.size, "in": c.d_model}),
            linear("correction_coefs", streams, streams),
            Param("correct_output_scale", (embed,)),
        ),
    )


def _laurel(c: Gemma3nConfig, embed: Axis) -> Module:
    rank = Axis("rank", c.laurel_rank)
    return Module(
        "laurel",
        (
            linear("linear_left", rank, embed),
            linear("linear_right", embed, rank),
            rms_norm("post_laurel_norm", embed),
        ),
        component="mlp",
    )


def _attention(c: Gemma3nConfig, embed: Axis, kind: str) -> Module:
    heads, head = heads_axis("heads", c.n_heads, c.d_head), Axis("head", c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    shared, bias = kind.endswith("_shared"), c.attention_bias
    keys_values: tuple[Module, ...] = (
        linear("k_proj", kv_heads, embed, bias=bias),
        linear("v_proj", kv_heads, embed, bias=bias),
        rms_norm("k_norm", head),
    )
    if shared:
        # transformers 4 made these for every layer; published files keep those that nothing uses.
        stored = c.stored_kv and c.layout == "checkpoint"
        keys_values = tuple(_unused(part) for part in keys_values) if stored else ()
    window = None if kind.startswith("full") else c.window
    return Module(
        "self_attn",
        (
            linear("q_proj", heads, embed, bias=bias),
            rms_norm("q_norm", head),
            *keys_values,
            *attention_core(c.n_heads, c.n_kv_heads, c.d_head, window=window, cached=not shared),
            linear("o_proj", embed, heads, bias=bias),
        ),
        at=c.layers.layers(kind),
        component="attention",
    )


def _unused(module: Module) -> Module:
    """The same tensors, stored and never run."""
    leaves = (leaf._replace(active=0) for leaf in module.children if isinstance(leaf, Param))
    return module._replace(children=tuple(leaves), uses=0)


def _feed_forward(c: Gemma3nConfig, embed: Axis) -> Children:
    if c.layers_d_ff is None:
        return (gated_mlp("mlp", Axis("ffn", c.d_ff), embed, act=c.act),)
    return tuple(
        gated_mlp("mlp", Axis("ffn", d_ff), embed, act=c.act)._replace(at=layers)
        for d_ff, layers in c.layers_d_ff.groups()
    )


ARCHITECTURES = {"gemma3n": Architecture(Gemma3nConfig, gemma3n)}


def layer_kinds(types: tuple[str, ...], n_shared: int) -> Pattern:
    """The kind of each layer; the last `n_shared` use the keys and values of earlier ones."""
    first_shared = len(types) - n_shared
    if first_shared < 0:
        raise InvalidConfig(f"num_kv_shared_layers = {n_shared} is more than the {len(types)} layers")
    seen = ("window" if kind == SLIDING else "full" for kind in types)
    return Pattern(tuple(kind + "_shared" * (i >= first_shared) for i, kind in enumerate(seen)))


def rotary_width_of(hf: HFConfig, kind: str, d_head: int) -> int:
    """Width that the frequencies of a kind of layers cover, rounded up to whole pairs."""
    rope = rope_parameters(hf).get(kind)
    share = 1.0
    if isinstance(rope, Mapping) and rope.get("rope_type", "default") not in ("default", "proportional"):
        share = float(rope.get("partial_rotary_factor", 1.0))
    width: int = round_up(int(d_head * share), 2)
    return width


def _gemma3n(hf: HFConfig) -> Reading:
    def slides(i: int) -> bool:
        return (i + 1) % 5 != 0

    n_layers = listed_layers(hf)
    d_ff = hf["intermediate_size"]
    if isinstance(d_ff, list | tuple):
        if len(d_ff) != n_layers or not all(type(size) is int and size > 0 for size in d_ff):
            raise InvalidConfig(f"intermediate_size = {clip(repr(d_ff))} is not one size for each layer")
        same = len(set(d_ff)) == 1
        sizes = {"d_ff": d_ff[0]} if same else {"d_ff": None, "layers_d_ff": PerLayer(tuple(d_ff))}
    else:
        sizes = {"d_ff": d_ff}
    given = hf.fill(
        Gemma3nConfig,
        layers=layer_kinds(layer_types(hf, slides), count_of(hf, "num_kv_shared_layers")),
        d_per_layer=hf["hidden_size_per_layer_input"],
        per_layer_vocab_size=hf["vocab_size_per_layer_input"],
        n_altup=hf["altup_num_inputs"],
        act=activation(hf),
        # transformers 5 has none, and writes none.
        stored_kv=not hf.saved_by_transformers_5,
        **sizes,
    )
    return Reading("gemma3n", given)


HF_READERS = {"gemma3n_text": _gemma3n}
