"""DeepSeek-V4: compressed attention over a window, experts in every layer, several residual streams."""

from __future__ import annotations

from sizer.architectures.heads import with_head
from sizer.architectures.moe.deepseek import mixture
from sizer.architectures.moe.deepseek_v4_config import DeepseekV4Config
from sizer.architectures.moe.hyper_connections import hyper_connection
from sizer.architectures.registry import Architecture
from sizer.core.dims import Dim, divide
from sizer.core.layers import buffer, embedding, linear, renamed, rms_norm
from sizer.core.tree import Axis, Buffer, Module, Op, Param, State, heads_axis


def deepseek_v4(c: DeepseekV4Config) -> Module:
    """DeepSeek-V4, with the tensor names of `DeepseekV4ForCausalLM`.

    Source: transformers `modeling_deepseek_v4.py`.
    """
    embed = Axis("embed", c.d_model)
    block = Module(
        "layers",
        (
            _streams(c, "hc_attn_" if c.layout == "checkpoint" else "attn_hc."),
            rms_norm("input_layernorm", embed),
            _attention(c, embed),
            _streams(c, "hc_ffn_" if c.layout == "checkpoint" else "ffn_hc."),
            rms_norm("post_attention_layernorm", embed),
            _experts(c, embed),
        ),
        repeat=c.n_layers,
    )
    width = Axis("streams", c.n_streams * c.d_model)
    # The files have neither the prefix nor the module of the names in memory.
    stored_base = c.layout == "checkpoint" and c.task == "base"
    place = "hc_head_" if stored_base else "hc_head.hc_"
    last_mix = hyper_connection((f"{place}fn", f"{place}base", f"{place}scale"), c.n_streams, width, 1)
    model = (
        embedding("embed" if stored_base else "embed_tokens", Axis("vocab", c.vocab_size), embed),
        _stored(block) if c.layout == "checkpoint" else block,
        last_mix,
        rms_norm("norm", embed),
        *_rotary(c),
    )
    whole = with_head(c, model)
    return renamed(whole, {"lm_head": "head"}) if c.layout == "checkpoint" else whole


def _streams(c: DeepseekV4Config, prefix: str) -> Module:
    """How a part reads the streams, writes to them, and mixes them: M + M + M² weights a token."""
    m = c.n_streams
    names = (f"{prefix}fn", f"{prefix}base", f"{prefix}scale")
    return hyper_connection(names, 2 * m + m * m, Axis("streams", m * c.d_model), 3, m)


def _attention(c: DeepseekV4Config, embed: Axis) -> Module:
    """Queries from a latent; one head of keys that are values too; a grouped output projection."""
    rank, head = Axis("q_rank", c.q_lora_rank), Axis("head", c.d_head)
    outputs = Axis("groups", c.n_output_groups * c.output_lora_rank, c.output_lora_rank)
    sizes = {"heads": c.n_heads, "kv_heads": 1, "d_qk": c.d_head, "d_v": c.d_head, "window": c.window}
    stored = c.layout == "checkpoint"
    selector = (_indexer(c, embed)._replace(at=c.layers.layers("sparse")),) if stored else ()
    grouped = Param("weight", (outputs, Axis("group", c.d_output_group)), "matmul")
    return Module(
        "self_attn",
        (
            linear("q_a_proj", rank, embed),
            rms_norm("q_a_norm", rank),
            linear("q_b_proj", heads_axis("heads", c.n_heads, c.d_head), rank),
            linear("kv_proj", head, embed),
            rms_norm("kv_norm", head),
            Param("sinks", (Axis("heads", c.n_heads),)),
            Op("core", "attention", sizes),
            State("kv", per_token=c.d_head, window=c.window),
            _compressor(c, embed, "heavy"),
            _compressor(c, embed, "sparse"),
            *selector,
            Module("o_a_proj", (grouped,), kind="linear"),
            linear("o_b_proj", embed, outputs),
        ),
        component="attention",
    )


def _compressor(c: DeepseekV4Config, embed: Axis, kind: str) -> Module:
    """One entry of keys for a run of tokens: a gated mean of theirs; runs overlap in "sparse"."""
    head = Axis("head", c.d_head)
    if kind == "heavy":
        parts = _entries(c, embed, head, head, c.heavy_rate)
        kept, rate = c.heavy_per_token, c.heavy_rate
    else:
        parts = _entries(c, embed, head, 2 * head, c.sparse_rate)
        kept, rate = c.sparse_per_token, c.sparse_rate
        if c.layout != "checkpoint":
            parts = (*parts, _indexer(c, embed))
    # The scores over T/m entries of Dh are those over T of Dh/m; those that are not selected are masked.
    sizes = {"heads": c.n_heads, "kv_heads": 1, "d_qk": kept, "d_v": kept, "window": None, "rate": rate}
    facts = (Op("compressed", "attention", sizes), State("compressed", per_token=kept))
    return Module("compressor", (*parts, *facts), at=c.layers.layers(kind))


def _entries(
    c: DeepseekV4Config, embed: Axis, width: Axis, projected: Axis, rate: Dim
) -> tuple[Module | Param, ...]:
    return (
        Param("position_bias", (Axis("rate", rate), projected)),
        linear("kv_proj", projected, embed),
        linear("gate_proj", projected, embed),
        rms_norm("kv_norm", width),
        *_rotary(c),
    )


def _indexer(c: DeepseekV4Config, embed: Axis) -> Module:
    """What selects the entries; a file has it beside the compressor, and in it one of its own."""
    index, rank = Axis("index", c.d_index), Axis("q_rank", c.q_lora_rank)
    stored = c.layout == "checkpoint"
    kept = c.index_per_token
    sizes = {
        "heads": c.n_index_heads,
        "kv_heads": 1,
        "d_qk": kept,
        "d_v": 0,
        "window": None,
        "rate": c.sparse_rate,
    }
    return Module(
        "indexer",
        (
            Module("compressor" if stored else "", _entries(c, embed, index, 2 * index, c.sparse_rate)),
            linear("q_b_proj", heads_axis("index_heads", c.n_index_heads, c.d_index), rank),
            linear(
                "weights_proj" if stored else "scorer.weights_proj",
                Axis("index_heads", c.n_index_heads),
                embed,
            ),
            Op("scores", "attention", sizes),
            State("index", per_token=kept),
        ),
    )


def _experts(c: DeepseekV4Config, embed: Axis) -> Module:
    """The experts, and what a router keeps beside its scores: a balance, or a table by token."""
    experts, vocab = Axis("expert", c.n_experts), Axis("vocab", c.vocab_size)
    gate, *others = mixture(c, embed).children
    assert isinstance(gate, Module)

    def kept(kind: str, tensor: Buffer) -> Module:
        return Module("", (tensor,), at=c.routers.layers(kind))

    bias = kept("moe", buffer("e_score_correction_bias", experts))
    table = kept("hash", buffer("tid2eid", vocab, Axis("top_k", c.top_k)))
    return Module("mlp", (gate._replace(children=(*gate.children, bias, table)), *others))


def _rotary(c: DeepseekV4Config) -> tuple[Module, ...]:
    if c.layout == "checkpoint":
        return ()
    tables = (
        buffer(f"{kind}_{name}", Axis("rotary", divide(width, 2, names="d_rotary / 2")), persistent=False)
        for kind, width in (("main", c.d_rotary), ("compress", c.d_compress_rotary))
        for name in ("inv_freq", "original_inv_freq")
    )
    return (Module("rotary_emb", tuple(tables)),)


# Names of a block in the published files.
_NAMES = {
    "self_attn": "attn",
    "mlp": "ffn",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "position_bias": "ape",
    "sinks": "attn_sink",
    "kv_proj": "wkv",
    "gate_proj": "wgate",
    "kv_norm": "norm",
    "q_a_proj": "wq_a",
    "q_a_norm": "q_norm",
    "q_b_proj": "wq_b",
    "o_a_proj": "wo_a",
    "o_b_proj": "wo_b",
    "e_score_correction_bias": "bias",
}
_EXPERT_NAMES = {**_NAMES, "gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}


def _stored(block: Module) -> Module:
    parts = [part for part in block.children if isinstance(part, Module)]
    return block._replace(
        children=tuple(renamed(part, _EXPERT_NAMES if part.name == "mlp" else _NAMES) for part in parts)
    )


ARCHITECTURES = {"deepseek_v4": Architecture(DeepseekV4Config, deepseek_v4)}
