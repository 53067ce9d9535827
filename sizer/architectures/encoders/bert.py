"""BERT: a post-norm encoder with learned positions and token types."""

from __future__ import annotations

from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import attention_core, buffer, embedding, layer_norm, linear
from sizer.core.tree import Axis, Module, Op, Param, heads_axis


@configuration
class BertConfig(Config):
    """Sizes and switches of a BERT.

    `task`: "base" (the encoder alone), "masked", or "pretraining" (masked tokens and next
    sentence). `pooler`: the dense layer over the first token.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    vocab_size: Dim
    n_ctx: Dim
    d_ff: Dim | None = None
    d_head: Dim | None = None
    n_token_types: Dim = 2
    task: str = "base"
    pooler: bool = True

    letters = {"n_token_types": "Nt"}
    meanings = {"n_token_types": "token types (sentence A, sentence B)"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model)
        if self.d_head is None:
            self.derive(d_head=divide(self.d_model, self.n_heads, names="d_model / n_heads"))


def bert(c: BertConfig) -> Module:
    """BERT (Devlin et al. 2018), with the tensor names of transformers `modeling_bert.py`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    heads, ffn = heads_axis("heads", c.n_heads, c.d_head), Axis("ffn", c.d_ff)

    attention = Module(
        "attention",
        (
            linear("self.query", heads, embed, bias=True),
            linear("self.key", heads, embed, bias=True),
            linear("self.value", heads, embed, bias=True),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cached=False),
            linear("output.dense", embed, heads, bias=True),
            layer_norm("output.LayerNorm", embed),
        ),
        component="attention",
    )
    block = Module(
        "encoder.layer",
        (
            attention,
            linear("intermediate.dense", ffn, embed, bias=True, component="mlp"),
            Op("act", "gelu", {"width": c.d_ff}, component="mlp"),
            linear("output.dense", embed, ffn, bias=True, component="mlp"),
            layer_norm("output.LayerNorm", embed),
        ),
        repeat=c.n_layers,
    )
    pooler = (linear("pooler.dense", embed, embed, bias=True, component="head"),) if c.pooler else ()
    model = (_embeddings(c, embed, vocab), block, *pooler)
    if c.task == "base":
        return Module("", model)
    return Module("", (Module("bert", model), *_heads(c, embed, vocab)))


def _embeddings(c: BertConfig, embed: Axis, vocab: Axis) -> Module:
    context, types, one = Axis("context", c.n_ctx), Axis("types", c.n_token_types), Axis("one", 1)
    ids = ("position_ids", "token_type_ids") if c.layout == "transformers" else ()
    return Module(
        "embeddings",
        (
            embedding("word_embeddings", vocab, embed),
            embedding("position_embeddings", context, embed, component="position"),
            embedding("token_type_embeddings", types, embed),
            layer_norm("LayerNorm", embed),
            *(buffer(name, one, context, persistent=False) for name in ids),
        ),
    )


def _heads(c: BertConfig, embed: Axis, vocab: Axis) -> tuple[Module, ...]:
    """The masked-token head, tied to the embedding in weight, and the next-sentence head."""
    predictions = Module(
        "cls.predictions",
        (
            Param("bias", (vocab,)),
            linear("transform.dense", embed, embed, bias=True),
            layer_norm("transform.LayerNorm", embed),
            Module(
                "decoder",
                (
                    Param("weight", (vocab, embed), "matmul", "bert.embeddings.word_embeddings.weight"),
                    Param("bias", (vocab,), tied_to="cls.predictions.bias"),
                ),
                kind="linear",
            ),
        ),
        component="head",
    )
    if c.task == "masked":
        return (predictions,)
    next_sentence = linear("cls.seq_relationship", Axis("labels", 2), embed, bias=True)
    return predictions, next_sentence._replace(component="head")


ARCHITECTURES = {"bert": Architecture(BertConfig, bert)}
