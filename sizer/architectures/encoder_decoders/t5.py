"""T5: an encoder and a decoder whose first blocks hold the relative positions of all."""

from __future__ import annotations

from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, gated_mlp, linear, mlp, rms_norm
from sizer.core.tree import Axis, Layers, Module, heads_axis

FIRST = Layers(1, (0,))


@configuration
class T5Config(Config):
    """Sizes and switches of a T5. `gated`: T5 1.1's MLP with two input matrices."""

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_head: Dim
    d_ff: Dim
    vocab_size: Dim
    n_decoder_layers: Dim | None = None
    n_buckets: Dim = 32
    gated: bool = False
    act: str = "relu"
    tie_embeddings: bool = True
    task: str = "seq2seq"

    letters = {"n_decoder_layers": "M", "n_buckets": "Nb"}
    meanings = {
        "n_layers": "encoder blocks",
        "n_decoder_layers": "decoder blocks",
        "n_buckets": "buckets of relative distance",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_decoder_layers=self.n_layers)


def t5(c: T5Config) -> Module:
    """T5 (Raffel et al. 2020), with the tensor names of `T5ForConditionalGeneration`.

    Source: transformers `modeling_t5.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    encoder = Module(
        "encoder",
        (
            embedding("embed_tokens", vocab, embed, tied_to="shared.weight"),
            Module("block", (_self_attention(c, embed), _feed_forward(c, embed, 1)), repeat=c.n_layers),
            rms_norm("final_layer_norm", embed),
        ),
        stream="encoder",
    )
    decoder = Module(
        "decoder",
        (
            embedding("embed_tokens", vocab, embed, tied_to="shared.weight"),
            Module(
                "block",
                (_self_attention(c, embed), _cross_attention(c, embed), _feed_forward(c, embed, 2)),
                repeat=c.n_decoder_layers,
            ),
            rms_norm("final_layer_norm", embed),
        ),
    )
    tied_to = "shared.weight" if c.tie_embeddings else None
    head = (
        (linear("lm_head", vocab, embed, tied_to=tied_to, component="head"),) if c.task == "seq2seq" else ()
    )
    return Module("", (embedding("shared", vocab, embed), encoder, decoder, *head))


def _self_attention(c: T5Config, embed: Axis) -> Module:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    buckets, per_head = Axis("buckets", c.n_buckets), Axis("heads", c.n_heads)
    positions = embedding("relative_attention_bias", buckets, per_head, component="position")
    attention = Module(
        "SelfAttention",
        (
            linear("q", heads, embed),
            linear("k", heads, embed),
            linear("v", heads, embed),
            positions._replace(at=FIRST),
            *attention_core(c.n_heads, c.n_heads, c.d_head),
            linear("o", embed, heads),
        ),
        component="attention",
    )
    return Module("layer.0", (rms_norm("layer_norm", embed), attention))


def _cross_attention(c: T5Config, embed: Axis) -> Module:
    heads = heads_axis("heads", c.n_heads, c.d_head)
    attention = Module(
        "EncDecAttention",
        (
            linear("q", heads, embed),
            linear("k", heads, embed)._replace(stream="encoder"),
            linear("v", heads, embed)._replace(stream="encoder"),
            *attention_core(c.n_heads, c.n_heads, c.d_head, cross=True),
            linear("o", embed, heads),
        ),
        component="attention",
    )
    return Module("layer.1", (rms_norm("layer_norm", embed), attention))


def _feed_forward(c: T5Config, embed: Axis, index: int) -> Module:
    ffn = Axis("ffn", c.d_ff)
    dense = (
        gated_mlp("DenseReluDense", ffn, embed, act=c.act, names=("wi_0", "wi_1", "wo"))
        if c.gated
        else mlp("DenseReluDense", ffn, embed, bias=False, act=c.act, names=("wi", "wo"))
    )
    return Module(f"layer.{index}", (rms_norm("layer_norm", embed), dense))


ARCHITECTURES = {"t5": Architecture(T5Config, t5)}
