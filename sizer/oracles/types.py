"""The text models of transformers, type by type, each with the configuration it has by default."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from sizer.architectures.index import HF_MODULES
from sizer.sources.presets import directory

# What makes a model type one of text: a class with one of these tasks.
TEXT = ("causal", "masked", "seq2seq")
# The tasks whose classes are verified: those of text, and what else is built on a model of text.
TASKS = (*TEXT, "base", "pretraining", "sequence", "token", "qa", "choice", "next_sentence")
_BERT = {"model_type": "bert"}
_HEADS = {"head_dim": 128}
_ROPE = {"rope_theta": 10000.0, "rope_type": "default"}
_INDEXER = {
    "indexer_budget": 2048,
    "indexer_compress_ratio": 4,
    "indexer_head_dim": 256,
    "indexer_kv_heads": 1,
    "indexer_n_heads": 8,
}
# What transformers' own defaults leave out, by model type or class, and its classes cannot do without.
NEEDED: dict[str, dict[str, Any]] = {
    "cohere_compass_text": {"rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE}},
    "dbrx": {"attn_config": {"kv_n_heads": 1, "rope_theta": 10000.0}},
    "dots1": {
        "first_k_dense_replace": 1,
        "n_routed_experts": 128,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
    },
    "encoder-decoder": {
        "encoder": _BERT,
        "decoder": {**_BERT, "is_decoder": True, "add_cross_attention": True},
    },
    "emu3": {"vocabulary_map": {"<image>": 151_851}},
    "esm": {"vocab_size": 33},
    "gemma4_assistant": {
        "text_config": {
            "model_type": "gemma4_text",
            "hidden_size_per_layer_input": 0,
            "num_kv_shared_layers": 30,
            "vocab_size_per_layer_input": 0,
        }
    },
    "hunyuan_v1_dense": _HEADS,
    "hunyuan_v1_moe": _HEADS,
    "lfm2_moe": {"layer_types": [*["conv", "conv", "full_attention", "conv"] * 8]},
    "ministral": _HEADS,
    "nemotron": {**_HEADS, "num_key_value_heads": 8},
    "qwen4_exp": {"text_config": _INDEXER},
    "qwen4_exp_text": _INDEXER,
    "ReformerModelWithLMHead": {"is_decoder": True},
}


def text_types() -> Iterator[tuple[str, str]]:
    """Model types of text and their classes, in the order of their names."""
    path = os.path.join(directory("huggingface"), "model_types.jsonl")
    with open(path, encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            classes = record.get("classes", {})
            if record.get("model_type") in HF_MODULES and any(task in classes for task in TEXT):
                for cls in dict.fromkeys(cls for task in TASKS for cls in classes.get(task, ())):
                    yield record["model_type"], cls


def default_config(model_type: str, cls: str) -> dict[str, Any]:
    """The `config.json` that transformers writes for a model type of which nothing else is said."""
    from sizer.oracles.torch import configured, import_transformers

    transformers = import_transformers()
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    needed = {**NEEDED.get(model_type, {}), **NEEDED.get(cls, {})}
    config = configured(CONFIG_MAPPING[model_type], needed, model_type)
    values = config.to_dict()
    return {
        **values,
        "model_type": model_type,
        "architectures": [cls],
        "transformers_version": transformers.__version__,
    }
