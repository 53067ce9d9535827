"""Decoders that add a small part to LLaMA's block: Apertus, BitNet, DiffLlama and Doge.

NanoChat and Jais 2 add nothing: they are switches of the same builder.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import (
    DecoderConfig,
    attention,
    feed_forward,
    norm,
    norms_named,
    rotary_buffers,
)
from sizer.architectures.decoders.decoder_names import LLAMA
from sizer.architectures.decoders.reading import dense, every, rotary_width, whole
from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, linear
from sizer.core.tree import Axis, Leaf, Module, Op, Param, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class ApertusConfig(DecoderConfig):
    """Sizes and switches of an Apertus.

    `n_outputs`: rows of the head, where it cannot produce all that the embedding reads.
    """

    n_outputs: Dim | None = None

    letters = {**DecoderConfig.letters, "n_outputs": "Vo"}
    meanings = {**DecoderConfig.meanings, "n_outputs": "tokens that the head can produce"}


@configuration
class DogeConfig(DecoderConfig):
    """Sizes and switches of a Doge.

    `n_experts`: pairs of rows that a token looks up beside the MLP; `n_keys`: each of two halves of
    a key picks one of that many, so that `n_keys`² experts can be found.
    """

    n_experts: Dim | None = None
    n_keys: Dim | None = None
    top_k: Dim | None = None

    letters = {**DecoderConfig.letters, "n_keys": "Nk"}
    meanings = {**DecoderConfig.meanings, "n_keys": "keys of each half of the router"}


def apertus(c: ApertusConfig) -> Module:
    """Apertus (arXiv:2509.14233), with the tensor names of `ApertusForCausalLM`.

    Its activation, xIELU, learns two slopes a layer; two constants are stored beside them.
    Source: transformers `modeling_apertus.py`, `activations.py`.
    """
    one = Axis("one", 1)
    mlp = feed_forward(c)
    if c.act == "xielu":
        slopes = (Param("alpha_p", (one,)), Param("alpha_n", (one,)), buffer("beta"), buffer("eps"))
        mlp = _before_last(mlp, Module("act_fn", slopes))
    # A tied head has the rows of the table.
    own_rows = c.n_outputs is not None and not c.tie_embeddings
    head = replace(c, vocab_size=c.n_outputs) if own_rows else c
    return with_head(head, _parts(c, attention(c), mlp))


def bitnet(c: DecoderConfig) -> Module:
    """BitNet b1.58 (arXiv:2504.12285), with the tensor names of `BitNetForCausalLM`.

    A norm precedes each output projection. The weights are counted as trained, one a number; the
    packed files hold four in a byte. Source: transformers `modeling_bitnet.py`.
    """
    embed, ffn = Axis("embed", c.d_model), Axis("ffn", c.d_ff)
    attn = _before_last(attention(c), norm(c, "attn_sub_norm", embed))
    mlp = _before_last(feed_forward(c), norm(c, "ffn_sub_norm", ffn))
    return with_head(c, _parts(c, attn, mlp))


def diffllama(c: DecoderConfig) -> Module:
    """DiffLlama: the differential attention of arXiv:2410.05258 in LLaMA's block.

    Attention runs twice, on either half of the values, and the head pairs are subtracted with a
    learned weight. Source: transformers `modeling_diffllama.py`.
    """
    head = Axis("head", c.d_head)
    lambdas = tuple(Param(f"lambda_{x}", (head,)) for x in ("q1", "k1", "q2", "k2"))
    plain = attention(c)
    *projections, _, output = plain.children
    core = attention_core(2 * c.n_heads, c.n_kv_heads, c.d_head)
    attn = plain._replace(children=(*lambdas, *projections, *core, output))
    return with_head(c, _parts(c, attn, feed_forward(c)))


def doge(c: DogeConfig) -> Module:
    """Doge, with the tensor names of `DogeForCausalLM`.

    Residuals are weighted, a gate made from the values masks attention, and the MLP may look up
    experts of one row each. Source: transformers `modeling_doge.py`.
    """
    embed = Axis("embed", c.d_model)
    gates = Axis("kv_heads", c.n_kv_heads)
    values = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    mask = (Param("A", (gates,)), linear("dt_proj", gates, values, bias=c.qkv_bias))
    attn = _before_last(attention(c), *mask)
    own = (Param("input_residual", (embed,)), Param("post_attention_residual", (embed,)))
    return with_head(c, _parts(c, attn, _doge_mlp(c, embed), *own))


def _doge_mlp(c: DogeConfig, embed: Axis) -> Module:
    dense_mlp = feed_forward(c)
    if c.n_experts is None:
        return dense_mlp
    experts, keys = Axis("expert", c.n_experts), 2 * Axis("keys", c.n_keys)
    rows = Param("weight", (experts, embed), "matmul", active=c.top_k * c.d_model)
    return dense_mlp._replace(
        children=(
            *dense_mlp.children,
            linear("router_gate", keys, embed, component="router"),
            Module("down_embed", (rows,), component="experts"),
            Op("act", c.act, {"width": c.top_k}, component="experts"),
            Module("up_embed", (rows,), component="experts"),
        )
    )


def _parts(c: DecoderConfig, attn: Module, mlp: Module, *own: Module | Leaf) -> tuple[Module, ...]:
    """A decoder with this attention and MLP; `own` are the tensors of a block beside them."""
    embed = Axis("embed", c.d_model)
    before_attn, _, before_mlp, _ = (norms_named(c, name, embed) for name in c.norms)
    return (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        Module("layers", (*own, *before_attn, attn, *before_mlp, mlp), repeat=c.n_layers),
        norm(c, "norm", embed),
        *rotary_buffers(c.d_rotary, layout=c.layout),
    )


def _before_last(module: Module, *parts: Module | Leaf) -> Module:
    """A module with parts inserted before its output projection."""
    *children, last = module.children
    return module._replace(children=(*children, *parts, last))


ARCHITECTURES = {
    "apertus": Architecture(ApertusConfig, apertus),
    "bitnet": Architecture(DecoderConfig, bitnet),
    "diffllama": Architecture(DecoderConfig, diffllama),
    "doge": Architecture(DogeConfig, doge),
}


def _biased(hf: HFConfig, architecture: str, **given: Any) -> Reading:
    """One switch for the biases of attention, as all of these have it."""
    bias = hf["attention_bias"]
    return dense(hf, architecture, qkv_bias=bias, o_bias=bias, d_rotary=rotary_width(hf), **given)


def _nanochat(hf: HFConfig) -> Reading:
    names = LLAMA._replace(mlp=("fc1", "fc2"))
    return _biased(hf, "llama", norm="none", qk_norm="head", gated=False, module_names=names)


def _jais2(hf: HFConfig) -> Reading:
    return _biased(hf, "llama", norm="layer", mlp_bias=hf["mlp_bias"], gated=False)


def _apertus(hf: HFConfig) -> Reading:
    norms = ("attention_layernorm", "", "feedforward_layernorm", "")
    return _biased(hf, "apertus", norms=norms, qk_norm="head", gated=False)


def _apertus1p5(hf: HFConfig) -> Reading:
    reading = _apertus(hf)
    n_outputs = hf["output_vocab_size"]
    if n_outputs is None or n_outputs == hf["vocab_size"]:
        return reading
    return reading._replace(given={**reading.given, "n_outputs": n_outputs})


def _bitnet(hf: HFConfig) -> Reading:
    return _biased(hf, "bitnet")


def _diffllama(hf: HFConfig) -> Reading:
    return _biased(hf, "diffllama")


def _doge(hf: HFConfig) -> Reading:
    reading = _biased(hf, "doge", mlp_bias=hf["mlp_bias"], qk_norm="head", **every(hf))
    if not hf["is_moe"]:
        return reading
    n_experts = whole(hf, "num_experts")
    moe = {"n_experts": n_experts, "n_keys": isqrt(n_experts), "top_k": hf["num_experts_per_tok"]}
    return reading._replace(given={**reading.given, **moe})


HF_READERS = {
    "nanochat": _nanochat,
    "jais2": _jais2,
    "apertus": _apertus,
    "apertus1p5_text": _apertus1p5,
    "bitnet": _bitnet,
    "diffllama": _diffllama,
    "doge": _doge,
}
