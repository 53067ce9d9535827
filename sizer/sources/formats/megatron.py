"""Megatron's arguments, as JSON or YAML, with or without the dashes of the command line.

Sources: Megatron-LM `megatron/training/arguments.py`; Megatron-core `models/gpt/gpt_model.py`,
`gpt_layer_specs.py`, `transformer/moe`, `transformer/multi_latent_attention.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from sizer.core.dims import MAX_LAYERS, round_up
from sizer.core.pattern import Pattern
from sizer.errors import InvalidConfig, shown
from sizer.sources.formats.settings import Described, Format, Settings

# Groups in which a file may keep its arguments.
_GROUPS = ("MODEL_ARGS", "language_model", "model_parallel")
_POSITIONS = ("learned_absolute", "rope", "mrope", "yarn", "none", "relative")
_REFUSED = {
    "attention_output_gate": "a gate on the output of attention",
    "heterogeneous_layers_config_path": "layers that are described in another file",
    "heterogeneous_layers_config_encoded_json": "layers of sizes of their own",
    "hybrid_layer_pattern": "a hybrid with state-space layers",
    "hybrid_override_pattern": "a hybrid with state-space layers",
    "is_hybrid_model": "a hybrid with state-space layers",
    "linear_attention_freq": "linear attention",
    "experimental_attention_variant": "an experimental attention",
    "moe_latent_size": "experts over a latent",
}


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of all groups side by side."""
    flat = {key: value for key, value in values.items() if key not in _GROUPS}
    for group in _GROUPS:
        inside = values.get(group)
        if isinstance(inside, Mapping):
            for key, value in inside.items():
                if key in flat:
                    raise InvalidConfig(f"{key} is given twice, once in {group}")
                flat[str(key)] = value
    return flat


def read(s: Settings) -> Described:
    """A GPT as Megatron-core builds it, with the names of its local layers."""
    s.refuse(_REFUSED)
    notes: list[str] = []
    d_model = s.needed("hidden_size")
    bias = s.flag("add_bias_linear", True) and not s.flag("disable_bias_linear")
    gated = any([s.flag("swiglu"), s.flag("gated_linear_unit"), s.flag("quick_geglu")])
    given: dict[str, Any] = {
        "tool": "megatron",
        "d_model": d_model,
        "n_layers": s.size("num_layers") or s.needed("encoder_num_layers"),
        "n_heads": s.needed("num_attention_heads"),
        "n_kv_heads": _query_groups(s, notes),
        "d_head": s.size("kv_channels"),
        "d_ff": s.size("ffn_hidden_size") or _d_ff(s, d_model),
        "vocab_size": padded_vocab(s, s.size("vocab_size"), "tensor_model_parallel_size"),
        "gated": gated,
        "act": "silu" if s.flag("swiglu") else "relu2" if s.flag("squared_relu") else "gelu",
        "norm": {"LayerNorm": "layer", "RMSNorm": "rms"}[
            s.word("normalization", "LayerNorm", ("LayerNorm", "RMSNorm"))
        ],
        "qkv_bias": bias or s.flag("add_qkv_bias"),
        "o_bias": bias,
        "mlp_bias": bias,
        "qk_norm": "head" if s.flag("qk_layernorm") else None,
        "sinks": s.word("softmax_type", "vanilla", ("vanilla", "off-by-one", "learnable")) == "learnable",
        "tie_embeddings": _tied(s),
        **_positions(s),
        **_latent(s),
        **_experts(s, bias),
    }
    if s.count("mtp_num_layers"):
        notes.append("the layers that predict more than one token (mtp_num_layers) are not counted")
    return Described("tool_decoder", given, tuple(notes))


def _query_groups(s: Settings, notes: list[str]) -> int:
    n_heads, groups = s.needed("num_attention_heads"), s.size("num_query_groups")
    if s.given("group_query_attention"):
        return (groups or 1) if s.flag("group_query_attention") else n_heads
    if groups is not None and groups != n_heads:
        notes.append("num_query_groups is taken at its word, though group_query_attention is not set")
    return groups or n_heads


def _d_ff(s: Settings, d_model: int) -> int:
    return 4 * d_model * 2 // 3 // 64 * 64 if s.flag("swiglu") else 4 * d_model


def padded_vocab(s: Settings, vocab: int | None, parallel: str) -> int:
    """Rows of the embedding: the vocabulary, padded so that every rank gets as many."""
    padded: int | None = s.size("padded_vocab_size")
    multiple = s.size("make_vocab_size_divisible_by", 128) * s.size(parallel, 1)
    if padded is not None:
        return padded
    if vocab is None:
        raise InvalidConfig(
            f"{s.name}: the vocabulary is that of a tokenizer which the file does not hold; "
            "add vocab_size, or --set vocab_size= with its padded size"
        )
    return int(round_up(vocab, multiple))


def _tied(s: Settings) -> bool:
    if s.given("share_embeddings_and_output_weights"):
        return s.flag("share_embeddings_and_output_weights")
    return not s.flag("untie_embeddings_and_output_weights")


def _positions(s: Settings) -> dict[str, Any]:
    kind = s.word("position_embedding_type", "learned_absolute", _POSITIONS)
    if s.flag("use_rotary_position_embeddings"):
        kind = "rope"
    if kind == "relative":
        raise InvalidConfig(f"{s.name}: relative positions are learned, which sizer cannot count yet")
    wanted = s.flag("add_position_embedding", True) and not s.flag("no_position_embedding")
    rows = s.size("max_position_embeddings")
    if kind != "learned_absolute" or not wanted:
        return {}
    if rows is None:
        raise InvalidConfig(
            f"{s.name}: max_position_embeddings is missing, the rows of the learned positions; "
            "a model without them says position_embedding_type: rope"
        )
    return {"positions": True, "n_ctx": rows}


def _latent(s: Settings) -> dict[str, Any]:
    if not s.flag("multi_latent_attention"):
        return {}
    norm = {"LayerNorm": "layer", "RMSNorm": "rms"}[s.word("normalization", "LayerNorm")]
    return {
        "latent": True,
        "q_lora_rank": s.size("q_lora_rank"),
        "kv_lora_rank": s.size("kv_lora_rank", 32),
        "d_nope": s.size("qk_head_dim", 128),
        "d_rope": s.size("qk_pos_emb_head_dim", 64),
        "d_value": s.size("v_head_dim", 128),
        "latent_norm": norm if s.flag("qk_layernorm") else None,
        "qk_norm": None,
    }


def _experts(s: Settings, bias: bool) -> dict[str, Any]:
    n_experts = s.count("num_experts") or s.count("num_moe_experts")
    if n_experts is None:
        return {}
    shared = s.count("moe_shared_expert_intermediate_size")
    if shared is not None and bias:
        raise InvalidConfig(f"{s.name}: shared experts have no biases; set disable_bias_linear")
    kinds = _moe_layers(s, s.size("num_layers") or s.needed("encoder_num_layers"))
    given = {
        "n_experts": n_experts,
        "top_k": s.size("moe_router_topk", 2),
        "d_ff_expert": s.size("moe_ffn_hidden_size"),
        "d_ff_shared": shared,
        "shared_gate": s.flag("moe_shared_expert_gate"),
        "router_bias": bias,
        "expert_bias": s.flag("moe_router_enable_expert_bias"),
    }
    if kinds is None:
        return given
    return {**given, "moe_layers": kinds} if kinds.has("moe") else {}


def _moe_layers(s: Settings, n_layers: int) -> Pattern | None:
    """Every n-th layer from the first, or as listed: a list, or Megatron's `([0]*3+[1]*58)`."""
    freq = s.get("moe_layer_freq")
    if freq in (None, 1) and not isinstance(freq, bool):
        return None
    if n_layers > MAX_LAYERS:
        raise InvalidConfig(f"{s.name}: num_layers = {n_layers:,} is beyond {MAX_LAYERS:,}")
    marks = _marks(freq, n_layers)
    if marks is None or len(marks) != n_layers or not set(marks) <= {0, 1}:
        raise InvalidConfig(
            f"{s.name}: moe_layer_freq = {shown(freq)} is neither a whole number nor a list of 0 and 1 "
            f"for each of {n_layers} layers"
        )
    return Pattern(tuple("moe" if mark else "dense" for mark in marks))


def _marks(freq: object, n_layers: int) -> list[int] | None:
    if isinstance(freq, str):
        freq = _expression(freq)
    if isinstance(freq, bool):
        return None
    if isinstance(freq, int):
        return [int(i % freq == 0) for i in range(n_layers)] if freq > 0 else None
    if isinstance(freq, list) and all(isinstance(mark, int) for mark in freq):
        return freq
    return None


def _expression(text: str) -> object:
    """The number or list that sums and multiples of lists stand for; nothing is executed.

    >>> _expression("([0]*3+[1]*2)")
    [0, 0, 0, 1, 1]
    """

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.List):
            return [value(item) for item in node.elts]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
            left, right = value(node.left), value(node.right)
            if isinstance(node.op, ast.Add):
                return left + right if isinstance(left, list) and isinstance(right, list) else None
            if isinstance(left, int) and isinstance(right, list):
                left, right = right, left
            if isinstance(left, list) and isinstance(right, int):
                return left * right if len(left) * right <= MAX_LAYERS else None
            return None
        return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None

    try:
        return value(ast.parse(text[:10_000].strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


SIZES = {
    "d_model": "hidden_size",
    "n_layers": "num_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_query_groups",
    "d_head": "kv_channels",
    "d_ff": "ffn_hidden_size",
    "vocab_size": "padded_vocab_size",
    "n_ctx": "max_position_embeddings",
    "n_experts": "num_experts",
    "top_k": "moe_router_topk",
    "d_ff_expert": "moe_ffn_hidden_size",
    "d_ff_shared": "moe_shared_expert_intermediate_size",
    "q_lora_rank": "q_lora_rank",
    "kv_lora_rank": "kv_lora_rank",
    "d_nope": "qk_head_dim",
    "d_rope": "qk_pos_emb_head_dim",
    "d_value": "v_head_dim",
}

FORMAT = Format(
    "Megatron's arguments",
    read,
    required=("hidden_size", "num_layers", "num_attention_heads"),
    marks=(
        "ffn_hidden_size",
        "group_query_attention",
        "num_query_groups",
        "kv_channels",
        "swiglu",
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "untie_embeddings_and_output_weights",
        "share_embeddings_and_output_weights",
        "position_embedding_type",
        "use_rotary_position_embeddings",
        "normalization",
        "disable_bias_linear",
        "add_bias_linear",
        "add_position_embedding",
        "no_position_embedding",
        "gated_linear_unit",
        "micro_batch_size",
        "transformer_impl",
        "num_moe_experts",
        "moe_router_topk",
        "moe_ffn_hidden_size",
        "multi_latent_attention",
    ),
    weak=(
        "vocab_size",
        "padded_vocab_size",
        "max_position_embeddings",
        "seq_length",
        "make_vocab_size_divisible_by",
    ),
    sizes=SIZES,
    ignored=(
        "vocab_size",
        "seq_length",
        "encoder_seq_length",
        "rotary_base",
        "rotary_percent",
        "encoder_num_layers",
    ),
)
