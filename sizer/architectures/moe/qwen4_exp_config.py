"""The sizes of a Qwen 4 (experimental), and how a file gives them."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import rotary_width
from sizer.architectures.registry import Reading
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim, divide, round_up
from sizer.core.pattern import Pattern, PerLayer
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
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
        if self.ngram_shards < 1:
            raise InvalidConfig(f"ngram_shards = {self.ngram_shards} must be at least 1")
        if self.layers.has("indexed") and (self.n_index_heads is None or self.d_index is None):
            raise InvalidConfig("indexed layers need n_index_heads and d_index (indexer_… in a file)")


def _qwen4_exp_text(hf: HFConfig) -> Reading:
    n_layers = hf["num_hidden_layers"]
    types = hf.per_layer("layer_types", n_layers)
    if types is None:
        every = hf.get("full_attention_interval", 4)
        types = ["linear_attention" if (i + 1) % every else "indexed_attention" for i in range(n_layers)]
    kinds = tuple("linear" if kind == "linear_attention" else "indexed" for kind in types[:n_layers])
    return Reading(
        "qwen4_exp",
        hf.fill(
            Qwen4ExpConfig,
            layers=Pattern(kinds),
            d_rotary=rotary_width(hf, default=1.0) or hf["head_dim"],
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
    if not (hf["ngram_vocab_size_base"] < 10**10 and heads * len(layers) < 10_000):
        raise InvalidConfig("its tables of n-grams are too large: their sizes are primes to be searched")
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


HF_READERS = {"qwen4_exp_text": _qwen4_exp_text}
