"""NeoMME: text and image patches in one encoder, with gated attention and factored embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoders.parts import (
    Children,
    read_layers,
    typed_rotary_buffers,
    windowed_core,
    with_heads,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import embedding, layer_norm, linear, mlp
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class NeoMMEConfig(Config):
    """Sizes and switches of a NeoMME.

    `d_patch`: numbers of one flattened image patch. `d_rotary_full`, `d_rotary_window`: the rotary
    part of a head in each kind of layer. Its windows alternate between two widths; `window` is one.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    n_kv_heads: Dim
    d_head: Dim
    d_ff: Dim
    vocab_size: Dim
    embedding_rank: Dim
    d_patch: Dim
    d_retrieval: Dim
    d_rotary_full: Dim
    d_rotary_window: Dim
    window_layers: Pattern
    window: Dim | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_embeddings: bool = True
    act: str = "relu2"
    task: str = "masked"

    letters = {
        "embedding_rank": "R",
        "d_patch": "Dp",
        "d_retrieval": "De",
        "d_rotary_full": "Dr",
        "d_rotary_window": "Dw",
        "window_layers": "L",
    }
    meanings = {
        "embedding_rank": "rank of the embedding",
        "d_patch": "numbers of one image patch",
        "d_retrieval": "width of a retrieval vector",
        "d_rotary_full": "width of the rotary part of a head in full layers",
        "d_rotary_window": "width of the rotary part of a head in windowed layers",
    }

    def __post_init__(self) -> None:
        check_sizes(self)


def neomme(c: NeoMMEConfig) -> Module:
    """NeoMME, with the tensor names of transformers `modeling_neomme.py`; its RMSNorms have no weights."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    rank = Axis("rank", c.embedding_rank)
    block = Module(
        "layers",
        (
            Param("lambdas", (Axis("residual", 2),), component="other"),
            attention(c, embed),
            mlp("mlp", Axis("ffn", c.d_ff), embed, bias=c.mlp_bias, act=c.act),
        ),
        repeat=c.n_layers,
    )
    full, windowed = (
        Axis("rotary", divide(d, 2, names="d_rotary / 2")) for d in (c.d_rotary_full, c.d_rotary_window)
    )
    model = (
        embedding("embed_tokens.word_embeddings", vocab, rank),
        linear("embed_tokens.embedding_projection", embed, rank, component="embedding"),
        patches(c, embed),
        block,
        embedding("value_embeddings", vocab, heads_axis("kv_heads", c.n_kv_heads, c.d_head)),
        *typed_rotary_buffers(c, full, windowed),
    )
    return with_heads(c, "model", model, *heads(c, embed, vocab, rank))


def attention(c: NeoMMEConfig, embed: Axis) -> Module:
    """Grouped-query attention whose output a sigmoid gates."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    return Module(
        "self_attn",
        (
            linear("q_proj", heads, embed, bias=c.attention_bias),
            linear("k_proj", kv_heads, embed, bias=c.attention_bias),
            linear("v_proj", kv_heads, embed, bias=c.attention_bias),
            *windowed_core(c),
            Param("exclusive_self_attention.alpha", (Axis("heads", c.n_heads),)),
            linear("output_projection.gate_proj", heads, embed),
            linear("output_projection.o_proj", embed, heads, bias=c.attention_bias),
        ),
        component="attention",
    )


def patches(c: NeoMMEConfig, embed: Axis) -> Module:
    """The MLP that makes tokens of image patches."""
    patch = Axis("patch", c.d_patch)
    return Module(
        "patch_embeddings",
        (
            layer_norm("norm", patch),
            linear("up_proj", 2 * embed, patch),
            linear("down_proj", embed, 2 * embed, bias=True),
        ),
        component="embedding",
        stream="vision",
    )


def heads(c: NeoMMEConfig, embed: Axis, vocab: Axis, rank: Axis) -> Children:
    """The embedding backwards, or a vector for each token."""
    if c.task == "retrieval":
        width = Axis("retrieval", c.d_retrieval)
        return (linear("multi_vector_head.proj", width, embed, component="head"),)
    table = "model.embed_tokens"
    words, projection = (
        (f"{table}.word_embeddings.weight", f"{table}.embedding_projection.weight")
        if c.tie_embeddings
        else (None, None)
    )
    return (
        linear("unembedding_projection", embed, rank, tied_to=projection, component="head"),
        linear("lm_head", vocab, rank, tied_to=words, component="head"),
    )


ARCHITECTURES = {"neomme": Architecture(NeoMMEConfig, neomme)}

# The rotary part of a head where a file does not say it.
_ROTARY = {"full_attention": 0.25, "sliding_attention": 1.0}


def _neomme(hf: HFConfig) -> Reading:
    n_layers, kinds = hf["num_hidden_layers"], hf["layer_types"]
    if kinds is None:
        kinds = [
            "full_attention" if (i + 1) % 6 == 0 or i == n_layers - 1 else "sliding_attention"
            for i in range(n_layers)
        ]
    rope = hf.in_file("rope_parameters") or {}
    full, windowed = (
        int(hf["head_dim"] * ((rope.get(kind) or {}).get("partial_rotary_factor") or factor))
        for kind, factor in _ROTARY.items()
    )
    return Reading(
        "neomme",
        hf.fill(
            NeoMMEConfig,
            window_layers=read_layers(kinds, hf.name),
            d_patch=3 * hf["patch_size"] ** 2,
            d_retrieval=hf["embedding_dim"],
            d_rotary_full=full,
            d_rotary_window=windowed,
            act=hf["hidden_act"],
        ),
    )


HF_READERS = {"neomme": _neomme}
