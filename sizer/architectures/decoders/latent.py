"""Latent attention, and the dense decoders that have it: MiniCPM3 and Youtu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.heads import with_head
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import buffer, embedding, gated_mlp, layer_norm, linear, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Leaf, Module, Op, State, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class LatentConfig(Config):
    """Sizes and switches of a decoder with latent attention.

    `d_nope`, `d_rope`: the parts of a query or key head without and with rotary positions.
    `n_index_heads`, `d_index`, `index_top_k`: heads of the indexer that selects the keys a query
    sees, their width, and how many keys it selects; `indexers` says which layers have one of their
    own ("full") and which use the selection of the layer before ("shared").
    `output_gate`: the attention's output is gated by a second half of the query projection.
    `embed_scale`: transformers keeps the scale of the embeddings in a buffer.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    kv_lora_rank: Dim
    d_nope: Dim
    d_rope: Dim
    d_value: Dim | None = None
    d_qk: Dim | None = None
    d_ff: Dim
    vocab_size: Dim
    q_lora_rank: Dim | None = None
    d_rotary: Dim | None = None
    n_index_heads: Dim | None = None
    d_index: Dim | None = None
    index_top_k: Dim | None = None
    window: Dim | None = None
    indexers: Pattern | None = None
    output_gate: bool = False
    tie_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    embed_scale: bool = False
    act: str = "silu"

    letters = {
        "d_nope": "Dn",
        "d_rope": "Dr",
        "d_value": "Dv",
        "d_qk": "Dqk",
        "d_rotary": "Drb",
        "n_index_heads": "Hi",
        "d_index": "Di",
        "index_top_k": "Ti",
        "indexers": "Li",
    }
    meanings = {
        "d_nope": "width of a query or key head without positions",
        "d_rope": "width of its rotary part, shared by the heads",
        "d_value": "width of a value head",
        "d_qk": "width of a query or key head",
        "d_rotary": "width of the rotary frequencies kept in memory",
        "n_index_heads": "heads of the indexer",
        "d_index": "width of one head of the indexer",
        "index_top_k": "keys that the indexer selects for a query",
    }
    # Whether the indexer's queries come from the latent of the queries, as DeepSeek-V3.2's do.
    index_reads_latent = True

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.index_reads_latent and self.n_index_heads is not None and self.q_lora_rank is None:
            raise InvalidConfig("an indexer reads the latent of the queries; give q_lora_rank")
        self.derive(d_rotary=self.d_rope, d_qk=self.d_nope + self.d_rope)
        self.derive_quotient("d_value", "d_model", "n_heads")


def latent_decoder(c: LatentConfig) -> Module:
    """MiniCPM3 and Youtu: a dense decoder with latent attention.

    Source: transformers `modeling_minicpm3.py`, `modeling_youtu.py`.
    """
    embed = Axis("embed", c.d_model)
    block = Module(
        "layers",
        (
            rms_norm("input_layernorm", embed),
            latent_attention(c, embed),
            rms_norm("post_attention_layernorm", embed),
            gated_mlp("mlp", Axis("ffn", c.d_ff), embed, bias=c.mlp_bias, act=c.act),
        ),
        repeat=c.n_layers,
    )
    return with_head(c, latent_model(c, embed, block))


def latent_model(c: LatentConfig, embed: Axis, block: Module) -> tuple[Module, ...]:
    """Embedding, blocks, the last norm, and the buffers of rotary positions."""
    scale = (buffer("embed_scale", persistent=False, component="embedding"),)
    table = embedding("embed_tokens", Axis("vocab", c.vocab_size), embed)
    if c.embed_scale and c.layout == "transformers":
        table = table._replace(children=(*table.children, *scale))
    return (table, block, rms_norm("norm", embed), *rotary_buffers(c.d_rotary, layout=c.layout))


def latent_attention(c: Any, embed: Axis, more: tuple[Module | Leaf, ...] = (), *, flow: str = "") -> Module:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434).

    Keys and values of all heads come from one latent of rank Rk; decoding keeps that latent and
    the rotary key that the heads share. `more`: what a family has beside it. `flow`: "latent" where
    it runs as transformers' `DeepseekV3Attention` does.
    """
    kv_rank, rope = Axis("kv_rank", c.kv_lora_rank), Axis("rope", c.d_rope)
    keys_values = heads_axis("heads", c.n_heads, c.d_nope + c.d_value)
    values = heads_axis("heads", c.n_heads, c.d_value)
    return Module(
        "self_attn",
        (
            *latent_queries(c, embed),
            linear("kv_a_proj_with_mqa", kv_rank + rope, embed, bias=c.attention_bias),
            rms_norm("kv_a_layernorm", kv_rank),
            linear("kv_b_proj", keys_values, kv_rank),
            *latent_core(c),
            *indexer(c, embed),
            *more,
            linear("o_proj", embed, values, bias=c.attention_bias),
        ),
        component="attention",
        flow=flow,
    )


def latent_queries(c: Any, embed: Axis) -> tuple[Module, ...]:
    """Queries from the residual stream, or from a latent of rank Rq."""
    queries = heads_axis("heads", c.n_heads, c.d_qk)
    if c.q_lora_rank is None:
        return (linear("q_proj", queries, embed),)
    rank = Axis("q_rank", c.q_lora_rank)
    down = (linear("q_a_proj", rank, embed, bias=c.attention_bias), rms_norm("q_a_layernorm", rank))
    if c.output_gate:
        both = heads_axis("heads", c.n_heads, c.d_qk + c.d_value)
        name = "q_b_proj" if c.layout == "checkpoint" else "q_gate_proj"
        return (*down, linear(name, both, 2 * rank))
    return (*down, linear("q_b_proj", queries, rank))


def latent_core(c: Any) -> tuple[Op | State, ...]:
    """Scores and mixing over full heads, and the latent that decoding keeps."""
    sizes = {
        "heads": c.n_heads,
        "kv_heads": c.n_heads,
        "d_qk": c.d_qk,
        "d_v": c.d_value,
        "window": c.window if c.index_top_k is None else c.index_top_k,
        "d_rotary": c.d_rope,
    }
    pairs = ("pairs",) if getattr(c, "rotary", "") == "pairs" else ()
    latent = State("latent", per_token=c.kv_lora_rank + c.d_rope, window=c.window)
    return Op("core", "attention", sizes, traits=("causal", "rotary", "fp32_softmax", *pairs)), latent


def indexer(c: Any, embed: Axis) -> tuple[Module, ...]:
    """The indexer of sparse attention (DeepSeek-V3.2): its keys, one a token, are cached as well."""
    if c.n_index_heads is None:
        return ()
    index, rank = Axis("index", c.d_index), Axis("q_rank", c.q_lora_rank)
    heads = Axis("index_heads", c.n_index_heads)
    # The scores of the heads are added with a weight each: a value of width 1.
    scored = getattr(c, "d_scored", c.d_index)
    sizes = {"heads": c.n_index_heads, "kv_heads": 1, "d_qk": scored, "d_v": 1, "window": None}
    return (
        Module(
            "indexer",
            (
                linear("wq_b", heads_axis("index_heads", c.n_index_heads, c.d_index), rank),
                linear("wk", index, embed),
                layer_norm("k_norm", index),
                linear("weights_proj", heads, embed),
                Op("scores", "attention", sizes),
                State("index", per_token=c.d_index),
            ),
            at=None if c.indexers is None else c.indexers.layers("full"),
        ),
    )


def rotary_part(hf: HFConfig, head: str = "qk_rope_head_dim", *, default: float | None = None) -> int:
    """The width over which transformers keeps rotary frequencies, those of `head`.

    A configuration with a latent overwrites `head_dim` with its rotary part, whatever a file says,
    unless its class knows no such key: then the file's comes last.
    """
    width: int = hf[head] if hf.reads("head_dim") else hf.in_file("head_dim", hf[head])
    rotary = rotary_width(hf, width, default=default)
    return width if rotary is None else rotary


ARCHITECTURES = {"latent_decoder": Architecture(LatentConfig, latent_decoder)}


def _minicpm3(hf: HFConfig) -> Reading:
    rotary = rotary_part(hf)
    return Reading("latent_decoder", hf.fill(LatentConfig, d_rotary=rotary, embed_scale=True))


def _youtu(hf: HFConfig) -> Reading:
    rotary = rotary_part(hf)
    return Reading("latent_decoder", hf.fill(LatentConfig, d_rotary=rotary))


HF_READERS = {"minicpm3": _minicpm3, "youtu": _youtu}
