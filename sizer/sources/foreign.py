"""Configurations that are not one of transformers' own: of another tool, or with a part that is."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

from sizer.errors import clip
from sizer.sources.model_types import known_types, named_class, own_code_type, record_of


class TextPart(NamedTuple):
    """The language model of a configuration whose own type is not known."""

    values: Mapping[str, Any]
    name: str
    assumption: str


# Under which keys models of more than text keep their language model.
_TEXT_KEYS = ("text_config", "llm_config", "language_config")


def is_foreign(values: Mapping[str, Any]) -> bool:
    """Whether a configuration is of another tool than transformers.

    transformers writes a `model_type` or the `architectures`; Mistral's own files and llm-analysis'
    write a `model_type` too, and are told by their own words.
    """
    if values.get("architectures"):
        return False
    model_type = values.get("model_type")
    return (
        model_type in (None, "")
        or "ffn_embed_dim" in values
        or (model_type == "transformer" and "dim" in values)
    )


def text_part(values: Mapping[str, Any], name: str, readers: Container[str]) -> TextPart | None:
    """The language model inside a configuration that no reader knows as a whole, if one knows it."""
    outer = values.get("model_type")
    if not isinstance(outer, str) or not outer:
        return None
    own = own_code_type(outer, named_class(values), values) if outer in known_types() else None
    if _readable(own or outer, readers):
        return None
    for key in _TEXT_KEYS:
        inside = values.get(key)
        if not isinstance(inside, Mapping):
            continue
        model_type = inside.get("model_type") or _declared(outer, key)
        if not isinstance(model_type, str) or not _readable(model_type, readers):
            continue
        part = {**inside, "model_type": model_type}
        if "tie_word_embeddings" in values and "tie_word_embeddings" not in inside:
            part["tie_word_embeddings"] = values["tie_word_embeddings"]
        assumption = (
            f"the text part alone: {key}, a {model_type}; what else is in a {clip(outer)} is not counted"
        )
        return TextPart(part, f"{name}: {key}", assumption)
    return None


def _readable(model_type: str, readers: Container[str]) -> bool:
    """Whether a reader knows the type, or the one that it is the same as."""
    if model_type in readers:
        return True
    return model_type in known_types() and record_of(model_type).get("same_as") in readers


def _declared(outer: str, key: str) -> object:
    """The model type that transformers takes for a nested configuration that does not say."""
    if outer not in known_types():
        return None
    return record_of(outer).get("nested", {}).get(key)
