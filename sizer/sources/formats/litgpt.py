"""litgpt: `model_config.yaml`, and the dictionaries of its named configurations.

Source: litgpt `config.py`, `model.py` and `scripts/convert_lit_checkpoint.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizer.core.dims import MAX_LAYERS, round_up
from sizer.core.pattern import Pattern
from sizer.errors import InvalidConfig
from sizer.sources.formats.settings import Described, Format, Settings

_MLPS = ("GptNeoxMLP", "LLaMAMLP", "GemmaMLP", "LLaMAMoE")
_NORMS = ("LayerNorm", "RMSNorm")


def read(s: Settings) -> Described:
    """Every key that a file leaves out takes litgpt's own default."""
    hf = s.section("hf_config")
    name = s.word("name", "") or (hf.word("name", "") if hf else "")
    mlp = s.word("mlp_class_name", "GptNeoxMLP", _MLPS)
    bias, parallel = s.flag("bias", True), s.flag("parallel_residual", True)
    shared = s.flag("shared_attention_norm")
    if shared and not parallel:
        raise InvalidConfig(f"{s.name}: shared_attention_norm needs parallel_residual")
    n_heads = s.size("n_head", 32)
    given = {
        "tool": "litgpt",
        "d_model": s.size("n_embd", 4096),
        "n_layers": s.size("n_layer", 16),
        "n_heads": n_heads,
        "n_kv_heads": s.size("n_query_groups", n_heads),
        "d_head": s.size("head_size"),
        "n_ctx": s.size("block_size", 4096),
        "vocab_size": s.size("padded_vocab_size")
        or round_up(s.size("vocab_size", 50254), s.size("padding_multiple", 512)),
        "d_ff": _d_ff(s, mlp),
        "gated": mlp != "GptNeoxMLP",
        "act": "gelu" if mlp in ("GptNeoxMLP", "GemmaMLP") else "silu",
        "norm": _norm(s, name),
        "norm_before_attn": s.flag("norm_1", True),
        "norm_after_attn": s.flag("post_attention_norm"),
        "norm_before_mlp": s.flag("norm_2", True) and not shared,
        "norm_after_mlp": s.flag("post_mlp_norm"),
        "qkv_bias": bias or s.flag("attn_bias"),
        "o_bias": bias,
        "mlp_bias": bias,
        "head_bias": s.flag("lm_head_bias"),
        **_window(s),
        **_qk_norm(s),
        **_latent(s, bias),
        **(_experts(s) if mlp == "LLaMAMoE" else {}),
    }
    published = _published(name, mlp)
    return Described("tool_decoder", {**given, **_rotary(s, given), "published": published})


def _d_ff(s: Settings, mlp: str) -> int:
    width: int | None = s.size("intermediate_size")
    if width is None:
        if mlp == "LLaMAMLP":
            raise InvalidConfig(f"{s.name}: intermediate_size is missing, which a {mlp} needs")
        width = 4 * int(s.size("n_embd", 4096))
    return width


def _norm(s: Settings, name: str) -> str:
    """OLMo's first models have norms without weights; litgpt tells them by their name."""
    if s.word("norm_class_name", "LayerNorm", _NORMS) == "RMSNorm":
        return "rms"
    return "none" if "OLMo" in name else "layer"


def _qk_norm(s: Settings) -> dict[str, Any]:
    if not s.flag("norm_qk"):
        return {}
    kind = s.word("norm_qk_type", "default", ("default", "olmo2"))
    return {"qk_norm": "full" if kind == "olmo2" else "head"}


def _window(s: Settings) -> dict[str, Any]:
    window, n_layers = s.size("sliding_window_size"), s.size("n_layer", 16)
    marks = s.numbers("sliding_window_indices", n_layers) if window else None
    if marks is None or all(marks):
        return {"window": window}
    if not any(marks):
        return {}
    kinds = Pattern(tuple("window" if mark else "full" for mark in marks))
    return {"window": window, "window_layers": kinds}


def _rotary(s: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of cosines and sines, which are kept in memory and in no checkpoint."""
    head = given["d_head"]
    if head is None and given["d_model"] % given["n_heads"] == 0:
        head = given["d_model"] // given["n_heads"]
    fraction = s.number("rotary_percentage", 0.25)
    width = given["d_rope"] if given.get("latent") else int(float(fraction or 0) * (head or 0))
    if width < 1:
        return {}
    return {"d_rotary": width, "rope_tables": "local" if s.given("rope_local_base_freq") else "once"}


def _experts(s: Settings) -> dict[str, Any]:
    n_experts = s.count("n_expert")
    if n_experts is None:
        raise InvalidConfig(f"{s.name}: n_expert is missing, which a LLaMAMoE needs")
    width = s.size("moe_intermediate_size")
    shared = s.count("n_shared_expert")
    if shared is not None and width is None:
        raise InvalidConfig(f"{s.name}: n_shared_expert needs moe_intermediate_size")
    first, n_layers = s.count("first_k_dense_replace"), s.size("n_layer", 16)
    given = {
        "n_experts": n_experts,
        "top_k": s.count("n_expert_per_token") or n_experts,
        "d_ff_expert": width,
        "d_ff_shared": shared * width if shared is not None and width is not None else None,
        # The router that picks groups of experts first has a bias for each, which is not trained.
        "expert_bias": bool(s.count("n_expert_groups")),
    }
    if first is None:
        return given
    if n_layers > MAX_LAYERS:
        raise InvalidConfig(f"{s.name}: n_layer = {n_layers:,} is beyond {MAX_LAYERS:,}")
    kinds = Pattern(tuple("dense" if i < first else "moe" for i in range(n_layers)))
    return {**given, "moe_layers": kinds} if kinds.has("moe") else {}


def _latent(s: Settings, bias: bool) -> dict[str, Any]:
    latent = s.section("latent_attention")
    if latent is None or not latent.values:
        return {}
    return {
        "latent": True,
        "q_lora_rank": latent.needed("q_lora_rank"),
        "kv_lora_rank": latent.needed("kv_lora_rank"),
        "d_rope": latent.needed("qk_rope_head_dim"),
        "d_nope": latent.needed("qk_nope_head_dim"),
        "d_value": latent.needed("v_head_dim"),
        "latent_bias": s.flag("attn_bias"),
        "up_bias": bias,
    }


def _published(name: str, mlp: str) -> str:
    """Whose names litgpt's conversion writes; it too goes by the name of the model."""
    lower = name.lower()
    by_name = {
        "falcon-7b": "hf_falcon_7b",
        "falcon-": "hf_falcon",
        "gemma-2": "hf_gemma",
        "gemma-3": "hf_gemma",
        "phi-3": "hf_phi3",
        "phi-4": "hf_phi3",
        "phi": "hf_phi",
        "olmo-2": "hf_olmo2",
        "qwen": "hf_llama",
    }
    for start, names in by_name.items():
        if lower.startswith(start):
            return names
    if mlp == "GptNeoxMLP":
        return "hf_gpt_neox"
    return "hf_mixtral" if lower.startswith("mixtral") else "hf_llama"


FORMAT = Format(
    "litgpt",
    read,
    marks=(
        "padded_vocab_size",
        "norm_class_name",
        "hf_config",
        "mlp_class_name",
        "padding_multiple",
        "rotary_percentage",
        "n_query_groups",
        "parallel_residual",
        "shared_attention_norm",
    ),
    excludes=("hidden_size", "dim", "emb_dim"),
    sizes={
        "d_model": "n_embd",
        "n_layers": "n_layer",
        "n_heads": "n_head",
        "n_kv_heads": "n_query_groups",
        "d_head": "head_size",
        "d_ff": "intermediate_size",
        "vocab_size": "padded_vocab_size",
        "n_ctx": "block_size",
        "n_experts": "n_expert",
        "top_k": "n_expert_per_token",
        "d_ff_expert": "moe_intermediate_size",
        "n_shared_experts": "n_shared_expert",
        "n_dense_layers": "first_k_dense_replace",
        "window": "sliding_window_size",
    },
    ignored=(
        "name",
        "vocab_size",
        "attn_bias",
        "n_expert_groups",
        "norm_eps",
        "attention_scores_scalar",
        "attention_logit_softcapping",
        "final_logit_softcapping",
        "rope_base",
        "rope_condense_ratio",
        "rope_adjustments",
        "rope_interleave",
        "rope_indices",
        "rope_local_base_freq",
        "gelu_approximate",
        "n_topk_groups",
        "n_topk_scores_per_group",
        "routed_scaling_factor",
        "norm_topk_prob",
        "scale_embeddings",
        "sliding_window_indices",
        "norm_qk_type",
        "rope_n_elem",
    ),
)
