"""ModernBERT: a pre-norm encoder with rotary positions, gated MLPs and windows in most layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.encoders.parts import (
    Children,
    label_head,
    read_layers,
    typed_rotary_buffers,
    windowed_core,
    with_heads,
)
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.layers import after_first, embedding, gate_op, layer_norm, linear
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class ModernBertConfig(Config):
    """Sizes and switches of a ModernBERT.

    `window_layers`: "full" or "window" for each layer.
    `causal`: the decoder of the same shape, whose queries, keys and values are not fused.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    window_layers: Pattern
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    window: Dim | None = None
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    decoder_bias: bool = True
    classifier_bias: bool = False
    tie_embeddings: bool = True
    causal: bool = False
    act: str = "gelu"
    task: str = "masked"

    letters = {"window_layers": "L"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive_quotient("d_head", "d_model", "n_heads")


def modernbert(c: ModernBertConfig) -> Module:
    """ModernBERT (arXiv:2412.13663), with the tensor names of transformers `modeling_modernbert.py`."""
    embed, vocab = Axis("embed", c.d_model), Axis("vocab", c.vocab_size)
    return with_heads(c, "model", encoder(c, embed, vocab), *heads(c, embed, vocab))


def encoder(c: ModernBertConfig, embed: Axis, vocab: Axis) -> Children:
    """Embedding and its norm, blocks (the first without a norm of its own), and a norm."""
    block = Module(
        "layers",
        (
            layer_norm("attn_norm", embed, bias=c.norm_bias)._replace(at=after_first(c.n_layers)),
            attention(c, embed),
            layer_norm("mlp_norm", embed, bias=c.norm_bias),
            feed_forward(c, embed),
        ),
        repeat=c.n_layers,
    )
    half = Axis("rotary", divide(c.d_head, 2, names="d_head / 2"))
    return (
        embedding("embeddings.tok_embeddings", vocab, embed),
        layer_norm("embeddings.norm", embed, bias=c.norm_bias),
        block,
        layer_norm("final_norm", embed, bias=c.norm_bias),
        *typed_rotary_buffers(c, half, half),
    )


def attention(c: ModernBertConfig, embed: Axis) -> Module:
    """Attention over the whole sequence or a window."""
    heads = heads_axis("heads", c.n_heads, c.d_head)
    if c.causal:
        qkv = tuple(linear(f"{x}_proj", heads, embed, bias=c.attention_bias) for x in "qkv")
    else:
        qkv = (linear("Wqkv", 3 * heads, embed, bias=c.attention_bias),)
    out = linear("Wo", embed, embed, bias=c.attention_bias)
    return Module("attn", (*qkv, *windowed_core(c, cached=c.causal), out), component="attention")


def feed_forward(c: ModernBertConfig, embed: Axis) -> Module:
    """The gated MLP, its two input matrices in one."""
    ffn = Axis("ffn", c.d_ff)
    return Module(
        "mlp",
        (
            linear("Wi", 2 * ffn, embed, bias=c.mlp_bias),
            gate_op(c.act, c.d_ff),
            linear("Wo", embed, ffn, bias=c.mlp_bias),
        ),
        component="mlp",
    )


def heads(c: ModernBertConfig, embed: Axis, vocab: Axis) -> Children:
    """A dense layer and a norm, then a projection to the vocabulary or the labels."""
    if c.task in ("masked", "causal"):
        tied_to = "model.embeddings.tok_embeddings.weight" if c.tie_embeddings else None
        name = "lm_head" if c.causal else "head"
        decoder = linear("decoder", vocab, embed, bias=c.decoder_bias, tied_to=tied_to, component="head")
        return prediction_head(name, c, embed), decoder
    if c.causal:
        labels = Axis("labels", c.n_labels)
        classifier = linear("classifier", labels, embed, bias=c.classifier_bias, component="head")
    else:
        classifier = label_head(c, embed, qa="classifier")
    return prediction_head("head", c, embed), classifier


def prediction_head(name: str, c: ModernBertConfig, embed: Axis) -> Module:
    """The dense layer and norm before every projection."""
    dense = linear("dense", embed, embed, bias=c.classifier_bias)
    return Module(name, (dense, layer_norm("norm", embed, bias=c.norm_bias)), component="head")


ARCHITECTURES = {"modernbert": Architecture(ModernBertConfig, modernbert)}


def modernbert_fields(hf: HFConfig, config: type[ModernBertConfig], **given: Any) -> dict[str, Any]:
    """The fields of a ModernBERT, also of one inside another model."""
    kinds = hf["layer_types"]
    if kinds is None:
        key = "global_attn_every_n_layers"
        every = hf.in_file(key, 3)
        kinds = [
            "sliding_attention" if i % every else "full_attention" for i in range(hf["num_hidden_layers"])
        ]
    return hf.fill(
        config,
        d_head=None,
        n_kv_heads=None,
        window_layers=read_layers(kinds, hf.name),
        act=hf["hidden_activation"],
        **{"window": hf["local_attention"] or None, **given},
    )


def _modernbert(hf: HFConfig) -> Reading:
    return Reading("modernbert", modernbert_fields(hf, ModernBertConfig))


HF_READERS = {"modernbert": _modernbert}
