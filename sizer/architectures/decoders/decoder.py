"""The pre-norm decoder with rotary positions: LLaMA, and those that differ from it by a switch.

One builder with flags. What a flag cannot say in a line has a family of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes
from sizer.core.dims import Dim, divide
from sizer.core.layers import (
    attention_core,
    buffer,
    embedding,
    gated_mlp,
    layer_norm,
    linear,
    mlp,
    rms_norm,
)
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(Config):
    """Sizes and switches of a LLaMA-like decoder.

    `norm`: "rms", "layer", "layer_no_bias", or "none" (a norm without a weight).
    `norms`: names of the norms before and after attention, before and after the MLP; "" for none.
    `qk_norm`: "head" (one weight of Dh for all heads) or "full" (a weight for every head's width).
    `gated`: three matrices in the MLP rather than two.
    `window_layers`: "full" or "window" for each layer; without it a `window` holds for all.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_ff: Dim
    vocab_size: Dim
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    d_rotary: Dim | None = None
    n_ctx: Dim | None = None
    window: Dim | None = None
    window_layers: Pattern | None = None
    tie_embeddings: bool = False
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    gated: bool = True
    act: str = "silu"
    norm: str = "rms"
    norms: tuple[str, str, str, str] = ("input_layernorm", "", "post_attention_layernorm", "")
    qk_norm: str | None = None
    qk_norm_names: tuple[str, str] = ("q_norm", "k_norm")

    letters = {"d_rotary": "Dr", "window_layers": "L"}
    meanings = {"d_rotary": "width of the rotary part of a head"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(n_kv_heads=self.n_heads)
        if self.d_head is None:
            self.derive(
                d_head=divide(self.d_model, self.n_heads, names="d_model / n_heads", fix="set d_head")
            )
        self.derive(d_rotary=self.d_head)
        divide(self.n_heads, self.n_kv_heads, names="n_heads / n_kv_heads")


def decoder(c: DecoderConfig) -> Module:
    """LLaMA (Touvron et al. 2023), with the tensor names of `LlamaForCausalLM`.

    Source: transformers `modeling_llama.py`.
    """
    embed = Axis("embed", c.d_model)
    before_attn, after_attn, before_mlp, after_mlp = (norms_named(c, name, embed) for name in c.norms)
    block = Module(
        "layers",
        (*before_attn, attention(c), *after_attn, *before_mlp, feed_forward(c), *after_mlp),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        block,
        norm(c, "norm", embed),
        *rotary_buffers(c.d_rotary, layout=c.layout),
    )
    return with_head(c, model)


def attention(c: DecoderConfig, name: str = "self_attn") -> Module:
    """Queries for every head; keys and values for K of them."""
    embed = Axis("embed", c.d_model)
    heads = heads_axis("heads", c.n_heads, c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    return Module(
        name,
        (
            linear("q_proj", heads, embed, bias=c.qkv_bias),
            linear("k_proj", kv_heads, embed, bias=c.qkv_bias),
            linear("v_proj", kv_heads, embed, bias=c.qkv_bias),
            *qk_norms(c, heads, kv_heads),
            *windowed_core(c),
            linear("o_proj", embed, heads, bias=c.o_bias),
        ),
        component="attention",
    )


def qk_norms(c: DecoderConfig, heads: Axis, kv_heads: Axis) -> tuple[Module, ...]:
    """The norms of queries and keys, where there are any."""
    if c.qk_norm is None:
        return ()
    one_head = Axis("head", c.d_head)
    q, k = (one_head, one_head) if c.qk_norm == "head" else (heads, kv_heads)
    q_name, k_name = c.qk_norm_names
    return norm(c, q_name, q), norm(c, k_name, k)


def windowed_core(c: DecoderConfig) -> tuple[Module, ...]:
    """Scores and mixing, over all tokens or the last W, by layer."""
    if c.window_layers is None:
        return (Module("", attention_core(c.n_heads, c.n_kv_heads, c.d_head, window=c.window)),)
    full, windowed = c.window_layers.layers("full"), c.window_layers.layers("window")
    return (
        Module("", attention_core(c.n_heads, c.n_kv_heads, c.d_head), at=full),
        Module("", attention_core(c.n_heads, c.n_kv_heads, c.d_head, window=c.window), at=windowed),
    )


def feed_forward(c: DecoderConfig) -> Module:
    """The dense MLP of a block."""
    ffn, embed = Axis("ffn", c.d_ff), Axis("embed", c.d_model)
    if c.gated:
        return gated_mlp("mlp", ffn, embed, bias=c.mlp_bias, act=c.act)
    return mlp("mlp", ffn, embed, bias=c.mlp_bias, act=c.act)


def norm(c: DecoderConfig, name: str, width: Axis) -> Module:
    """A norm of the configuration's kind."""
    if c.norm == "rms":
        return rms_norm(name, width)
    if c.norm == "none":
        return Module(name, (), kind="layer_norm", component="norm")
    return layer_norm(name, width, bias=c.norm == "layer")


def norms_named(c: DecoderConfig, name: str, width: Axis) -> tuple[Module, ...]:
    """The norm of that name, or nothing where the block has none there."""
    return (norm(c, name, width),) if name else ()


def rotary_buffers(d_rotary: Dim, *, layout: str, name: str = "rotary_emb") -> tuple[Module, ...]:
    """The inverse frequencies that transformers keeps beside a model, and saves in no file."""
    if layout == "checkpoint":
        return ()
    half = Axis("rotary", divide(d_rotary, 2, names="d_rotary / 2"))
    names = ("inv_freq", "original_inv_freq")
    return (Module(name, tuple(buffer(n, half, persistent=False) for n in names)),)


ARCHITECTURES = {"llama": Architecture(DecoderConfig, decoder)}


def _llama(hf: HFConfig) -> Reading:
    bias = hf["attention_bias"]
    return Reading("llama", hf.fill(DecoderConfig, qkv_bias=bias, o_bias=bias))


def _mistral(hf: HFConfig) -> Reading:
    return Reading("llama", hf.fill(DecoderConfig))


HF_READERS = {"llama": _llama, "mistral": _mistral}
