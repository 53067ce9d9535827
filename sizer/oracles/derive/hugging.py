"""Classes of transformers: the class, its configuration class, and the configurations inside of it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from sizer.errors import BadInput, MissingExtra, UnknownName, clip
from sizer.oracles.derive.config_objects import declared
from sizer.oracles.derive.target import Target, plain

# Keys that say where a configuration came from or what a tokenizer does; none of them is a size.
NOT_ARGUMENTS = frozenset(
    (  # noqa: RUF005
        "transformers_version",
        "architectures",
        "auto_map",
        "model_type",
        "id2label",
        "label2id",
        "problem_type",
    )
    + (
        "dtype",
        "torch_dtype",
        "quantization_config",
        "return_dict",
        "output_hidden_states",
        "chunk_size_feed_forward",
    )
)


def hugging(cls: str, given: Mapping[str, Any]) -> Target:
    """The class of transformers of that name, under its configuration's defaults and the values given."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import transformers
    except ImportError:
        raise MissingExtra("torch", "deriving a formula") from None
    transformers.logging.set_verbosity_error()
    found = getattr(transformers, cls, None)
    if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
        names = [
            name
            for name in dir(transformers)
            if name.endswith(("Model", "LM", "Generation", "Classification"))
        ]
        raise UnknownName("model class", cls, names, hint="in transformers")
    kind = getattr(found, "config_class", None)
    if kind is None:
        raise BadInput(f"transformers:{cls} has no configuration class of its own; name a class that has one")
    values = _values(kind, given, f"transformers:{cls}")

    def make(filled: dict[str, Any]) -> Any:
        # Built by its class and not from a file: nothing here looks at `auto_map`.
        with _without_generation():
            return found(kind(**filled))

    return Target(f"transformers:{cls}", "transformers.models", values, make, {})


@contextlib.contextmanager
def _without_generation() -> Iterator[None]:
    """How to generate has no tensors, and is as slow to derive as many layers are."""
    from transformers import GenerationConfig

    kept = vars(GenerationConfig)["from_model_config"]
    plain = GenerationConfig()
    try:
        GenerationConfig.from_model_config = lambda _: plain
        yield
    finally:
        GenerationConfig.from_model_config = kept


def _values(kind: Any, given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Declared defaults, before anything is derived from them; sub-configurations in full."""
    aliases = getattr(kind, "attribute_map", {})
    own = {field.name for field in dataclasses.fields(kind)} | set(aliases)
    # What every configuration file of transformers carries is no argument of this class.
    ignored = NOT_ARGUMENTS | (_common() - own)
    given = {aliases.get(key, key): value for key, value in given.items() if key not in ignored}
    nested = _nested(kind, given, name)
    values = {
        key: plain(value)
        for key, value in declared(kind).items()
        if key not in NOT_ARGUMENTS and key not in nested
    }
    values["num_labels"] = 2
    unknown = next((key for key in given if key not in values and key not in nested), None)
    if unknown is not None:
        raise UnknownName(f"field of {kind.__name__}", unknown, [*values, *nested, *aliases])
    # A text left out is derived anew; one that is given is kept.
    return {**values, **{k: v for k, v in given.items() if k not in nested}, **nested}


def _is_other(actual: Any, default: Any) -> bool:
    """Whether a value is another than the declared one, and not derived from what was left out."""
    return type(actual) is type(default) and not isinstance(default, dict) and actual != default


@cache
def _common() -> frozenset[str]:
    """The settings that every configuration has, whatever its model: where it came from, what to return."""
    from transformers import PreTrainedConfig

    plain = PreTrainedConfig()
    return frozenset(vars(plain)) | frozenset(plain.to_dict()) | {"_name_or_path", "output_attentions"}


def _nested(kind: Any, given: Mapping[str, Any], name: str) -> dict[str, dict[str, Any]]:
    subs = dict(getattr(kind, "sub_configs", {}) or {})
    if not subs:
        return {}
    fields = {field.name for field in dataclasses.fields(kind)}
    try:
        whole = kind(**{k: v for k, v in given.items() if not isinstance(v, str) or k in fields})
    except Exception as error:
        raise BadInput(f"{name}: its {kind.__name__} refuses these values: {clip(error)}") from None
    found: dict[str, dict[str, Any]] = {}
    parts = {key: inner for key in subs if dataclasses.is_dataclass(inner := vars(whole).get(key))}
    for key, inner in parts.items():
        mine = given.get(key) or {}
        own = _values(type(inner), mine, f"{name}: {key}")
        # What the outer configuration sets in the inner one, where the inner one declares another value.
        own |= {
            field: plain(actual)
            for field, actual in vars(inner).items()
            if field in own and field not in mine and _is_other(actual, own[field])
        }
        if getattr(type(inner), "model_type", ""):
            own["model_type"] = str(vars(type(inner))["model_type"])
        found[key] = own
    return found
