"""Encoders for embeddings by their own code: Jina's BERT with ALiBi, and Nomic's with rotary positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, round_up
from sizer.core.layers import attention_core, embedding, gate_op, layer_norm, linear, mlp
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class EmbedderConfig(Config):
    """Sizes and switches of an encoder whose positions need no table.

    `gated`: the MLP has a gate. `mlps`: "dense" or "moe" for each layer; without it all are dense.
    `positions`: a table of learned positions all the same.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    vocab_size: Dim
    d_ff: Dim | None = None
    d_head: Dim | None = None
    n_ctx: Dim | None = None
    n_token_types: Dim | None = None
    n_experts: Dim | None = None
    top_k: Dim | None = None
    mlps: Pattern | None = None
    task: str = "base"
    gated: bool = True
    act: str = "gelu"
    qkv_bias: bool = True
    up_bias: bool = False
    down_bias: bool = True
    pooler: bool = True
    positions: bool = False

    letters = {"n_token_types": "Nt", "mlps": "L"}
    meanings = {"n_token_types": "token types (sentence A, sentence B)"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model)
        self.derive_quotient("d_head", "d_model", "n_heads")


def jina_bert(c: EmbedderConfig) -> Module:
    """Jina's BERT (arXiv:2310.19923), with the tensor names of `JinaBertModel`.

    Source: jinaai/jina-bert-implementation `modeling_bert.py`.
    """
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    attn = Module(
        "attention",
        (
            *(linear(f"self.{name}", heads, embed, bias=True) for name in ("query", "key", "value")),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
            linear("output.dense", embed, heads, bias=True),
            layer_norm("output.LayerNorm", embed),
        ),
        component="attention",
    )
    block = Module("encoder.layer", (attn, *_jina_mlp(c, embed)), repeat=c.n_layers)
    pooler = (linear("pooler.dense", embed, embed, bias=True, component="head"),) if c.pooler else ()
    tables = Module("embeddings", (*_tables(c, embed), layer_norm("LayerNorm", embed)))
    return _with_head(c, (tables, block, *pooler), embed, _jina_predictions(c, embed))


def _jina_mlp(c: EmbedderConfig, embed: Axis) -> tuple[Module, ...]:
    ffn = Axis("ffn", c.d_ff)
    if not c.gated:
        return (
            linear("intermediate.dense", ffn, embed, bias=True, component="mlp"),
            linear("output.dense", embed, ffn, bias=True, component="mlp"),
            layer_norm("output.LayerNorm", embed),
        )
    return (
        Module(
            "mlp",
            (
                linear("gated_layers", 2 * ffn, embed, bias=c.up_bias),
                gate_op(c.act, c.d_ff),
                linear("wo", embed, ffn, bias=c.down_bias),
                layer_norm("layernorm", embed),
            ),
            component="mlp",
        ),
    )


def nomic_bert(c: EmbedderConfig) -> Module:
    """Nomic's BERT (arXiv:2402.01613, 2502.07972), with the tensor names of its own code.

    Source: nomic-ai/nomic-bert-2048 `modeling_hf_nomic_bert.py`.
    """
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    attn = Module(
        "attn",
        (
            linear("Wqkv", 3 * heads, embed, bias=c.qkv_bias),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
            linear("out_proj", embed, heads, bias=c.qkv_bias),
        ),
        component="attention",
    )
    block = Module(
        "encoder.layers",
        (attn, layer_norm("norm1", embed), *_nomic_mlps(c, embed), layer_norm("norm2", embed)),
        repeat=c.n_layers,
    )
    tables = Module("embeddings", _tables(c, embed))
    model = (tables, layer_norm("emb_ln", embed), block)
    return _with_head(c, model, embed, _nomic_predictions(c, embed))


def _nomic_mlps(c: EmbedderConfig, embed: Axis) -> tuple[Module, ...]:
    ffn = Axis("ffn", c.d_ff)
    if c.gated:
        up, gate = (linear(name, ffn, embed, bias=c.up_bias) for name in ("fc11", "fc12"))
        down = linear("fc2", embed, ffn, bias=c.down_bias)
        dense = Module("mlp", (up, gate, gate_op(c.act, c.d_ff), down), component="mlp")
    else:
        dense = mlp("mlp", ffn, embed, bias=c.up_bias, act=c.act, names=("fc1", "fc2"))
    if c.mlps is None:
        return (dense,)
    sparse = _nomic_experts(c, embed)._replace(at=c.mlps.layers("moe"))
    return dense._replace(at=c.mlps.layers("dense")), sparse


def _nomic_experts(c: EmbedderConfig, embed: Axis) -> Module:
    """Experts of two matrices, the rows of all laid end to end, with one bias for them all."""
    count: Dim = c.n_experts
    top_k: Dim = c.top_k
    rows, visited = heads_axis("expert", count, c.d_ff), top_k * c.d_ff * c.d_model
    w1, w2 = (Param(name, (rows, embed), "matmul", active=visited) for name in ("w1", "w2"))
    router = linear("router.layer", Axis("expert", count), embed, component="router")
    experts = Module("experts", (Module("mlp", (w1, w2)), Param("bias", (embed,))), component="experts")
    return Module("mlp", (router, experts))


def _tables(c: EmbedderConfig, embed: Axis) -> tuple[Module, ...]:
    tables = [embedding("word_embeddings", Axis("vocab", c.vocab_size), embed)]
    if c.positions:
        context = Axis("context", c.n_ctx)
        tables.append(embedding("position_embeddings", context, embed, component="position"))
    if c.n_token_types is not None:
        tables.append(embedding("token_type_embeddings", Axis("types", c.n_token_types), embed))
    return tuple(tables)


def _with_head(c: EmbedderConfig, model: tuple[Module, ...], embed: Axis, *heads: Module) -> Module:
    """The encoder alone, or below a head for masked tokens or for labels."""
    if c.task == "base":
        return Module("", model)
    if c.task != "masked":
        heads = (linear("classifier", Axis("labels", c.n_labels), embed, bias=True, component="head"),)
    return Module("", (Module("bert", model), *heads))


def _jina_predictions(c: EmbedderConfig, embed: Axis) -> Module:
    vocab = Axis("vocab", c.vocab_size)
    decoder = (
        Param("weight", (vocab, embed), "matmul", "bert.embeddings.word_embeddings.weight"),
        Param("bias", (vocab,), tied_to="cls.predictions.bias"),
    )
    return Module(
        "cls.predictions",
        (
            Param("bias", (vocab,)),
            linear("transform.dense", embed, embed, bias=True),
            layer_norm("transform.LayerNorm", embed),
            Module("decoder", decoder, kind="linear"),
        ),
        component="head",
    )


def _nomic_predictions(c: EmbedderConfig, embed: Axis) -> Module:
    table = "bert.embeddings.word_embeddings.weight"
    return Module(
        "cls.predictions",
        (
            linear("transform.dense", embed, embed, bias=c.up_bias),
            layer_norm("transform.layer_norm", embed),
            linear("decoder", Axis("vocab", c.vocab_size), embed, bias=c.up_bias, tied_to=table),
        ),
        component="head",
    )


ARCHITECTURES = {
    "jina_bert": Architecture(EmbedderConfig, jina_bert),
    "nomic_bert_own": Architecture(EmbedderConfig, nomic_bert),
}


def _jina(hf: HFConfig) -> Reading:
    if "qk-post-norm" in str(hf.values_in_file.get("auto_map")):
        raise InvalidConfig("auto_map: of Jina's BERTs, the one with norms of queries and keys is not known")
    kind = hf["feed_forward_type"]
    given = hf.fill(
        EmbedderConfig,
        d_head=None,
        gated=kind != "original",
        act={"geglu": "gelu", "reglu": "relu"}.get(kind, hf["hidden_act"]),
        pooler=hf.task in ("base", "sequence"),
        positions=hf["position_embedding_type"] == "absolute",
    )
    return Reading("jina_bert", given)


def _nomic(hf: HFConfig) -> Reading:
    if hf.task not in ("base", "masked"):
        raise InvalidConfig(f"{hf.cls}: of Nomic's own code, only the encoder and its masked model are known")
    act = hf["activation_function"]
    gated = act in ("glu", "swiglu", "geglu")
    every, n_layers = int(hf["moe_every_n_layers"] or 0), int(hf["n_layer"])
    kinds = tuple("moe" if every and i % every == 1 else "dense" for i in range(n_layers))
    width = hf["n_inner"] or 4 * hf["n_embd"]
    given = hf.fill(
        EmbedderConfig,
        # The configuration itself pads the vocabulary.
        vocab_size=round_up(hf["vocab_size"], hf["pad_vocab_size_multiple"]),
        d_head=None,
        d_ff=round_up(width, 256) if gated else width,
        n_token_types=hf["type_vocab_size"] or None,
        n_experts=hf["num_experts"] if every else None,
        top_k=hf["moe_top_k"] if every else None,
        mlps=Pattern(kinds) if "moe" in kinds else None,
        gated=gated,
        act=act,
        qkv_bias=hf["qkv_proj_bias"],
        up_bias=hf["mlp_fc1_bias"],
        down_bias=hf["mlp_fc2_bias"],
        pooler=False,
        positions=False,
    )
    return Reading("nomic_bert_own", given)


HF_READERS = {"jina_bert": _jina, "nomic_bert_own": _nomic}
