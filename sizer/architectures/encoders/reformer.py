"""Reformer: reversible layers, attention within chunks or between tokens of one hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.parts import Children, label_head, with_heads
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear
from sizer.core.pattern import Pattern, PerLayer
from sizer.core.tree import Axis, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class ReformerConfig(Config):
    """Sizes and switches of a Reformer.

    `layers`: "local" or "lsh" for each layer; `window`: the tokens of a chunk.
    `axial_shape`, `axial_widths`: rows and width of each axis of factored positions.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_head: Dim
    d_ff: Dim
    vocab_size: Dim
    layers: Pattern
    n_ctx: Dim
    window: Dim | None = None
    axial_shape: PerLayer | None = None
    axial_widths: PerLayer | None = None
    act: str = "relu"
    task: str = "masked"

    letters = {"axial_shape": "Ca", "axial_widths": "Da"}
    meanings = {
        "axial_shape": "rows of an axis of the positions",
        "axial_widths": "width of an axis of the positions",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def reformer(c: ReformerConfig) -> Module:
    """Reformer (arXiv:2001.04451), with the tensor names of transformers `modeling_reformer.py`.

    The two halves of the reversible residual stream are normed and read side by side.
    Attention counts at the whole length in FLOPs, an upper bound.
    """
    embed, vocab, both = Axis("embed", c.d_model), Axis("vocab", c.vocab_size), Axis("embed", 2 * c.d_model)
    ffn = Axis("ffn", c.d_ff)
    block = Module(
        "encoder.layers",
        (
            attention(c, embed),
            layer_norm("feed_forward.layer_norm", embed),
            linear("feed_forward.dense.dense", ffn, embed, bias=True, component="mlp"),
            Op("act", c.act, {"width": c.d_ff}, component="mlp"),
            linear("feed_forward.output.dense", embed, ffn, bias=True, component="mlp"),
        ),
        repeat=c.n_layers,
    )
    model = (
        embedding("embeddings.word_embeddings", vocab, embed),
        positions(c, embed),
        block,
        layer_norm("encoder.layer_norm", both),
    )
    return with_heads(c, "reformer", model, *heads(c, embed, both, vocab))


def positions(c: ReformerConfig, embed: Axis) -> Module:
    """A table of positions, or one a side of a grid, `[1, …, rows, …, 1, width]`."""
    name = "embeddings.position_embeddings"
    if c.axial_shape is None or c.axial_widths is None:
        return embedding(f"{name}.embedding", Axis("context", c.n_ctx), embed, component="position")
    rows, widths = c.axial_shape.sizes(), c.axial_widths.sizes()
    tables = (
        Param(
            str(axis),
            (*(Axis("grid", size if i == axis else 1) for i, size in enumerate(rows)), Axis("axial", width)),
        )
        for axis, width in enumerate(widths)
    )
    return Module(f"{name}.weights", tuple(tables), component="position")


def attention(c: ReformerConfig, embed: Axis) -> Module:
    """Queries and keys apart in local layers, one and the same in hashed ones."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    core = attention_core(c.n_heads, c.n_heads, c.d_head, window=c.window, cached=False)
    masks = ("mask_value_float16", "mask_value_float32")
    self_masks = ("self_mask_value_float16", "self_mask_value_float32")
    return Module(
        "attention",
        (
            layer_norm("layer_norm", embed),
            Module(
                "self_attention",
                (linear("query", heads, embed), linear("key", heads, embed), *constants(c, masks)),
                at=c.layers.layers("local"),
            ),
            Module(
                "self_attention",
                (linear("query_key", heads, embed), *constants(c, self_masks + masks)),
                at=c.layers.layers("lsh"),
            ),
            linear("self_attention.value", heads, embed),
            *core,
            linear("output.dense", embed, heads),
        ),
        component="attention",
    )


def constants(c: ReformerConfig, names: tuple[str, ...]) -> Children:
    """Scalars that transformers keeps in memory as buffers."""
    if c.layout == "checkpoint":
        return ()
    return tuple(buffer(name, persistent=False) for name in names)


def heads(c: ReformerConfig, embed: Axis, both: Axis, vocab: Axis) -> Children:
    """The head of each task, over both halves; transformers 5 has two biases in that of tokens."""
    if c.task in ("masked", "causal"):
        bias = Param("lm_head.bias", (vocab,), component="head")
        return bias, linear("lm_head.decoder", vocab, both, bias=True, component="head")
    if c.task == "sequence":
        dense = linear("classifier.dense", embed, both, bias=True, component="head")
        return dense, label_head(c, embed, name="classifier.out_proj")
    return (label_head(c, both),)


ARCHITECTURES = {"reformer": Architecture(ReformerConfig, reformer)}


def _reformer(hf: HFConfig) -> Reading:
    kinds = tuple(hf["attn_layers"])
    if set(kinds) - {"local", "lsh"} or not kinds:
        raise InvalidConfig(f"{hf.name}: attn_layers must name 'local' or 'lsh' for each layer")
    axial = hf["axial_pos_embds"]
    # The count of layers is a key of its own in a saved file.
    n_layers = hf["num_hidden_layers"] if hf.given("num_hidden_layers") else len(kinds)
    # All layers are of the one kind where there is only one, however many the list names.
    every = kinds if len(set(kinds)) > 1 else kinds[:1] * n_layers
    return Reading(
        "reformer",
        hf.fill(
            ReformerConfig,
            n_layers=n_layers,
            layers=Pattern(every[:n_layers]),
            d_head=hf["attention_head_size"],
            d_ff=hf["feed_forward_size"],
            window=None,
            axial_shape=PerLayer(tuple(hf["axial_pos_shape"])) if axial else None,
            axial_widths=PerLayer(tuple(hf["axial_pos_embds_dim"])) if axial else None,
            act=hf["hidden_act"],
        ),
    )


HF_READERS = {"reformer": _reformer}
