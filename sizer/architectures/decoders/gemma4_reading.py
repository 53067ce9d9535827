"""Configurations of Gemma 4: text models, and assistants that nest one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.gemma3n import FULL, SLIDING, layer_kinds, rotary_width_of
from sizer.architectures.decoders.gemma4 import Gemma4Config
from sizer.architectures.decoders.reading import activation, count_of, layer_types, whole
from sizer.architectures.registry import Reading
from sizer.core.pattern import Pattern
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def text_fields(hf: HFConfig, **given: Any) -> dict[str, Any]:
    """The fields of a Gemma 4 text configuration, wherever it stands."""
    types = layer_types(hf, lambda i: (i + 1) % 6 != 0)
    types = (*types[:-1], FULL)  # The last layer is always full.
    n_shared = count_of(hf, "num_kv_shared_layers")
    widths = {**_full_layers(hf, types), **_sizes(hf)}
    head = whole(hf, "head_dim")
    return hf.fill(
        Gemma4Config,
        **widths,
        layers=layer_kinds(types, n_shared),
        d_rotary=rotary_width_of(hf, SLIDING, head),
        d_full_rotary=rotary_width_of(hf, FULL, widths["d_full_head"]),
        keys_are_values=hf["attention_k_eq_v"],
        double_wide=bool(hf["use_double_wide_mlp"] and n_shared),
        act=activation(hf),
        **given,
    )


def _sizes(hf: HFConfig) -> dict[str, Any]:
    """The sizes of the parts that a model may lack."""
    window = whole(hf, "sliding_window")
    halved = window // 2 + 1 if hf["use_bidirectional_attention"] == "all" else window
    absent = {"d_per_layer": None, "per_layer_vocab_size": None, "n_experts": None, "top_k": None}
    found: dict[str, Any] = {**absent, "d_ff_expert": None, "window": halved}
    if hf.get("hidden_size_per_layer_input"):
        found["d_per_layer"] = hf["hidden_size_per_layer_input"]
        found["per_layer_vocab_size"] = hf["vocab_size_per_layer_input"]
    if hf.get("enable_moe_block"):
        found["n_experts"], found["top_k"] = hf["num_experts"], hf["top_k_experts"]
        found["d_ff_expert"] = hf["moe_intermediate_size"]
    return found


def _full_layers(hf: HFConfig, types: tuple[str, ...]) -> dict[str, Any]:
    """Width and number of the heads of full layers: under keys of their own, or listed by layer."""
    if not hf.given("per_layer_config"):
        own_kv = hf.in_file("num_global_key_value_heads")
        return {
            "d_full_head": whole(hf, "global_head_dim") if hf.given("global_head_dim") else 512,
            "n_full_kv_heads": own_kv if hf["attention_k_eq_v"] else None,
        }
    config = hf["per_layer_config"] or {}
    if not isinstance(config, Mapping) or not all(
        str(layer).isdecimal() and isinstance(own, Mapping) for layer, own in config.items()
    ):
        raise InvalidConfig(f"per_layer_config = {clip(repr(config))} is not an object of layers by number")
    listed = {int(layer): own for layer, own in config.items()}
    full = [listed.get(i, {}) for i, kind in enumerate(types) if kind != SLIDING]
    uneven = any(listed.get(i) for i, kind in enumerate(types) if kind == SLIDING)
    if uneven or any(own != full[0] for own in full):
        raise InvalidConfig(
            f"per_layer_config = {clip(repr(listed))}: only full layers, all alike, may differ from the rest"
        )
    return {
        "d_full_head": full[0].get("head_dim", hf["head_dim"]),
        "n_full_kv_heads": full[0].get("num_key_value_heads"),
    }


def _gemma4(hf: HFConfig) -> Reading:
    return Reading("gemma4", text_fields(hf))


def _assistant(hf: HFConfig) -> Reading:
    unified = "unified" in hf.model_type
    text = hf.nested("text_config", "gemma4_unified_text" if unified else "gemma4_text")
    given = text_fields(
        text,
        d_backbone=hf["backbone_hidden_size"],
        n_centroids=hf["num_centroids"] if hf["use_ordered_embeddings"] else None,
        tie_embeddings=hf["tie_word_embeddings"],
    )
    if not text["num_kv_shared_layers"]:
        shared = tuple(
            kind if kind.endswith("_shared") else f"{kind}_shared" for kind in given["layers"].kinds
        )
        given["layers"] = Pattern(shared)
        given["double_wide"] = text["use_double_wide_mlp"]
    return Reading("gemma4_assistant", given)


HF_READERS = {
    "gemma4_text": _gemma4,
    "gemma4_unified_text": _gemma4,
    "gemma4_assistant": _assistant,
    "gemma4_unified_assistant": _assistant,
}
