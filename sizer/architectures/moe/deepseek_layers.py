"""Which layers of a DeepSeek have experts, and which an indexer, as its files say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.core.pattern import Pattern

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def every_nth(hf: HFConfig, first_dense: int) -> list[str]:
    """Experts in every `moe_layer_freq`-th layer after the first dense ones."""
    first = hf.get("first_k_dense_replace", first_dense)
    step = hf.get("moe_layer_freq", 1)
    return ["sparse" if i >= first and i % step == 0 else "dense" for i in range(hf["num_hidden_layers"])]


def indexers(hf: HFConfig) -> Pattern:
    """Which layers select keys anew: a list, a word of F and S, or one in every few."""
    n_layers = hf["num_hidden_layers"]
    types = hf.per_layer("indexer_types", n_layers)
    if types is None and "index_topk_pattern" in hf and hf["index_topk_pattern"] is not None:
        types = [{"F": "full", "S": "shared"}.get(kind, kind) for kind in hf["index_topk_pattern"]]
    if types is None:
        step = max(hf["index_topk_freq"], 1) if "index_topk_freq" in hf else 1
        offset = hf.get("index_skip_topk_offset", 2)
        types = ["shared" if max(i - offset + 1, 0) % step else "full" for i in range(n_layers)]
    return Pattern(tuple("shared" if kind == "shared" else "full" for kind in types[:n_layers]))
