"""Write tests/fixtures/runs.jsonl.gz: FLOPs and caches of small real modules of every decoder of text.

Each type's own configuration, as tests/fixtures/transformers.jsonl.gz has it, is made small, built with
weights and run under torch's counter, and over a cache. A type whose small form does not run, or takes
too long, is left out and printed.

    PYTHONPATH=. python tools/run_fixture.py [TYPE ...]
"""

from __future__ import annotations

import gzip
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import sizer
from sizer.oracles import caches, flops

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
MOST_LAYERS = 4
# Every size that a small model has, by the names that configurations give it.
SMALL = {
    64: "hidden_size d_model n_embd attention_hidden_size lru_width",
    40: "intermediate_size ffn_dim d_ff n_inner ffn_hidden_size decoder_ffn_dim encoder_ffn_dim d_inner",
    100: "vocab_size vocab_size_per_layer_input",
    128: "max_position_embeddings n_positions n_ctx max_seq_len mamba_d_ssm window_size",
    200: "index_topk",
    30: "embedding_size dense_intermediate_size",
    24: "moe_intermediate_size expert_ffn_hidden_size expert_ffn_size",
    20: "q_lora_rank shared_expert_intermediate_size moe_shared_expert_intermediate_size "
    "shared_intermediate_size",
    16: "head_dim qk_head_dim index_head_dim mamba_d_head mamba_head_dim d_head global_head_dim",
    12: "kv_lora_rank linear_value_head_dim mamba_d_state ssm_state_size",
    8: "qk_rope_head_dim qk_nope_head_dim v_head_dim linear_key_head_dim mamba_n_heads mamba_num_heads "
    "rotary_dim hidden_size_per_layer_input o_lora_rank",
    6: "num_local_experts num_experts n_routed_experts sliding_window attention_window_size",
    4: "num_attention_heads n_head n_heads num_heads linear_num_value_heads decoder_attention_heads "
    "encoder_attention_heads mamba_dt_rank backbone_output_layers",
    3: "index_n_heads",
    2: "num_key_value_heads num_kv_heads num_experts_per_tok linear_num_key_heads mamba_n_groups n_groups "
    "mamba_ngroups n_mamba_heads decoder_layers encoder_layers o_groups",
    1: "n_group topk_group first_k_dense_replace n_shared_experts num_shared_experts "
    "num_global_key_value_heads num_kv_shared_layers",
}
# What some types need besides: sizes that must agree, and layers by number.
FULL_HEADS = {"1": {"head_dim": 24}, "3": {"head_dim": 24}}
LINEAR = {"linear_head_dim": 12, "linear_num_heads": 3, "num_experts_per_token": 2, "num_expert_group": 1}
OWN: dict[str, dict[str, Any]] = {
    "bailing_hybrid": LINEAR,
    "kimi_linear": LINEAR,
    "zaya": {"num_experts_per_tok": 1, "router_hidden_size": 32},
    "mamba2": {"num_heads": 8, "state_size": 12},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "gemma4_text": {"per_layer_config": FULL_HEADS},
    "gemma4_unified_text": {"per_layer_config": FULL_HEADS},
    "dory": {
        "n_input_layers": 1,
        "n_recurrent_layers": 2,
        "n_output_layers": 1,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "zamba2": {
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "mamba_headdim": 64,
        "hybrid_layer_ids": [1, 3],
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
        "adapter_rank": 8,
        "num_key_value_heads": 4,
    },
    "xlstm": {"embedding_dim": 64, "num_blocks": 4},
}
SIZES = {name: size for size, names in SMALL.items() for name in names.split()}
# Whole and broken entries of compressed keys, windows that are full and not, passes over a cache.
RUNS: list[tuple[str, dict[str, Any]]] = [
    ("flops", {"batch_size": 2, "seq_len": 16, "attention": "eager"}),
    ("flops", {"batch_size": 1, "seq_len": 24, "attention": "sdpa"}),
    ("flops", {"batch_size": 2, "seq_len": 8, "past_len": 8, "attention": "eager"}),
    ("kv-cache", {"batch_size": 2, "seq_len": 5}),
    ("kv-cache", {"batch_size": 1, "seq_len": 19}),
]


def small(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with its sizes made small, and with the first layers of each kind."""
    left_out = ("architectures", "transformers_version", "dtype")
    c = {key: value for key, value in config.items() if key not in left_out}
    for key, size in SIZES.items():
        if type(c.get(key)) is int and c[key] > 0:
            c[key] = size
    c |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
    if c.get("kv_lora_rank") and c.get("qk_rope_head_dim"):
        # Rotary positions turn as much as one head has, and each head has keys of its own.
        c |= {"head_dim": 8} | ({"num_key_value_heads": 4} if "num_key_value_heads" in c else {})
    if "compress_rates" in c:
        c["compress_rates"] = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8}
    for key in LAYERS:
        if type(c.get(key)) is int and c[key] > MOST_LAYERS:
            c |= {name: _first(value, c[key]) for name, value in c.items()}
            c[key] = MOST_LAYERS
    return c | OWN.get(c["model_type"], {})


def _first(value: Any, layers: int) -> Any:
    """A list of a value a layer, cut; where layers differ, one of each kind comes first."""
    if not isinstance(value, list) or len(value) != layers:
        return value
    kinds = list(dict.fromkeys(map(str, value)))
    if len(kinds) == 1 or not all(isinstance(kind, str) for kind in value):
        return value[:MOST_LAYERS]
    return [*[*kinds, *value][: MOST_LAYERS - 1], value[-1]]


def measured(config: dict[str, Any], cls: str) -> list[dict[str, Any]]:
    """What each run says of the real module; nothing of those that it refuses."""
    model = sizer.load(config, cls=cls)
    found = []
    for what, run in RUNS:
        try:
            says = (flops if what == "flops" else caches).measure(model, **run)
        except sizer.SizerError as error:
            print(f"  {what} {run}: {error}"[:200])
            continue
        found.append({"what": what, **run, "says": says})
    return found


def main(wanted: list[str]) -> None:
    """Run the types, all of them unless some are named, and write the fixture."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    with gzip.open(FIXTURES / "transformers.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    decoders = {
        row["model_type"]: row
        for row in reversed(rows)
        if row["variant"] is None and row["cls"].endswith(("ForCausalLM", "LMHeadModel"))
    }
    kept = []
    for model_type, row in sorted(decoders.items()):
        if wanted and model_type not in wanted:
            continue
        print(model_type)
        config = small(row["config"])
        try:
            runs = measured(config, row["cls"])
        except sizer.SizerError as error:
            print(f"  {error}")
            continue
        if runs:
            kept.append({"config": config, "cls": row["cls"], "runs": runs})
    out = FIXTURES / "runs.jsonl.gz"
    with gzip.GzipFile(out, "wb", mtime=0) as file:
        file.write("\n".join(json.dumps(row, separators=(",", ":")) for row in kept).encode())
    print(f"{out.name}: {len(kept)} types, {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
