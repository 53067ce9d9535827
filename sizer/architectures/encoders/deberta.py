"""DeBERTa and DeBERTa-v2/v3: attention over contents and relative positions apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.encoders.parts import (
    Children,
    bert_mlp,
    id_buffers,
    label_head,
    masked_head,
    with_heads,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class DebertaConfig(Config):
    """Sizes and switches of a DeBERTa.

    `fused_qkv`: the first version's one matrix for queries, keys and values.
    `n_relative`: rows of the table of relative positions, where attention has one.
    `c2p`, `p2c`: positions have a projection of their own as keys, as queries.
    `share_att_key`: positions go through the projections of the contents instead.
    `d_conv`: width of the convolution beside the first layer.
    `legacy`: the head has a projection of its own, tied to the embedding.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_ctx: Dim
    n_token_types: Dim | None = None
    d_head: Dim | None = None
    d_embedding: Dim | None = None
    d_pooler: Dim | None = None
    n_relative: Dim | None = None
    d_conv: Dim | None = None
    conv_groups: Dim = 1
    conv_inputs: Dim | None = None
    fused_qkv: bool = False
    absolute_positions: bool = True
    c2p: bool = False
    p2c: bool = False
    share_att_key: bool = False
    norm_relative: bool = False
    talking_heads: bool = False
    legacy: bool = True
    tie_embeddings: bool = True
    act: str = "gelu"
    task: str = "masked"

    letters = {
        "n_token_types": "Nt",
        "d_embedding": "De",
        "d_pooler": "Dp",
        "n_relative": "Nr",
        "d_conv": "Kc",
        "conv_groups": "G",
    }
    meanings = {
        "n_token_types": "token types",
        "d_embedding": "width of the embedding",
        "d_pooler": "width of the pooler",
        "n_relative": "rows of the table of relative positions",
        "d_conv": "width of the convolution",
        "conv_groups": "groups of the convolution",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_pooler=self.d_model)
        self.derive_quotient("d_head", "d_model", "n_heads")
        self.derive_quotient("conv_inputs", "d_model", "conv_groups")


def deberta(c: DebertaConfig) -> Module:
    """DeBERTa (He et al. 2021), with the tensor names of transformers `modeling_deberta*.py`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    block = Module(
        "encoder.layer",
        (attention(c, embed), *bert_mlp(Axis("ffn", c.d_ff), embed, act=c.act)),
        repeat=c.n_layers,
    )
    model = (embeddings(c, embed, vocab), block, *relative_positions(c, embed), *convolution(c, embed))
    return with_heads(c, "deberta", model, *heads(c, embed, vocab))


def embeddings(c: DebertaConfig, embed: Axis, vocab: Axis) -> Module:
    """Tables of words, and of positions and token types where there are any."""
    width = embed if c.d_embedding is None else Axis("embedding", c.d_embedding)
    context = Axis("context", c.n_ctx)
    parts: Children = (embedding("word_embeddings", vocab, width),)
    if c.absolute_positions:
        parts += (embedding("position_embeddings", context, width, component="position"),)
    if c.n_token_types is not None:
        parts += (embedding("token_type_embeddings", Axis("types", c.n_token_types), width),)
    if c.d_embedding is not None:
        parts += (linear("embed_proj", embed, width, component="embedding"),)
    return Module("embeddings", (*parts, layer_norm("LayerNorm", embed), *id_buffers(c, context)))


def attention(c: DebertaConfig, embed: Axis) -> Module:
    """Self-attention with keys and queries for relative positions."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    one_a_head = Axis("heads", c.n_heads)
    parts: Children = projections(c, heads, embed)
    if c.talking_heads:
        names = ("head_logits_proj", "head_weights_proj")
        parts += tuple(linear(name, one_a_head, one_a_head) for name in names)
    if c.n_relative is not None and not c.share_att_key:
        key, query = ("pos_proj", "pos_q_proj") if c.fused_qkv else ("pos_key_proj", "pos_query_proj")
        parts += (linear(key, heads, embed, bias=not c.fused_qkv),) if c.c2p else ()
        parts += (linear(query, heads, embed, bias=True),) if c.p2c else ()
    return Module(
        "attention",
        (
            Module("self", (*parts, *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False))),
            linear("output.dense", embed, embed, bias=True),
            layer_norm("output.LayerNorm", embed),
        ),
        component="attention",
    )


def projections(c: DebertaConfig, heads: Axis, embed: Axis) -> Children:
    """Queries, keys and values; in the first version fused, and without a bias for keys."""
    if c.fused_qkv:
        return (
            linear("in_proj", 3 * heads, embed),
            Param("q_bias", (heads,)),
            Param("v_bias", (heads,)),
        )
    return tuple(linear(f"{name}_proj", heads, embed, bias=True) for name in ("query", "key", "value"))


def relative_positions(c: DebertaConfig, embed: Axis) -> Children:
    """The table of relative positions that all layers read, and its norm."""
    table = (
        (embedding("encoder.rel_embeddings", Axis("relative", c.n_relative), embed, component="position"),)
        if c.n_relative is not None
        else ()
    )
    return table + ((layer_norm("encoder.LayerNorm", embed),) if c.norm_relative else ())


def convolution(c: DebertaConfig, embed: Axis) -> Children:
    """The convolution over the input of the first layer, added to its output."""
    if c.d_conv is None:
        return ()
    weight = Param("weight", (embed, Axis("conv_in", c.conv_inputs), Axis("kernel", c.d_conv)), "matmul")
    conv = Module("conv", (weight, Param("bias", (embed,))), component="mixer", kind="conv")
    return (Module("encoder.conv", (conv, layer_norm("LayerNorm", embed))),)


def heads(c: DebertaConfig, embed: Axis, vocab: Axis) -> Children:
    """The head of each task."""
    if c.task == "masked":
        if not c.legacy:
            return (reusing_head(embed, vocab),)
        inner = embed if c.d_embedding is None else Axis("embedding", c.d_embedding)
        table = "deberta.embeddings.word_embeddings"
        return (masked_head(c, "cls.predictions", vocab, embed, table=table, inner=inner),)
    if c.task in ("sequence", "choice"):
        width = Axis("pooler", c.d_pooler)
        return linear("pooler.dense", width, width, bias=True, component="head"), label_head(c, width)
    return (label_head(c, embed),)


def reusing_head(embed: Axis, vocab: Axis) -> Module:
    """The head that multiplies by the embedding itself: no tensor of it stands here."""
    return Module(
        "lm_predictions.lm_head",
        (
            Param("bias", (vocab,)),
            linear("dense", embed, embed, bias=True),
            layer_norm("LayerNorm", embed),
            Op("decoder", "matmul", {"out": vocab.size, "in": embed.size}),
        ),
        component="head",
    )


ARCHITECTURES = {"deberta": Architecture(DebertaConfig, deberta)}


def _read(hf: HFConfig, **given: Any) -> Reading:
    kinds = hf["pos_att_type"] or []
    kinds = [kind.strip() for kind in kinds.lower().split("|")] if isinstance(kinds, str) else kinds
    width = hf.in_file("embedding_size", hf["hidden_size"])
    return Reading(
        "deberta",
        hf.fill(
            DebertaConfig,
            n_token_types=hf["type_vocab_size"] or None,
            d_embedding=None if width == hf["hidden_size"] else width,
            d_pooler=hf.in_file("pooler_hidden_size"),
            absolute_positions=hf["position_biased_input"],
            c2p="c2p" in kinds,
            p2c="p2c" in kinds,
            act=hf["hidden_act"],
            **given,
        ),
    )


def _relative(hf: HFConfig) -> int | None:
    """Half the rows of the table of relative positions."""
    if not hf["relative_attention"]:
        return None
    most = int(hf["max_relative_positions"])
    return most if most >= 1 else int(hf["max_position_embeddings"])


def _deberta(hf: HFConfig) -> Reading:
    relative = _relative(hf)
    return _read(
        hf,
        d_head=None,
        n_relative=None if relative is None else 2 * relative,
        fused_qkv=True,
        share_att_key=False,
        talking_heads=hf.in_file("talking_head", False),
        d_conv=None,
        conv_groups=1,
    )


def _deberta_v2(hf: HFConfig) -> Reading:
    relative = _relative(hf)
    buckets = hf.in_file("position_buckets", -1)
    if relative is not None and buckets > 0:
        relative = buckets
    norms = hf.in_file("norm_rel_ebd", "none").lower().split("|")
    kernel = hf.in_file("conv_kernel_size", 0)
    return _read(
        hf,
        d_head=hf.in_file("attention_head_size"),
        n_relative=None if relative is None else 2 * relative,
        share_att_key=hf.in_file("share_att_key", False),
        norm_relative="layer_norm" in [norm.strip() for norm in norms],
        talking_heads=False,
        d_conv=kernel if kernel > 0 else None,
        conv_groups=hf.in_file("conv_groups", 1),
    )


HF_READERS = {"deberta": _deberta, "deberta-v2": _deberta_v2}
