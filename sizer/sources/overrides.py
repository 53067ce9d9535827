"""Values of a file replaced by those that were asked for, under any tool's name for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizer.errors import InvalidConfig, UnknownKey, clip, nearest
from sizer.sources.model_types import named_class, own_code_type, record_of
from sizer.sources.values import ALIASES, canonical_name

# Keys of any file, whatever its model type.
ALWAYS_KNOWN = (
    "model_type",
    "architectures",
    "auto_map",
    "torch_dtype",
    "dtype",
    "num_labels",
    "tie_word_embeddings",
    "quantization_config",
    "transformers_version",
    "attn_implementation",
    "pruned_heads",
    # What a backbone gives to the model around it.
    "out_features",
    "out_indices",
    "stage_names",
    "tokenizer_class",
    "is_decoder",
    # What transformers works out from the encoder.
    "cross_attention_hidden_size",
    "rope_theta",
    "rope_scaling",
    "output_attentions",
    "output_hidden_states",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "finetuning_task",
)
# What one may ask of a file in our own words, whatever its model type.
SWITCHES = ("count_mtp",)
# The same, of types whose configuration does not say how large their images are.
OF_TYPES = {"image_size": ("glpn", "poolformer", "regnet", "resnet", "segformer")}


def overridden(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a file with some replaced; a key may be in our words or transformers'.

    A size that only the language model inside has is its size: `vocab_size` of a model that sees.
    `vision_config.hidden_size` is a key of a part.
    """
    if not overrides:
        return dict(values)
    changed: dict[str, Any] = {}
    model_type = str(values.get("model_type", ""))
    record = record_of(own_code_type(model_type, named_class(values), values) or model_type)
    known = {**record.get("defaults", {}), **record.get("aliases", {}), **values}
    for key, value in overrides.items():
        place, inner = _part(key, known, record)
        if place:
            part = {**_nested(place, values, record), **changed.get(place, {})}
            changed[place] = overridden(part, {inner: value})
            continue
        spelled = _in_file(_spelled(key, known, record), values, record)
        if spelled in changed:
            raise InvalidConfig(f"{spelled} is set twice, once as {clip(key)!r}")
        changed[spelled] = value
    return {**values, **changed}


def _part(key: str, known: Mapping[str, Any], record: Mapping[str, Any]) -> tuple[str, str]:
    """The part of a configuration that has a key, and the key in it; none where it is the whole's."""
    parts = record.get("nested", {})
    place, dot, inner = key.partition(".")
    if dot and place in parts:
        return place, inner
    if "text_config" in parts:
        try:
            _spelled(key, known, record)
        except UnknownKey:
            return "text_config", key
    return "", key


def _nested(place: str, values: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """A part as the file has it, or as its model type assumes it."""
    found = values.get(place)
    if found is None:
        found = record.get("defaults", {}).get(place) or {}
    if not isinstance(found, Mapping):
        raise InvalidConfig(f"{place} = {clip(repr(found))} is not an object of settings")
    declared = record["nested"][place]
    own = declared if isinstance(declared, str) else str(declared.get("model_type", ""))
    return {"model_type": own, **found}


def in_its_words(model_type: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Values under our names or transformers', each under the key that the model type has for it.

    >>> in_its_words("gpt2", {"d_model": 768, "scale_attn_weights": True})
    {'n_embd': 768, 'scale_attn_weights': True}
    """
    record = record_of(model_type)
    known = {**record.get("defaults", {}), **record.get("aliases", {})}
    # A few keys have no default, and only the class asks for them; they stay as they are.
    ours = {key: value for key, value in config.items() if key in known or key in ALIASES}
    changed = {_in_file(_spelled(key, known, record), {}, record): value for key, value in ours.items()}
    return {**changed, **{key: value for key, value in config.items() if key not in ours}}


def _in_file(key: str, values: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """The spelling of a key that the file has already, or the one transformers maps the others to."""
    aliases: Mapping[str, str] = record.get("aliases", {})
    target = aliases.get(key, key)
    same = (key, target, *(alias for alias, mapped in aliases.items() if mapped == target))
    return next((spelling for spelling in same if spelling in values), target)


def _spelled(key: str, known: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    if key in known or key in record.get("ignored", ()) or key in SWITCHES:
        return key
    if record["model_type"] in OF_TYPES.get(key, ()):
        return key
    name = canonical_name(key)
    for spelling in (name, *ALIASES.get(name, ())):
        if spelling in known or spelling in ALWAYS_KNOWN:
            return spelling
    near = [name for name in nearest(key, [*known, *ALIASES]) if name != key]
    guess = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise UnknownKey(f"a {record['model_type']} configuration has no key {clip(key)!r}{guess}")
