"""DeepSeek-V4: compressed attention over a window, experts in every layer, several residual streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sizer.architectures.heads import with_head
from sizer.architectures.moe.deepseek import mixture
from sizer.architectures.moe.hyper_connections import hyper_connection
from sizer.architectures.registry import Architecture, Reading
from sizer.core.config import Config, check_sizes
from sizer.core.dims import Dim, divide
from sizer.core.layers import buffer, embedding, linear, renamed, rms_norm
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Buffer, Module, Op, Param, State, heads_axis

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@dataclass(frozen=True, kw_only=True)
class DeepseekV4Config(Config):
    """Sizes and switches of a DeepSeek-V4.

    `layers`: "sliding" (the window alone), "heavy" (and one compressed entry for every
    `heavy_rate` tokens) or "sparse" (one for every `sparse_rate`, of which an indexer selects).
    `routers`: "moe", or "hash", whose expert follows from the token alone.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    d_head: Dim
    vocab_size: Dim
    q_lora_rank: Dim
    n_output_groups: Dim
    output_lora_rank: Dim
    d_output_group: Dim | None = None
    window: Dim
    layers: Pattern
    heavy_rate: Dim
    sparse_rate: Dim
    n_index_heads: Dim
    d_index: Dim
    index_top_k: Dim
    n_streams: Dim
    routers: Pattern
    n_experts: Dim
    top_k: Dim
    d_ff_expert: Dim
    heavy_per_token: Dim | None = None
    sparse_per_token: Dim | None = None
    index_per_token: Dim | None = None
    d_rotary: Dim
    mlp_bias: bool = False
    tie_embeddings: bool = False
    act: str = "silu"

    letters = {
        "n_output_groups": "G",
        "output_lora_rank": "Ro",
        "d_output_group": "Dg",
        "heavy_rate": "Mh",
        "sparse_rate": "Ms",
        "n_index_heads": "Hi",
        "d_index": "Di",
        "index_top_k": "Ti",
        "n_streams": "M",
        "routers": "Lr",
        "d_rotary": "Dr",
    }
    meanings = {
        "n_output_groups": "groups of heads in the output projection",
        "output_lora_rank": "rank of the output of one group",
        "heavy_rate": "tokens in one heavily compressed entry",
        "sparse_rate": "tokens in one entry that the indexer may select",
        "n_index_heads": "heads of the indexer",
        "d_index": "width of one head of the indexer",
        "index_top_k": "entries that the indexer selects for a query",
        "n_streams": "residual streams",
    }

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.d_output_group is None:
            width = self.n_heads * self.d_head
            group = divide(width, self.n_output_groups, names="n_heads·d_head / n_output_groups")
            self.derive(d_output_group=group)
        self.derive(
            heavy_per_token=_share(self.d_head, self.heavy_rate),
            sparse_per_token=_share(self.d_head, self.sparse_rate),
            index_per_token=_share(self.d_index, self.sparse_rate),
        )

    # The shared expert is as wide as a routed one, whatever its number.
    n_shared_experts = 1
    router_bias = False

    @property
    def d_ff_shared(self) -> Dim:
        """Hidden width of the shared expert."""
        return self.d_ff_expert


def _share(width: Dim, rate: Dim) -> Dim:
    """What one token adds to a cache with an entry of `width` for every `rate` tokens, rounded up."""
    if isinstance(width, int) and isinstance(rate, int):
        return -(-width // rate)
    return divide(width, rate, names="width / rate")


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
    last_mix = hyper_connection(("hc_fn", "hc_base", "hc_scale"), c.n_streams, width, 1)
    model = (
        embedding("embed_tokens", Axis("vocab", c.vocab_size), embed),
        _stored(block) if c.layout == "checkpoint" else block,
        last_mix._replace(name="hc_head"),
        rms_norm("norm", embed),
        *_rotary(c),
    )
    whole = with_head(c, model)
    return renamed(whole, {"lm_head": "head"}) if c.layout == "checkpoint" else whole


def _streams(c: DeepseekV4Config, prefix: str) -> Module:
    """How a part reads the streams, writes to them, and mixes them: M + M + M² weights a token."""
    m = c.n_streams
    names = (f"{prefix}fn", f"{prefix}base", f"{prefix}scale")
    return hyper_connection(names, 2 * m + m * m, Axis("streams", m * c.d_model), 3)


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
        kept, selected = c.heavy_per_token, None
    else:
        parts = _entries(c, embed, head, 2 * head, c.sparse_rate)
        kept, selected = c.sparse_per_token, c.index_top_k
        if c.layout != "checkpoint":
            parts = (*parts, _indexer(c, embed))
    # The scores over T/m entries of Dh are those over T of Dh/m.
    width = c.d_head if selected is not None else kept
    sizes = {"heads": c.n_heads, "kv_heads": 1, "d_qk": width, "d_v": width, "window": selected}
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
    sizes = {"heads": c.n_index_heads, "kv_heads": 1, "d_qk": kept, "d_v": 0, "window": None}
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
    half = Axis("rotary", divide(c.d_rotary, 2, names="d_rotary / 2"))
    names = [f"{kind}_{name}" for kind in ("main", "compress") for name in ("inv_freq", "original_inv_freq")]
    return (Module("rotary_emb", tuple(buffer(name, half, persistent=False) for name in names)),)


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

_KINDS = {
    "sliding_attention": "sliding",
    "compressed_sparse_attention": "sparse",
    "heavily_compressed_attention": "heavy",
}
_KIND_OF_RATIO = {0: "sliding", 4: "sparse", 128: "heavy"}


def _deepseek_v4(hf: HFConfig) -> Reading:
    n_layers = hf["num_hidden_layers"]
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    rates.update(hf["compress_rates"] or {})
    return Reading(
        "deepseek_v4",
        hf.fill(
            DeepseekV4Config,
            layers=Pattern(_layer_kinds(hf, n_layers)),
            routers=Pattern(_router_kinds(hf, n_layers)),
            heavy_rate=_given(hf, "compress_rate_hca", rates["heavily_compressed_attention"]),
            sparse_rate=_given(hf, "compress_rate_csa", rates["compressed_sparse_attention"]),
            n_output_groups=hf["o_groups"],
            output_lora_rank=hf["o_lora_rank"],
            n_streams=hf["hc_mult"],
            d_ff_expert=hf["moe_intermediate_size"],
            d_rotary=_rotary_width(hf),
        ),
    )


def _given(hf: HFConfig, key: str, default: Any) -> Any:
    return hf[key] if hf.given(key) and hf[key] is not None else default


def _layer_kinds(hf: HFConfig, n_layers: int) -> tuple[str, ...]:
    if hf["layer_types"] is not None:
        return tuple(_KINDS.get(kind, kind) for kind in hf["layer_types"][:n_layers])
    ratios = _given(hf, "compress_ratios", None)
    if ratios is not None:
        return tuple(_KIND_OF_RATIO.get(ratio, str(ratio)) for ratio in ratios[:n_layers])
    kinds = ["heavy", "heavy", *("sparse" if i % 2 else "heavy" for i in range(n_layers))]
    return tuple(kinds[:n_layers])


def _router_kinds(hf: HFConfig, n_layers: int) -> tuple[str, ...]:
    types = hf["mlp_layer_types"]
    if types is None:
        n_hash = _given(hf, "num_hash_layers", 3)
        types = ["hash_moe" if i < n_hash else "moe" for i in range(n_layers)]
    return tuple("hash" if kind == "hash_moe" else "moe" for kind in types[:n_layers])


def _rotary_width(hf: HFConfig) -> int:
    """The rotary part of a head, which a file gives as a share of it or as a width."""
    main = (_given(hf, "rope_parameters", {})).get("main")
    factor = main.get("partial_rotary_factor", 1.0) if isinstance(main, dict) else hf["partial_rotary_factor"]
    if factor is None:
        return int(_given(hf, "qk_rope_head_dim", hf["head_dim"] * 64 // 512))
    return int(hf["head_dim"] * factor)


HF_READERS = {"deepseek_v4": _deepseek_v4}
