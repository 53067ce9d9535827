"""GTE, Nomic BERT and Jina Embeddings v3: post-norm encoders with rotary positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.encoders.parts import (
    Children,
    dense_label_head,
    id_buffers,
    label_head,
    masked_head,
    pooler,
    with_heads,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, gate_op, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


class Names(NamedTuple):
    """What the parts are called; published checkpoints fuse queries, keys and values."""

    layers: str
    embedding_norm: str
    fused: str | None
    out: str
    norms: tuple[str, str]


IN_MEMORY = Names(
    "layers",
    "embeddings.LayerNorm",
    None,
    "self_attn.o_proj",
    ("post_attention_layernorm", "post_mlp_layernorm"),
)
PUBLISHED = {
    "gte": Names(
        "encoder.layer",
        "embeddings.LayerNorm",
        "attention.qkv_proj",
        "attention.o_proj",
        ("attn_ln", "mlp_ln"),
    ),
    "roberta": Names("encoder.layers", "emb_ln", "mixer.Wqkv", "mixer.out_proj", ("norm1", "norm2")),
    "nomic_bert": Names("encoder.layers", "emb_ln", "attn.Wqkv", "attn.out_proj", ("norm1", "norm2")),
}


@configuration
class GteConfig(Config):
    """Sizes and switches of a GTE.

    `family`: what the encoder is called: "gte", "nomic_bert" (no biases in its blocks), or "roberta"
    (Jina Embeddings v3, whose MLP has no gate).
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_ctx: Dim
    n_token_types: Dim | None = None
    d_head: Dim | None = None
    tie_embeddings: bool = True
    family: str = "gte"
    act: str = "gelu"
    task: str = "masked"

    letters = {"n_token_types": "Nt"}
    meanings = {"n_token_types": "token types"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def gte(c: GteConfig) -> Module:
    """GTE (arXiv:2407.19669), with the tensor names of its checkpoints.

    Sources: transformers `modeling_gte.py`, `modeling_nomic_bert.py`, `modeling_jina_embeddings_v3.py`
    and the conversions of their checkpoints.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    names = PUBLISHED[c.family] if c.layout == "checkpoint" else IN_MEMORY
    after_attention, after_mlp = (layer_norm(name, embed) for name in names.norms)
    block = Module(
        names.layers,
        (attention(c, embed, names), after_attention, feed_forward(c, embed), after_mlp),
        repeat=c.n_layers,
    )
    pooled = c.task == "base" if c.family == "roberta" else c.task == "sequence"
    model = (
        *embeddings(c, embed, vocab, names),
        block,
        *((pooler(embed),) if pooled else ()),
        *rotary_buffers(c.d_head, layout=c.layout),
    )
    return with_heads(c, c.family, model, *heads(c, embed, vocab))


def embeddings(c: GteConfig, embed: Axis, vocab: Axis, names: Names) -> Children:
    """Tables of words and token types, and the norm of their sum."""
    types = (
        (embedding("token_type_embeddings", Axis("types", c.n_token_types), embed),)
        if c.n_token_types is not None
        else ()
    )
    ids = id_buffers(c, Axis("context", c.n_ctx), token_types=True) if c.family != "gte" else ()
    tables = (embedding("word_embeddings", vocab, embed), *types, *ids)
    return Module("embeddings", tables), layer_norm(names.embedding_norm, embed)


def attention(c: GteConfig, embed: Axis, names: Names) -> Module:
    """Attention over the whole sequence."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    bias = c.family != "nomic_bert"
    if names.fused is None:
        qkv = tuple(linear(f"self_attn.{x}_proj", heads, embed, bias=bias) for x in "qkv")
    else:
        qkv = (linear(names.fused, 3 * heads, embed, bias=bias),)
    core = attention_core(c.n_heads, c.n_heads, c.d_head, cached=False)
    return Module("", (*qkv, *core, linear(names.out, embed, heads, bias=bias)), component="attention")


def feed_forward(c: GteConfig, embed: Axis) -> Module:
    """The MLP, gated in GTE and Nomic BERT."""
    ffn, published = Axis("ffn", c.d_ff), c.layout == "checkpoint"
    if c.family == "roberta":
        return mlp("mlp", ffn, embed, act=c.act, names=("fc1", "fc2"))
    if published and c.family == "gte":
        out = "down_proj"
        into: Children = (linear("up_gate_proj", 2 * ffn, embed),)
    else:
        up, gate, out = ("fc11", "fc12", "fc2") if published else ("up_proj", "gate_proj", "down_proj")
        into = (linear(up, ffn, embed), linear(gate, ffn, embed))
    down = linear(out, embed, ffn, bias=c.family == "gte")
    return Module("mlp", (*into, gate_op(c.act, c.d_ff), down), component="mlp")


def heads(c: GteConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of each task."""
    table = f"{c.family}.embeddings.word_embeddings"
    if c.task != "masked":
        dense = c.family == "roberta" and c.task == "sequence"
        return (dense_label_head(c, embed) if dense else label_head(c, embed),)
    if c.family == "nomic_bert":
        names = ("transform.dense", "transform.layer_norm", "decoder")
        return (masked_head(c, "cls.predictions", vocab, embed, table=table, names=names),)
    norm = "norm" if c.family == "gte" and c.layout == "checkpoint" else "layer_norm"
    names = ("dense", norm, "decoder")
    shared = c.family == "roberta"
    return (masked_head(c, "lm_head", vocab, embed, table=table, names=names, shared_bias=shared),)


ARCHITECTURES = {"gte": Architecture(GteConfig, gte)}


def _read(hf: HFConfig, family: str) -> Reading:
    given: dict[str, Any] = {"family": family, "act": hf["hidden_act"]}
    given["n_token_types"] = hf["type_vocab_size"] or None
    return Reading("gte", hf.fill(GteConfig, **given))


HF_READERS = {
    "gte": lambda hf: _read(hf, "gte"),
    "nomic_bert": lambda hf: _read(hf, "nomic_bert"),
    "jina_embeddings_v3": lambda hf: _read(hf, "roberta"),
}
