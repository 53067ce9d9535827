"""ProphetNet: an encoder, and a decoder that predicts the next n tokens at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.encoder_decoders.bart_layers import attention
from sizer.architectures.encoder_decoders.tasks import task_of
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Op

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

NAMES = ("key_proj", "value_proj", "query_proj", "out_proj")


@configuration
class ProphetNetConfig(Config):
    """Sizes and switches of a ProphetNet; `task` "causal" is the decoder alone."""

    d_model: Dim
    vocab_size: Dim
    n_ctx: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    n_decoder_layers: Dim
    n_decoder_heads: Dim
    d_ff_decoder: Dim
    n_gram: Dim = 2
    n_buckets: Dim = 32
    d_head: Dim | None = None
    d_decoder_head: Dim | None = None
    cross_attention: bool = True
    tie_embeddings: bool = True
    act: str = "gelu"
    task: str = "seq2seq"

    letters = {
        "n_decoder_layers": "M",
        "n_decoder_heads": "Hd",
        "d_ff_decoder": "Fd",
        "d_decoder_head": "Dd",
        "n_gram": "Ng",
        "n_buckets": "Nb",
    }
    meanings = {
        "n_layers": "encoder blocks",
        "n_heads": "heads of the encoder",
        "d_ff": "hidden width of the encoder's MLP",
        "n_decoder_layers": "decoder blocks",
        "n_decoder_heads": "heads of the decoder",
        "d_ff_decoder": "hidden width of the decoder's MLP",
        "d_decoder_head": "width of one head of the decoder",
        "n_gram": "tokens predicted at once",
        "n_buckets": "buckets of relative distance",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_decoder_head", "d_model", "n_decoder_heads")
        if self.task != "causal":
            self.derive_quotient("d_head", "d_model", "n_heads")


def prophetnet(c: ProphetNetConfig) -> Module:
    """ProphetNet (Qi et al. 2020), with the tensor names of `ProphetNetForConditionalGeneration`.

    Source: transformers `modeling_prophetnet.py`.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    prefix = "" if c.task == "base" else "prophetnet."
    tied_to = f"{prefix}word_embeddings.weight" if c.tie_embeddings else None
    table = embedding("word_embeddings", vocab, embed)
    copy = embedding("word_embeddings", vocab, embed, tied_to=tied_to)
    positions = embedding("position_embeddings", Axis("context", c.n_ctx), embed, component="position")
    begin = (copy, positions, layer_norm("embeddings_layer_norm", embed))
    ngrams = embedding("ngram_embeddings", Axis("ngram", c.n_gram), embed)
    decoder = Module("decoder", (*begin, ngrams, Op("streams", "streams", {}), _decoder_layer(c, embed)))
    head = linear("lm_head", vocab, embed, tied_to=tied_to, component="head")
    if c.task == "causal":
        return Module("", (Module("prophetnet", (table, decoder)), head))
    encoder = Module("encoder", (*begin, _encoder_layer(c, embed)), stream="encoder")
    model = (table, encoder, decoder)
    return Module("", model) if c.task == "base" else Module("", (Module("prophetnet", model), head))


def _encoder_layer(c: ProphetNetConfig, embed: Axis) -> Module:
    return Module(
        "layers",
        (
            attention("self_attn", embed, n=c.n_heads, d_head=c.d_head, cached=False, names=NAMES),
            layer_norm("self_attn_layer_norm", embed),
            mlp("feed_forward", Axis("ffn", c.d_ff), embed, act=c.act, names=("intermediate", "output")),
            layer_norm("feed_forward_layer_norm", embed),
        ),
        repeat=c.n_layers,
    )


def _decoder_layer(c: ProphetNetConfig, embed: Axis) -> Module:
    """A block of the decoder, with a number for each head and bucket of distances in its attention."""
    n, d_head, ffn = c.n_decoder_heads, c.d_decoder_head, Axis("ffn", c.d_ff_decoder)
    own = attention("self_attn", embed, n=n, d_head=d_head, names=NAMES)
    distances = linear(
        "relative_pos_embeddings", Axis("buckets", c.n_buckets * n), embed, bias=True, component="position"
    )
    cross = (
        attention("cross_attn", embed, n=n, d_head=d_head, source=embed, names=NAMES),
        layer_norm("cross_attn_layer_norm", embed),
    )
    return Module(
        "layers",
        (
            own._replace(children=(*own.children, distances)),
            layer_norm("self_attn_layer_norm", embed),
            *(cross if c.cross_attention else ()),
            mlp("feed_forward", ffn, embed, act=c.act, names=("intermediate", "output")),
            layer_norm("feed_forward_layer_norm", embed),
        ),
        repeat=c.n_decoder_layers,
    )


ARCHITECTURES = {"prophetnet": Architecture(ProphetNetConfig, prophetnet)}


def _prophetnet(hf: HFConfig) -> Reading:
    given = hf.fill(
        ProphetNetConfig,
        task=task_of(hf),
        n_layers=hf["num_encoder_layers"],
        n_heads=hf["num_encoder_attention_heads"],
        d_ff=hf["encoder_ffn_dim"],
        n_decoder_layers=hf["num_decoder_layers"],
        n_decoder_heads=hf["num_decoder_attention_heads"],
        d_ff_decoder=hf["decoder_ffn_dim"],
        n_gram=hf["ngram"],
        n_buckets=hf["num_buckets"],
        cross_attention=hf["add_cross_attention"],
        act=hf["activation_function"],
    )
    return Reading("prophetnet", given)


HF_READERS = {"prophetnet": _prophetnet}
