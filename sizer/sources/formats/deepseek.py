"""DeepSeek's own inference code: `config_16B.json`, `config_671B.json` and the like.

Source: github.com/deepseek-ai/DeepSeek-V3 `inference/model.py`.
"""

from __future__ import annotations

from sizer.sources.formats.settings import Described, Format, Settings

_REFUSED = {
    "index_n_heads": "sparse attention has an indexer",
    "index_head_dim": "sparse attention has an indexer",
    "index_topk": "sparse attention has an indexer",
}
# Only the model of this width has a bias that balances its router.
_BALANCED_WIDTH = 7168


def read(s: Settings) -> Described:
    """A DeepSeek-V2 or -V3; what a file leaves out takes the defaults of the inference code."""
    s.refuse(_REFUSED)
    d_model = s.size("dim", 2048)
    given = {
        "d_model": d_model,
        "n_layers": s.size("n_layers", 27),
        "n_dense_layers": s.size("n_dense_layers", 1, least=0),
        "n_heads": s.size("n_heads", 16),
        "vocab_size": s.size("vocab_size", 102_400),
        "d_ff": s.size("inter_dim", 10_944),
        "d_ff_expert": s.size("moe_inter_dim", 1408),
        "n_experts": s.size("n_routed_experts", 64),
        "n_shared_experts": s.size("n_shared_experts", 2, least=0) or None,
        "top_k": s.size("n_activated_experts", 6),
        "q_lora_rank": s.count("q_lora_rank"),
        "kv_lora_rank": s.size("kv_lora_rank", 512),
        "d_nope": s.size("qk_nope_head_dim", 128),
        "d_rope": s.size("qk_rope_head_dim", 64),
        "d_value": s.size("v_head_dim", 128),
        # A parameter in this code, where transformers has a buffer.
        "router_bias": d_model == _BALANCED_WIDTH,
        "router_bias_param": True,
    }
    return Described("deepseek_v3", given)


FORMAT = Format(
    "DeepSeek's inference code",
    read,
    required=("dim", "n_layers", "n_heads"),
    marks=("inter_dim", "moe_inter_dim", "n_dense_layers", "n_activated_experts"),
    sizes={
        "d_model": "dim",
        "n_layers": "n_layers",
        "n_dense_layers": "n_dense_layers",
        "n_heads": "n_heads",
        "vocab_size": "vocab_size",
        "d_ff": "inter_dim",
        "d_ff_expert": "moe_inter_dim",
        "n_experts": "n_routed_experts",
        "n_shared_experts": "n_shared_experts",
        "top_k": "n_activated_experts",
        "q_lora_rank": "q_lora_rank",
        "kv_lora_rank": "kv_lora_rank",
        "d_nope": "qk_nope_head_dim",
        "d_rope": "qk_rope_head_dim",
        "d_value": "v_head_dim",
    },
    ignored=(
        "max_batch_size",
        "max_seq_len",
        "dtype",
        "scale_fmt",
        "n_expert_groups",
        "n_limited_groups",
        "route_scale",
        "score_func",
        "original_seq_len",
        "rope_theta",
        "rope_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
    ),
)
