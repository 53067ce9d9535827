"""Qwen 4 (experimental): gated delta layers, indexed attention, and tables of n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.heads import with_head
from sizer.architectures.moe.deepseek import router
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes
from sizer.core.dims import Dim, divide, round_up
from sizer.core.layers import buffer, embedding, gated_mlp, linear, rms_norm, routed_experts
from sizer.core.pattern import Pattern, PerLayer
from sizer.core.tree import Axis, Layers, Module, Op, Param, State, heads_axis
from sizer.errors import InvalidConfig
from sizer.sources.hf_config import language_model

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@dataclass(frozen=True, kw_only=True)
class Qwen4ExpConfig(Config):
    """Sizes and switches of a Qwen 4.

    `layers`: "linear" (gated delta net) or "indexed" (attention to keys that an indexer selects).
    `n_streams`, `stream_rank`: residual streams, and the rank of the gates that mix them.
    `ngram_rows`: rows of the table of n-grams of each layer that has one; a file has it in
    `ngram_shards` pieces.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    n_kv_heads: Dim
    d_head: Dim
    d_rotary: Dim
    vocab_size: Dim
    layers: Pattern
    n_linear_k_heads: Dim
    n_linear_v_heads: Dim
    d_linear_k: Dim
    d_linear_v: Dim
    d_conv: Dim
    n_index_heads: Dim | None = None
    n_index_kv_heads: Dim | None = None
    d_index: Dim | None = None
    index_top_k: Dim | None = None
    n_experts: Dim
    top_k: Dim
    d_ff_expert: Dim
    d_ff_shared: Dim
    n_streams: Dim
    stream_rank: Dim
    ngram_rows: PerLayer | None = None
    ngram_size: Dim = 3
    n_ngram_heads: Dim = 16
    d_ngram: Dim | None = None
    d_ngram_conv: Dim = 4
    ngram_shards: int = 1
    attention_bias: bool = False
    tie_embeddings: bool = False
    act: str = "silu"

    letters = {
        "d_rotary": "Dr",
        "n_linear_k_heads": "Hk",
        "n_linear_v_heads": "Hv",
        "d_linear_k": "Dk",
        "d_linear_v": "Dv",
        "d_conv": "Kc",
        "n_index_heads": "Hi",
        "n_index_kv_heads": "Ki",
        "d_index": "Di",
        "index_top_k": "Ti",
        "d_ff_shared": "Fs",
        "n_streams": "M",
        "stream_rank": "R",
        "ngram_rows": "Vn",
        "ngram_size": "Ng",
        "n_ngram_heads": "Hn",
        "d_ngram": "Dn",
        "d_ngram_conv": "Kn",
    }
    meanings = {
        "n_linear_k_heads": "key heads of a linear layer",
        "n_linear_v_heads": "value heads of a linear layer",
        "d_linear_k": "width of such a key head",
        "d_linear_v": "width of such a value head",
        "d_conv": "width of the convolution",
        "n_index_heads": "heads of the indexer",
        "d_ff_shared": "hidden width of the shared expert",
        "n_streams": "residual streams",
        "stream_rank": "rank of the gates that mix the streams",
        "ngram_rows": "rows of a table of n-grams",
        "n_ngram_heads": "rows of it that a token looks up",
        "d_ngram": "width of one of those rows",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.layers.has("indexed") and (self.n_index_heads is None or self.d_index is None):
            raise InvalidConfig("indexed layers need n_index_heads and d_index (indexer_… in a file)")


def qwen4_exp(c: Qwen4ExpConfig) -> Module:
    """Qwen 4 (experimental), with the tensor names of `Qwen4ExpForCausalLM`.

    Source: transformers `modeling_qwen4_exp.py`. Its blocks have no norms but those of the streams.
    """
    embed = Axis("embed", c.d_model)
    block = Module(
        "layers",
        (
            *_ngrams(c, embed),
            _streams(c, "attn_hyper_connection"),
            _delta_net(c, embed)._replace(at=c.layers.layers("linear")),
            *_attention(c, embed),
            _streams(c, "mlp_hyper_connection"),
            _experts(c, embed),
        ),
        repeat=c.n_layers,
    )
    model = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        block,
        _streams(c, "hyper_connection_mixer", last=True),
        *rotary_buffers(c.d_rotary, layout=c.layout),
    )
    return with_head(c, model)


def _streams(c: Qwen4ExpConfig, name: str, *, last: bool = False) -> Module:
    """A gate over the residual streams: what a part reads of each, and what it writes to each."""
    width = Axis("streams", c.n_streams * c.d_model)
    rank = Axis("rank", c.stream_rank)
    down = linear("input_mix_weight_down", rank, width)
    up = linear("input_mix_weight_up", width, rank)
    write = () if last else (linear("block_inject_weight", Axis("stream", c.n_streams), width),)
    return Module(name, (rms_norm("hc_norm", width), down, up, *write))


def _delta_net(c: Qwen4ExpConfig, embed: Axis) -> Module:
    """Gated delta net: a state of Dk·Dv a head, written by the delta rule."""
    keys = heads_axis("k_heads", c.n_linear_k_heads, c.d_linear_k)
    values = heads_axis("v_heads", c.n_linear_v_heads, c.d_linear_v)
    per_head, mixed = Axis("v_heads", c.n_linear_v_heads), 2 * keys + values
    kernel = Param("weight", (mixed, Axis("one", 1), Axis("kernel", c.d_conv)))
    conv_op = Op("conv", "conv", {"channels": mixed.size, "kernel": c.d_conv})
    return Module(
        "linear_attn",
        (
            linear("in_proj_qkv", mixed, embed),
            linear("in_proj_z", values, embed),
            linear("in_proj_b", per_head, embed),
            linear("in_proj_a", per_head, embed),
            Module("conv1d", (kernel, conv_op, State("conv", per_sequence=mixed.size * c.d_conv))),
            Param("dt_bias", (per_head,)),
            Param("A_log", (per_head,)),
            Op("scan", "delta", {"width": values.size, "d_state": c.d_linear_k}),
            State("delta", per_sequence=values.size * c.d_linear_k, dtype="fp32"),
            rms_norm("norm", Axis("head", c.d_linear_v)),
            linear("out_proj", embed, values),
        ),
        component="mixer",
    )


def _attention(c: Qwen4ExpConfig, embed: Axis) -> tuple[Module, ...]:
    """Gated attention: the query projection yields a gate of the output as well."""
    if not c.layers.has("indexed"):
        return ()
    heads, head = heads_axis("heads", c.n_heads, c.d_head), Axis("head", c.d_head)
    kv_heads = heads_axis("kv_heads", c.n_kv_heads, c.d_head)
    sizes = {
        "heads": c.n_heads,
        "kv_heads": c.n_kv_heads,
        "d_qk": c.d_head,
        "d_v": c.d_head,
        "window": c.index_top_k,
    }
    parts = (
        linear("q_proj", 2 * heads, embed, bias=c.attention_bias),
        linear("k_proj", kv_heads, embed, bias=c.attention_bias),
        linear("v_proj", kv_heads, embed, bias=c.attention_bias),
        rms_norm("q_norm", head),
        rms_norm("k_norm", head),
        _indexer(c, embed),
        Op("core", "attention", sizes),
        State("kv", per_token=2 * c.n_kv_heads * c.d_head),
        linear("o_proj", embed, heads, bias=c.attention_bias),
    )
    return (Module("self_attn", parts, component="attention", at=c.layers.layers("indexed")),)


def _indexer(c: Qwen4ExpConfig, embed: Axis) -> Module:
    index = Axis("index", c.d_index)
    both = heads_axis("index_heads", c.n_index_heads + c.n_index_kv_heads, c.d_index)
    sizes = {"heads": c.n_index_heads, "kv_heads": c.n_index_kv_heads, "d_qk": c.d_index, "d_v": 0}
    return Module(
        "indexer",
        (
            linear("index_qk_proj", both, embed),
            rms_norm("q_layernorm", index),
            rms_norm("k_layernorm", index),
            Op("scores", "attention", {**sizes, "window": None}),
            State("index", per_token=c.n_index_kv_heads * c.d_index),
        ),
    )


def _experts(c: Qwen4ExpConfig, embed: Axis) -> Module:
    experts, ffn = Axis("expert", c.n_experts), Axis("expert_ffn", c.d_ff_expert)
    shared = gated_mlp("shared_expert", Axis("ffn", c.d_ff_shared), embed, act=c.act, component="experts")
    return Module(
        "mlp",
        (
            router("gate", experts, embed, balanced=False),
            routed_experts("experts", experts, c.top_k, ffn, embed, layout=c.layout, act=c.act),
            shared,
            linear("shared_expert_gate", Axis("one", 1), embed, component="experts"),
        ),
    )


def _ngrams(c: Qwen4ExpConfig, embed: Axis) -> tuple[Module, ...]:
    """What some layers add to the streams: a lookup of the last n tokens, gated and convolved."""
    if c.ngram_rows is None:
        return ()
    width, looked_up = Axis("streams", c.n_streams * c.d_model), Axis("ngram", c.n_ngram_heads * c.d_ngram)
    kernel = Param("weight", (width, Axis("one", 1), Axis("kernel", c.d_ngram_conv)))
    kept = width.size * (c.d_ngram_conv - 1) * c.ngram_size
    op = Op("conv", "conv", {"channels": width.size, "kernel": c.d_ngram_conv})

    def layer(rows: Dim, layers: Layers) -> Module:
        parts = (
            _ngram_table(c, rows),
            linear("key_proj", width, looked_up),
            linear("value_proj", embed, looked_up),
            rms_norm("norm_key", width),
            rms_norm("norm_query", width),
            rms_norm("norm_conv", width),
            Module("conv1d", (kernel, op, State("ngram_conv", per_sequence=kept))),
        )
        return Module("ple", parts, at=layers, component="mixer")

    return tuple(layer(rows, layers) for rows, layers in c.ngram_rows.groups())


def _ngram_table(c: Qwen4ExpConfig, rows: Dim) -> Module:
    """The hash's constants, and its table: whole in memory, in pieces in a file."""
    heads, width = Axis("ngram_heads", c.n_ngram_heads), Axis("ngram", c.d_ngram)
    tables: tuple[Module, ...] = (embedding("ngram_embedding", Axis("ngrams", rows), width),)
    if c.layout == "checkpoint":
        tables = tuple(
            embedding("ngram_embedding.shard_{}", Axis("ngrams", size), width)._replace(repeat=pieces)
            for size, pieces in _shards(rows, c.ngram_shards)
        )
    return Module(
        "ple_embedding",
        (
            buffer("layer_multipliers", Axis("ngram_size", c.ngram_size)),
            buffer("ngram_heads_vocab_sizes", heads),
            buffer("ngram_heads_offsets", heads),
            *tables,
        ),
        component="embedding",
    )


def _shards(rows: Dim, pieces: int) -> Iterator[tuple[Dim, Layers]]:
    """Sizes of the pieces of a table: equal ones, and what is left for the last."""
    if not isinstance(rows, int):
        yield divide(rows, pieces, names="ngram_rows / ngram_shards"), Layers(pieces)
        return
    size = -(-rows // pieces)
    whole, rest = divmod(rows, size)
    yield size, Layers(whole, range(whole))
    if rest:
        yield rest, Layers(1, (whole,))


ARCHITECTURES = {"qwen4_exp": Architecture(Qwen4ExpConfig, qwen4_exp)}


def _qwen4_exp_text(hf: HFConfig) -> Reading:
    n_layers, types = hf["num_hidden_layers"], hf["layer_types"]
    if types is None:
        every = hf["full_attention_interval"] if "full_attention_interval" in hf else 4
        types = ["linear_attention" if (i + 1) % every else "indexed_attention" for i in range(n_layers)]
    kinds = tuple("linear" if kind == "linear_attention" else "indexed" for kind in types[:n_layers])
    rope = (hf["rope_parameters"] if "rope_parameters" in hf else None) or {}
    return Reading(
        "qwen4_exp",
        hf.fill(
            Qwen4ExpConfig,
            layers=Pattern(kinds),
            d_rotary=int(hf["head_dim"] * rope.get("partial_rotary_factor", 1.0)),
            n_linear_k_heads=hf["linear_num_key_heads"],
            n_linear_v_heads=hf["linear_num_value_heads"],
            d_linear_k=hf["linear_key_head_dim"],
            d_linear_v=hf["linear_value_head_dim"],
            d_conv=hf["linear_conv_kernel_dim"],
            n_index_heads=hf["indexer_n_heads"],
            n_index_kv_heads=hf["indexer_kv_heads"],
            d_index=hf["indexer_head_dim"],
            index_top_k=hf["indexer_budget"],
            d_ff_shared=hf["shared_expert_intermediate_size"],
            n_streams=hf["hc_count"],
            stream_rank=hf["hc_lowrank"],
            **_ngram_sizes(hf, n_layers),
        ),
    )


def _ngram_sizes(hf: HFConfig, n_layers: int) -> dict[str, PerLayer | int]:
    """Rows of each table: a prime for each head, different in every layer, padded together."""
    layers = sorted(set(hf["ple_layer_ids"] or ()))
    if not layers:
        return {}
    heads = (hf["ngram_size"] - 1) * hf["heads_per_ngram"]
    primes = _primes_from(hf["ngram_vocab_size_base"])
    # These count from one.
    rows: list[int | None] = [None] * n_layers
    for layer in layers:
        total = sum(next(primes) for _ in range(heads))
        rows[layer - 1] = round_up(total, hf["make_ngram_vocab_size_divisible_by"])
    width = hf["ple_embed_dim"] if hf["ple_embed_dim"] is not None else hf["hidden_size"]
    return {
        "ngram_rows": PerLayer(tuple(rows)),
        "n_ngram_heads": heads,
        "d_ngram": divide(width, heads, names="ple_embed_dim / ngram heads"),
        "d_ngram_conv": hf["ple_conv_kernel_size"],
        "ngram_shards": hf["split_ngram_parts"],
    }


def _primes_from(number: int) -> Iterator[int]:
    while True:
        if number > 1 and all(number % divisor for divisor in range(2, isqrt(number) + 1)):
            yield number
        number += 1


def _qwen4_exp(hf: HFConfig) -> Reading:
    """The language model alone, from the file of the multimodal one."""
    return _qwen4_exp_text(language_model(hf, "qwen4_exp_text"))


HF_READERS = {"qwen4_exp": _qwen4_exp, "qwen4_exp_text": _qwen4_exp_text}
