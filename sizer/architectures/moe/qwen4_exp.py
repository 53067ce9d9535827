"""Qwen 4 (experimental): gated delta layers, indexed attention, and tables of n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.heads import with_head
from sizer.architectures.moe.deepseek import router
from sizer.architectures.moe.qwen4_exp_config import Qwen4ExpConfig
from sizer.architectures.registry import Architecture
from sizer.core.dims import Dim, divide
from sizer.core.layers import buffer, embedding, gated_mlp, linear, rms_norm, routed_experts
from sizer.core.tree import Axis, Layers, Module, Op, Param, State, heads_axis


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


def _indexer(c: Any, embed: Axis) -> Module:
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


def _ngrams(c: Any, embed: Axis) -> tuple[Module, ...]:
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
