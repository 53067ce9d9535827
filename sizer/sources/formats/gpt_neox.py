"""GPT-NeoX: its YAML files, whose keys may have hyphens or underscores.

Source: github.com/EleutherAI/gpt-neox `megatron/neox_arguments` and `megatron/model`.
"""

from __future__ import annotations

from typing import Any

from sizer.core.dims import round_up
from sizer.errors import InvalidConfig, shown
from sizer.sources.formats.megatron import padded_vocab
from sizer.sources.formats.settings import Described, Format, Settings

_NORMS = {
    "layernorm": "layer",
    "rmsnorm": "rms",
    "non_parametric_layernorm": "none",
    "scalenorm": "scale",
    "te_layernorm": "layer",
    "te_rmsnorm": "rms",
}
_GATED = ("geglu", "reglu", "bilinear", "swiglu", "glu")
# Kinds of attention that change no parameter.
_ATTENTION = ("global", "local", "sparse_fixed", "sparse_variable", "bslongformer", "bigbird", "flash")
# Tokens of the tokenizers whose files GPT-NeoX comes with.
_GPT2_VOCAB, _NEOX_VOCAB, _CHAR_VOCAB = 50257, 50277, 512
_REFUSED = {
    "moe_num_experts": "experts",
    "num_experts": "experts",
    "soft_prompt_tuning": "a learned prompt",
    "adapter": "adapters",
}


def read(s: Settings) -> Described:
    """A GPT-NeoX, with the tensor names of transformers' class of that name."""
    if s.size("moe_num_experts", 1) > 1 or s.size("num_experts", 1) > 1:
        s.refuse(_REFUSED)
    s.refuse({"soft_prompt_tuning": "a learned prompt"})
    _check_attention(s)
    notes: list[str] = []
    linear_bias, n_heads = s.flag("use_bias_in_attn_linear", True), s.needed("num_attention_heads")
    given: dict[str, Any] = {
        "tool": "gpt_neox",
        "d_model": s.needed("hidden_size"),
        "n_layers": s.needed("num_layers"),
        "n_heads": n_heads,
        "n_kv_heads": s.count("num_kv_heads") or n_heads,
        "vocab_size": padded_vocab(s, _vocab(s, notes), "model_parallel_size"),
        "norm": _NORMS[s.word("norm", "layernorm", _NORMS)],
        "qkv_bias": linear_bias,
        "o_bias": linear_bias,
        "qk_norm": "both" if s.flag("use_qk_layernorm") else None,
        "tie_embeddings": not s.flag("no_weight_tying"),
        **_mlp(s),
        **_positions(s),
    }
    return Described("tool_decoder", given, tuple(notes))


def _mlp(s: Settings) -> dict[str, Any]:
    """Gated MLPs get two thirds of the width, so that they have as many parameters."""
    d_model, act = s.needed("hidden_size"), s.word("activation", "gelu")
    if s.word("mlp_type", "regular", ("regular", "llama")) == "llama":
        # The class that the first LLaMA files used: its own width, and no biases.
        width = round_up(int(2 * 4 * d_model / 3), s.size("mlp_multiple_of", 256))
        return {"d_ff": width, "gated": True, "act": "silu", "mlp_bias": False}
    factor = s.number("expansion_factor")
    if factor is not None and not 0 < factor <= 1e6:
        raise InvalidConfig(f"{s.name}: expansion_factor = {factor} is no positive factor")
    width = s.size("intermediate_size") or (int(factor * d_model) if factor else 4 * d_model)
    gated, multiple = act in _GATED, s.size("mlp_multiple_of", 1)
    out = int(width * 2 / 3) if gated else width
    into = out // 2 if gated else out
    out, into = round_up(out, 2 * multiple), round_up(into, multiple)
    if out != (2 * into if gated else into):
        raise InvalidConfig(
            f"{s.name}: an MLP of width {width} is rounded to {out} before and {into} after its activation, "
            f"which do not fit; use a multiple of {(6 if gated else 2) * multiple}"
        )
    act = "silu" if act == "swiglu" else act
    return {"d_ff": into, "gated": gated, "act": act, "mlp_bias": s.flag("use_bias_in_mlp", True)}


def _positions(s: Settings) -> dict[str, Any]:
    kind = s.word("pos_emb", "learned", ("learned", "rotary", "sinusoidal", "rpe", "alibi", "none"))
    if kind == "rpe":
        raise InvalidConfig(f"{s.name}: relative positions are learned, which sizer cannot count yet")
    rows = s.size("max_position_embeddings")
    if kind != "learned":
        return {}
    if rows is None:
        raise InvalidConfig(
            f"{s.name}: max_position_embeddings is missing, the rows of the learned positions"
        )
    return {"positions": True, "n_ctx": rows}


def _vocab(s: Settings, notes: list[str]) -> int | None:
    """The vocabulary of the tokenizer that the file names, where that is known."""
    vocab: int | None = s.size("vocab_size")
    if vocab is not None or s.given("padded_vocab_size"):
        return vocab
    kind = s.word("tokenizer_type", "GPT2BPETokenizer").lower()
    file = s.word("vocab_file", "")
    if kind in ("gpt2bpetokenizer", "hfgpt2tokenizer"):
        vocab = _NEOX_VOCAB if "20B_tokenizer" in file else _GPT2_VOCAB
    elif kind == "charleveltokenizer":
        vocab = _CHAR_VOCAB
    elif kind == "hftokenizer" and (not file or "20B_tokenizer" in file):
        vocab = _NEOX_VOCAB
    if vocab is not None:
        notes.append(f"the vocabulary is taken to be the {vocab:,} tokens of the tokenizer named")
    return vocab


def _check_attention(s: Settings) -> None:
    pattern = s.get("attention_config")
    if pattern is None:
        return
    kinds: set[str] = set()
    for entry in pattern if isinstance(pattern, list) else [None]:
        names = entry[0] if isinstance(entry, list) and entry else entry
        for name in names if isinstance(names, list) else [names]:
            if not isinstance(name, str):
                raise InvalidConfig(f"{s.name}: attention_config = {shown(pattern)} is no list of attentions")
            kinds.add(name)
    for name in sorted(kinds - set(_ATTENTION)):
        raise InvalidConfig(f"{s.name}: attention_config has {name!r}, which sizer cannot count yet")


FORMAT = Format(
    "GPT-NeoX",
    read,
    required=("hidden_size", "num_layers", "num_attention_heads"),
    marks=(
        "pos_emb",
        "no_weight_tying",
        "gpt_j_residual",
        "pipe_parallel_size",
        "model_parallel_size",
        "rotary_pct",
        "output_layer_parallelism",
        "attention_config",
        "train_micro_batch_size_per_gpu",
        "norm",
        "mlp_multiple_of",
    ),
    sizes={
        "d_model": "hidden_size",
        "n_layers": "num_layers",
        "n_heads": "num_attention_heads",
        "n_kv_heads": "num_kv_heads",
        "d_ff": "intermediate_size",
        "vocab_size": "padded_vocab_size",
        "n_ctx": "max_position_embeddings",
    },
    ignored=("vocab_size", "seq_length", "rotary_pct", "gpt_j_residual", "gpt_j_tied", "use_bias_in_norms"),
)
