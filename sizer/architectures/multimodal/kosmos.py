"""KOSMOS-2 and 2.5: a tower that learned queries read, and a text with norms inside its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.composite import bare
from sizer.architectures.parts import Part
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# Rows of a table of waves before the first position.
OFFSET = 2


@configuration
class KosmosConfig(Config):
    """Sizes of the text, and of what it reads of the tower.

    `inner_norm`: a norm of what attention mixes. `segments`: words and patches have a vector of
    their own. `wrapped`: the tower stands in a module of its own. `crossed`: the blocks could attend
    to another model as well, of which nothing here makes use.
    """

    vision: Part
    d_vision: Dim
    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_ctx: Dim
    n_queries: Dim
    d_head: Dim | None = None
    inner_norm: bool = True
    segments: bool = False
    wrapped: bool = True
    crossed: bool = False
    tie_embeddings: bool = True
    act: str = "gelu"

    letters = {"vision": "img", "d_vision": "D_img", "n_queries": "Nq"}
    meanings = {"d_vision": "width of the tower", "n_queries": "queries that read an image"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def kosmos(c: KosmosConfig) -> Module:
    """KOSMOS-2 (arXiv:2306.14824), with the names of `Kosmos2ForConditionalGeneration`.

    Source: transformers `modeling_kosmos2.py`, `modeling_kosmos2_5.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    tower = c.vision.module("model" if c.wrapped else "", layout=c.layout)
    reads = (
        linear("dense", embed, Axis("vision", c.d_vision), bias=True),
        Param("latent_query", (Axis("queries", c.n_queries), embed)),
        Module("x_attn", _attention(c, embed, cached=False), component="attention"),
    )
    parts: tuple[Module, ...] = (Module("model", _text(c, embed)),)
    if c.task != "base":
        tied = "text_model.model.embed_tokens.weight" if c.tie_embeddings else None
        parts = (*parts, linear("lm_head", vocab, embed, tied_to=tied, component="head"))
    return Module(
        "",
        (
            Module("vision_model", (tower,), stream="encoder"),
            Module("image_to_text_projection", reads, component="other", stream="encoder"),
            Module("text_model", parts),
        ),
    )


def _text(c: KosmosConfig, embed: Axis) -> Children:
    ffn, rows = Axis("ffn", c.d_ff), Axis("context", c.n_ctx + OFFSET)
    waves = (buffer("weights", rows, embed, persistent=False),)
    norm = (layer_norm("inner_attn_ln", embed),) if c.inner_norm else ()
    mlp = (
        linear("fc1", ffn, embed, bias=True),
        Op("act", c.act, {"width": ffn.size}),
        layer_norm("ffn_layernorm", ffn),
        linear("fc2", embed, ffn, bias=True),
    )
    crossed = (
        Module("encoder_attn", _attention(c, embed, cached=False), component="attention", uses=0),
        layer_norm("encoder_attn_layer_norm", embed)._replace(uses=0),
    )
    block = (
        layer_norm("self_attn_layer_norm", embed),
        Module("self_attn", (*_attention(c, embed), *norm), component="attention"),
        *(crossed if c.crossed else ()),
        layer_norm("final_layer_norm", embed),
        Module("ffn", mlp, component="mlp"),
    )
    return (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        *((Module("embed_positions", waves),) if c.layout == "transformers" else ()),
        *((embedding("segment_emb", Axis("segments", 2), embed),) if c.segments else ()),
        Module("layers", block, repeat=c.n_layers),
        layer_norm("layer_norm", embed),
    )


def _attention(c: KosmosConfig, embed: Axis, *, cached: bool = True) -> Children:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    return (
        *(linear(f"{letter}_proj", heads, embed, bias=True) for letter in "qkv"),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cached=cached),
        linear("out_proj", embed, heads, bias=True),
    )


ARCHITECTURES = {"kosmos": Architecture(KosmosConfig, kosmos)}


def _kosmos(hf: HFConfig) -> Reading:
    vision, text = hf.nested("vision_config"), hf.nested("text_config")
    first = hf.model_type == "kosmos-2"
    given = {
        "task": "base" if hf.cls.endswith("Model") else "causal",
        "vision": bare(vision),
        "d_vision": vision["hidden_size"],
        "d_model": text["embed_dim"],
        "n_layers": text["layers"],
        "n_heads": text["attention_heads"],
        "d_ff": text["ffn_dim"],
        "vocab_size": text["vocab_size"],
        "n_ctx": text["max_position_embeddings"],
        "n_queries": hf["latent_query_num"],
        "inner_norm": first,
        "segments": not first,
        "wrapped": first,
        "crossed": first and bool(text["add_cross_attention"]),
        # The text ties its own head; the whole of KOSMOS-2 asks for it as well.
        "tie_embeddings": bool(text["tie_word_embeddings"] or (first and hf["tie_word_embeddings"])),
        "act": text["activation_function"],
    }
    return Reading("kosmos", given)


HF_READERS = {"kosmos-2": _kosmos, "kosmos-2.5": _kosmos}
