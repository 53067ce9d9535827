"""The border: values from outside, as the fields of a configuration.

Names are accepted in any spelling of the field's tools; inside there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from sizer.core.config import LETTERS, Config, letter, once
from sizer.core.dims import MAX_SIZE
from sizer.core.pattern import Pattern, PerLayer
from sizer.errors import InvalidConfig, UnknownKey, clip, nearest

# One row a concept: our word, then what others call it (Hugging Face, GPT-2, nanoGPT, gguf, Megatron).
ALIASES: dict[str, tuple[str, ...]] = {
    "d_model": ("hidden_size", "n_embd", "n_embed", "dim", "model_dim", "embedding_length", "emb_dim"),
    "n_layers": ("num_hidden_layers", "n_layer", "num_layers", "block_count", "encoder_layers"),
    "n_heads": ("num_attention_heads", "n_head", "num_heads", "head_count", "attention.head_count"),
    "n_kv_heads": (
        "num_key_value_heads",
        "num_kv_heads",
        "n_head_kv",
        "num_query_groups",
        "head_count_kv",
        "attention.head_count_kv",
        "n_kv_head",
    ),
    "d_head": ("head_dim", "d_kv", "kv_channels", "key_length", "attention.key_length", "head_size"),
    "d_ff": (
        "intermediate_size",
        "n_inner",
        "ffn_dim",
        "ffn_hidden_size",
        "feed_forward_length",
        "hidden_dim",
        "dim_feedforward",
    ),
    "vocab_size": ("n_vocab", "padded_vocab_size"),
    "n_ctx": (
        "max_position_embeddings",
        "n_positions",
        "block_size",
        "context_length",
        "max_seq_len",
        "max_seq_length",
        "seq_length",
    ),
    "n_experts": ("num_local_experts", "n_routed_experts", "num_experts", "expert_count"),
    "top_k": ("num_experts_per_tok", "moe_router_topk", "expert_used_count", "num_experts_per_token"),
    "d_ff_expert": ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_feed_forward_length"),
    "n_shared_experts": ("expert_shared_count", "num_shared_experts"),
    "n_dense_layers": ("first_k_dense_replace", "leading_dense_block_count"),
    "q_lora_rank": ("attention.q_lora_rank",),
    "kv_lora_rank": ("attention.kv_lora_rank",),
    "d_nope": ("qk_nope_head_dim",),
    "d_rope": ("qk_rope_head_dim",),
    "d_value": ("v_head_dim",),
    "n_index_heads": ("index_n_heads",),
    "d_index": ("index_head_dim",),
    "index_top_k": ("index_topk",),
    "d_state": ("state_size", "ssm.state_size", "ssm_state_size", "mamba_d_state"),
    "window": ("sliding_window", "attention.sliding_window", "window_size"),
    "seq_len": ("sequence_length",),
    "batch_size": ("micro_batch_size",),
    "tie_embeddings": ("tie_word_embeddings", "tied"),
    "n_decoder_layers": ("num_decoder_layers", "decoder_layers"),
    "qkv_bias": (),
    "n_token_types": ("type_vocab_size",),
    "mtp_layers": ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_layers"),
}
_CANONICAL = {alias: name for name, aliases in ALIASES.items() for alias in aliases}
_CANONICAL |= {code: name for name, code in LETTERS.items() if name in ALIASES}


def canonical_name(key: str) -> str:
    """Our word for a key, whatever tool's word it is.

    >>> canonical_name("n_embd"), canonical_name("--num-query-groups"), canonical_name("D")
    ('d_model', 'n_kv_heads', 'd_model')
    """
    plain = key.removeprefix("--").replace("-", "_")
    return _CANONICAL.get(plain, plain)


def canonical(key: str, config: type[Config]) -> str:
    """The field of a configuration that a key in any spelling means.

    >>> from sizer.architectures.decoders.gpt2 import GPT2Config
    >>> canonical("n_embd", GPT2Config), canonical("D", GPT2Config)
    ('d_model', 'd_model')
    """
    known, by_letter = _names(config)
    for name in (key, by_letter.get(key, ""), canonical_name(key)):
        if name in known:
            return name
    near = nearest(key, [*known, *(alias for name in known for alias in ALIASES.get(name, ()))])
    subject = config.__name__.removesuffix("Config")
    if near:
        raise UnknownKey(f"{subject} has no field {clip(key)!r}; did you mean {near[0]!r}?")
    raise UnknownKey(f"{subject} has no field {clip(key)!r}; it has {', '.join(known)}")


def canonical_once(values: Mapping[str, Any], config: type[Config]) -> dict[str, Any]:
    """Values by the fields that their keys mean; two spellings of one field are an error."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = canonical(key, config)
        if name in found:
            raise InvalidConfig(f"{name} is set twice, once as {clip(key)!r}")
        found[name] = value
    return found


@once
def _names(config: type[Config]) -> tuple[dict[str, Field[Any]], dict[str, str]]:
    """The fields of a configuration by name, and their names by letter."""
    known = {field.name: field for field in fields(config)}
    # Of fields that share a letter (how many layers, and what each of them is) the first is the size.
    return known, {letter(config, name): name for name in reversed(known)}


def validated(given: Mapping[str, Any], config: type[Config]) -> dict[str, Any]:
    """Fields of a configuration from outside data, each checked against its type.

    Symbols and arrays come from Python, not from a file, and pass as they are.
    """
    by_name, _ = _names(config)
    named = canonical_once(given, config)
    result = {name: _value(by_name[name], value) for name, value in named.items()}
    missing = [name for name, field in by_name.items() if name not in result and _required(field)]
    if missing:
        raise InvalidConfig(f"{config.__name__.removesuffix('Config')} needs {', '.join(missing)}")
    return result


def well_formed(given: Mapping[str, Any], config: type[Config]) -> dict[str, Any]:
    """Fields of a configuration that need no check, with lists in the form of their kind."""
    by_name, _ = _names(config)
    return {name: _formed(_kind(by_name[name]), value) for name, value in given.items()}


def _formed(kind: str, value: Any) -> Any:
    if kind == "Part" and value is not None:
        return value._replace(given=well_formed(value.given, value.kind))
    if kind in _LISTS and isinstance(value, list | tuple):
        return _LISTS[kind](tuple(value))
    return value


def parse_assignment(text: str) -> tuple[str, Any]:
    """`KEY=VALUE` from a command line: a whole number, true, false, none, a word, or a list of those.

    >>> parse_assignment("n_layers=24"), parse_assignment("tie_embeddings=false")
    (('n_layers', 24), ('tie_embeddings', False))
    >>> parse_assignment("depths=3,4,23,3")
    ('depths', [3, 4, 23, 3])
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InvalidConfig(f"{clip(text)!r} is not of the form KEY=VALUE, such as n_layers=24")
    return key.strip(), parse_value(value.strip())


def split_overrides(text: str) -> tuple[str, dict[str, Any]]:
    """A model with fields that it overrides, as a model that is one of several is written.

    >>> split_overrides("llama-3-8b:n_layers=16,tie_embeddings=yes")
    ('llama-3-8b', {'n_layers': 16, 'tie_embeddings': True})
    >>> split_overrides("swin-t:depths=2,2,18,2")
    ('swin-t', {'depths': [2, 2, 18, 2]})
    >>> split_overrides("hub:gpt2")
    ('hub:gpt2', {})
    """
    model, _, given = text.rpartition(":")
    if "=" not in given or not model:
        return text, {}
    overrides: dict[str, Any] = {}
    # A comma before another KEY= ends a value; any other is part of a list.
    for key, value in map(parse_assignment, re.split(r",(?=[^=,]+=)", given)):
        if key in overrides:
            raise InvalidConfig(f"{clip(key)} is set twice")
        overrides[key] = value
    return model, overrides


def parse_value(text: str) -> Any:
    """The value a word stands for; a list where there are commas."""
    if "," in text:
        return [parse_value(part.strip()) for part in text.removeprefix("[").removesuffix("]").split(",")]
    words = {
        "true": True,
        "yes": True,
        "on": True,
        "false": False,
        "no": False,
        "off": False,
        "none": None,
        "null": None,
    }
    if text.lower() in words:
        return words[text.lower()]
    if re.fullmatch(r"[+-]?[0-9][0-9_]{0,30}", text):
        return int(text)
    if re.fullmatch(r"[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]{1,3})?", text[:64]):
        return float(text)
    return text


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING


def _kind(field: Field[Any]) -> str:
    """The type of a field, as its file has it, whether or not it may be null."""
    return str(field.type).removesuffix(" | None")


def _value(field: Field[Any], value: Any) -> Any:
    kind = _kind(field)
    if value is None and ("None" in str(field.type) or field.default is None):
        return None
    if hasattr(value, "dtype") or hasattr(value, "free_symbols") or hasattr(value, "terms"):
        return value
    if isinstance(value, Pattern):
        return value
    if kind == "Part":
        return value._replace(given=validated(value.given, value.kind))
    if isinstance(value, PerLayer):
        # What is one size in most models may differ from layer to layer.
        kind, value = "Pattern" if kind == "Pattern" else "PerLayer", value.values
    if kind not in _RULES:
        return value
    is_right, rule = _RULES[kind]
    if not is_right(value):
        raise InvalidConfig(f"{field.name} = {clip(repr(value))} is not {rule}")
    return _formed(kind, value)


def _is_size(value: Any) -> bool:
    # The smallest allowed value differs by field, so the configuration itself checks it.
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_SIZE * 1000


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) <= MAX_ENTRIES


def _are_sizes(value: Any) -> bool:
    return _is_list(value) and all(entry is None or _is_size(entry) for entry in value)


# Fields with an entry a layer, and what holds it.
_LISTS: dict[str, type[Pattern] | type[PerLayer]] = {"Pattern": Pattern, "PerLayer": PerLayer}
# No list in a configuration has as many entries, and no word as many letters.
MAX_ENTRIES = 100_000
MAX_LETTERS = 200
# What a value of each kind of field has to be: no number is read from a text or a boolean.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "Dim": (_is_size, "a whole number"),
    "int": (_is_size, "a whole number"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "str": (lambda value: isinstance(value, str) and len(value) <= MAX_LETTERS, "a word"),
    "Pattern": (
        lambda value: _is_list(value) and all(isinstance(entry, str) for entry in value),
        "a list of words, one a layer",
    ),
    "PerLayer": (_are_sizes, "a list of whole numbers, one a layer"),
}
