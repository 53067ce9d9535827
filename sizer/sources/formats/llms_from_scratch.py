"""The dictionaries of *Build a Large Language Model (From Scratch)* and its chapters on other models.

Source: github.com/rasbt/LLMs-from-scratch `ch04`, `ch05` and `pkg/llms_from_scratch`.
"""

from __future__ import annotations

from sizer.errors import InvalidConfig
from sizer.sources.formats.settings import Described, Format, Settings

_REFUSED = {
    "layer_types": "a pattern of layers, as Gemma 3 has",
    "sliding_window": "a window, as Gemma 3 has",
    "query_pre_attn_scalar": "Gemma 3's norms around attention and MLP",
    "linear_num_value_heads": "Qwen3-Next's linear attention",
    "kv_lora_rank": "latent attention",
    "latent_dim": "latent attention",
    "sliding_window_size": "a window",
}


def read(s: Settings) -> Described:
    """A GPT-2 (`qkv_bias`), a LLaMA (`hidden_dim`), or a Qwen3 (`qk_norm`)."""
    s.refuse(_REFUSED)
    gpt, llama = _gpt_words(s), _llama_words(s)
    if gpt and llama:
        raise InvalidConfig(f"{s.name}: {gpt} is of the book's GPT and {llama} of its LLaMA; leave one")
    if llama:
        return _llama(s)
    given = {
        "d_model": s.needed("emb_dim"),
        "n_layers": s.needed("n_layers"),
        "n_heads": s.needed("n_heads"),
        "n_ctx": s.needed("context_length"),
        "vocab_size": s.needed("vocab_size"),
        "qkv_bias": s.flag("qkv_bias"),
    }
    return Described("gpt_from_scratch", given)


def _gpt_words(s: Settings) -> str:
    return next((key for key in ("qkv_bias", "drop_rate") if s.given(key)), "")


def _llama_words(s: Settings) -> str:
    words = ("hidden_dim", "n_kv_groups", "qk_norm", "num_experts", "rope_base", "head_dim")
    return next((key for key in words if s.given(key)), "")


def _llama(s: Settings) -> Described:
    """RMSNorms, rotary positions and gated MLPs, without any bias."""
    n_heads = s.needed("n_heads")
    n_experts = s.count("num_experts")
    given = {
        "tool": "book_qwen3" if s.given("qk_norm") else "book",
        "d_model": s.needed("emb_dim"),
        "n_layers": s.needed("n_layers"),
        "n_heads": n_heads,
        "n_kv_heads": s.size("n_kv_groups", n_heads),
        "d_head": s.size("head_dim"),
        "vocab_size": s.needed("vocab_size"),
        "qk_norm": "head" if s.flag("qk_norm") else None,
    }
    if n_experts is None:
        given["d_ff"] = s.needed("hidden_dim")
    else:
        width = s.size("moe_intermediate_size") or s.needed("moe_hidden_dim")
        given |= {"n_experts": n_experts, "top_k": s.needed("num_experts_per_tok")}
        given |= {"d_ff": width, "d_ff_expert": width}
    notes = ("the head is counted as its own, as the class makes it before weights are loaded",)
    return Described("tool_decoder", given, notes)


FORMAT = Format(
    "LLMs-from-scratch",
    read,
    required=("emb_dim", "n_layers", "n_heads"),
    sizes={
        "d_model": "emb_dim",
        "n_layers": "n_layers",
        "n_heads": "n_heads",
        "n_kv_heads": "n_kv_groups",
        "d_head": "head_dim",
        "d_ff": "hidden_dim",
        "vocab_size": "vocab_size",
        "n_ctx": "context_length",
        "n_experts": "num_experts",
        "top_k": "num_experts_per_tok",
        "d_ff_expert": "moe_intermediate_size",
        "qkv_bias": "qkv_bias",
    },
    ignored=(
        "context_length",
        "orig_context_length",
        "drop_rate",
        "dtype",
        "rope_base",
        "rope_freq",
        "qk_norm",
        "model_name",
    ),
)
