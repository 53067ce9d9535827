"""The sizes of a DeepSeek-V4, and how a file gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.registry import Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide
from sizer.core.pattern import Pattern
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
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
    d_compress_rotary: Dim
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
        "d_compress_rotary": "Dc",
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
        width = self.n_heads * self.d_head
        self.derive(
            d_output_group=divide(width, self.n_output_groups, names="n_heads·d_head / n_output_groups"),
            heavy_per_token=share_of_a_token(self.d_head, self.heavy_rate),
            sparse_per_token=share_of_a_token(self.d_head, self.sparse_rate),
            index_per_token=share_of_a_token(self.d_index, self.sparse_rate),
        )

    # The shared expert is as wide as a routed one, whatever its number.
    n_shared_experts = 1
    router_bias = False

    @property
    def d_ff_shared(self) -> Dim:
        """Hidden width of the shared expert."""
        return self.d_ff_expert


def share_of_a_token(width: Dim, rate: Dim) -> Dim:
    """What one token adds to a cache with an entry of `width` for every `rate` tokens, rounded up."""
    if isinstance(width, int) and isinstance(rate, int):
        return -(-width // rate)
    return divide(width, rate, names="width / rate")


# Kinds of layers, by their names in transformers and by the ratios of the published files.
_KINDS: dict[str | int, str] = {
    "sliding_attention": "sliding",
    "compressed_sparse_attention": "sparse",
    "heavily_compressed_attention": "heavy",
    0: "sliding",
    4: "sparse",
    128: "heavy",
}


def _deepseek_v4(hf: HFConfig) -> Reading:
    n_layers = hf["num_hidden_layers"]
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    rates.update(hf["compress_rates"] or {})
    return Reading(
        "deepseek_v4",
        {
            **hf.fill(
                DeepseekV4Config,
                layers=Pattern(_layer_kinds(hf, n_layers)),
                routers=Pattern(_router_kinds(hf, n_layers)),
                heavy_rate=hf.get("compress_rate_hca") or rates["heavily_compressed_attention"],
                sparse_rate=hf.get("compress_rate_csa") or rates["compressed_sparse_attention"],
                n_output_groups=hf["o_groups"],
                output_lora_rank=hf["o_lora_rank"],
                n_streams=hf["hc_mult"],
                d_ff_expert=hf["moe_intermediate_size"],
                d_rotary=_rotary_width(hf, "main"),
                d_compress_rotary=_rotary_width(hf, "compress"),
            ),
            # The table of the hash router has a column for each, even where experts are fewer.
            "top_k": hf["num_experts_per_tok"],
        },
    )


def _layer_kinds(hf: HFConfig, n_layers: int) -> tuple[str, ...]:
    types: list[str | int] | None = hf.per_layer("layer_types", n_layers)
    if types is None:
        types = hf.per_layer("compress_ratios", n_layers)
    if types is None:
        kinds = ["heavy", "heavy", *("sparse" if i % 2 else "heavy" for i in range(n_layers))]
        return tuple(kinds[:n_layers])
    unknown = [kind for kind in types if kind not in _KINDS]
    if unknown:
        raise InvalidConfig(
            f"{clip(repr(unknown[0]))} is no kind of layer; use {', '.join(map(str, _KINDS))}"
        )
    return tuple(_KINDS[kind] for kind in types)


def _router_kinds(hf: HFConfig, n_layers: int) -> tuple[str, ...]:
    types = hf.per_layer("mlp_layer_types", n_layers)
    if types is None:
        n_hash = hf.get("num_hash_layers", 3)
        types = ["hash_moe" if i < n_hash else "moe" for i in range(n_layers)]
    return tuple("hash" if kind == "hash_moe" else "moe" for kind in types[:n_layers])


def _rotary_width(hf: HFConfig, kind: str) -> int:
    """The rotary part of a head, which a file gives as a share of it or as a width."""
    rope = (hf.get("rope_parameters") or {}).get(kind)
    factor = rope.get("partial_rotary_factor", 1.0) if isinstance(rope, dict) else hf["partial_rotary_factor"]
    if factor is None:
        return int(hf.get("qk_rope_head_dim", hf["head_dim"] * 64 // 512))
    return int(hf["head_dim"] * factor)


HF_READERS = {"deepseek_v4": _deepseek_v4}
