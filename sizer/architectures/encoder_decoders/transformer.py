"""The original Transformer: an encoder and a decoder, post-norm, with sinusoidal positions."""

from __future__ import annotations

from sizer.architectures.registry import Architecture
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, embedding, layer_norm, linear, mlp
from sizer.core.tree import Axis, Module, Param, heads_axis


@configuration
class TransformerConfig(Config):
    """Sizes and switches of an encoder-decoder Transformer.

    `embeddings`: the shared embedding of the paper around the two stacks; without it, what is
    left is `torch.nn.Transformer`. `shared_embeddings`: source, target and head are one matrix.
    `final_norm`: torch closes each stack with a LayerNorm; the paper does not.
    """

    d_model: Dim
    n_heads: Dim
    n_layers: Dim
    n_decoder_layers: Dim | None = None
    d_ff: Dim | None = None
    d_head: Dim | None = None
    vocab_size: Dim | None = None
    embeddings: bool = True
    shared_embeddings: bool = True
    bias: bool = True
    final_norm: bool = False

    letters = {"n_decoder_layers": "M"}
    meanings = {"n_layers": "encoder blocks", "n_decoder_layers": "decoder blocks"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model, n_decoder_layers=self.n_layers)
        self.derive_quotient("d_head", "d_model", "n_heads")


def transformer(c: TransformerConfig) -> Module:
    """The Transformer (Vaswani et al. 2017), with the tensor names of `torch.nn.Transformer`.

    Positions are sinusoids: nothing is learned. Source: arXiv:1706.03762, section 3.
    """
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)

    encoder_block = (
        _attention("self_attn", c, embed),
        layer_norm("norm1", embed, bias=c.bias),
        _mlp(c, embed),
        layer_norm("norm2", embed, bias=c.bias),
    )
    decoder_block = (
        _attention("self_attn", c, embed),
        layer_norm("norm1", embed, bias=c.bias),
        _attention("multihead_attn", c, embed, cross=True),
        layer_norm("norm2", embed, bias=c.bias),
        _mlp(c, embed),
        layer_norm("norm3", embed, bias=c.bias),
    )
    last = (layer_norm("norm", embed, bias=c.bias),) if c.final_norm else ()
    encoder_layers = Module("layers", encoder_block, repeat=c.n_layers)
    decoder_layers = Module("layers", decoder_block, repeat=c.n_decoder_layers)
    encoder = Module("encoder", (encoder_layers, *last), stream="encoder")
    decoder = Module("decoder", (decoder_layers, *last))
    if not c.embeddings:
        return Module("", (encoder, decoder))
    shared = "src_embed.weight" if c.shared_embeddings else None
    return Module(
        "",
        (
            embedding("src_embed", vocab, embed)._replace(stream="encoder"),
            encoder,
            embedding("tgt_embed", vocab, embed, tied_to=shared),
            decoder,
            linear("generator", vocab, embed, tied_to=shared, component="head"),
        ),
    )


def _mlp(c: TransformerConfig, embed: Axis) -> Module:
    return mlp("", Axis("ffn", c.d_ff), embed, bias=c.bias, act="relu", names=("linear1", "linear2"))


def _attention(name: str, c: TransformerConfig, embed: Axis, *, cross: bool = False) -> Module:
    """`torch.nn.MultiheadAttention`: queries, keys and values in one matrix.

    In cross-attention the keys and values of that matrix run over the encoder's tokens.
    """
    heads = heads_axis("heads", c.n_heads, c.d_head)
    bias = (Param("in_proj_bias", (3 * heads,)),) if c.bias else ()
    use = "cross_qkv_matmul" if cross else "matmul"
    return Module(
        name,
        (
            Param("in_proj_weight", (3 * heads, embed), use),
            *bias,
            *attention_core(c.n_heads, c.n_heads, c.d_head, cached=not cross, cross=cross),
            linear("out_proj", embed, heads, bias=c.bias),
        ),
        component="attention",
    )


ARCHITECTURES = {"transformer": Architecture(TransformerConfig, transformer)}
