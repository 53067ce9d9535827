"""Configuration objects: dataclasses, pydantic models, and plain attribute holders."""

from __future__ import annotations

import copy
import dataclasses
import enum
import inspect
import typing
from collections.abc import Mapping
from typing import Any

from sizer.errors import BadInput, UnknownName, clip


class Settings(dict[str, Any]):
    """Settings that are read as `cfg["width"]` or as `cfg.width`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def is_config_class(kind: Any) -> bool:
    """Whether a class holds settings: a dataclass, a pydantic model, a configuration of transformers."""
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind)
        or hasattr(kind, "model_fields")
        or (hasattr(kind, "model_type") and hasattr(kind, "to_dict"))
    )


def config_fields(kind: Any, given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The fields of a configuration class with their declared defaults, and those given instead."""
    hints = field_types(kind)
    defaults, required = _defaults(kind)
    known = [*required, *defaults] or list(given)  # a namespace takes what it is given
    for key in given:
        if key not in known:
            raise UnknownName(f"field of {clip(kind.__name__)}", key, known)
    missing = [key for key in required if key not in given and not is_config_class(hints.get(key))]
    if missing:
        raise BadInput(
            f"{clip(name)}: its {kind.__name__} needs {', '.join(missing)}, without a default; "
            "give with --config"
        )
    values: dict[str, Any] = {}
    for key in known:
        value = given[key] if key in given else defaults.get(key, {})
        if is_config_class(hints.get(key)) and isinstance(value, Mapping):
            own = defaults.get(key) or {}
            value = config_fields(hints[key], {**own, **value}, name)
        values[key] = value
    return values


def field_types(kind: Any) -> dict[str, Any]:
    """The annotations of a class, as far as they can be read."""
    try:
        return typing.get_type_hints(kind)
    except Exception:
        return dict(getattr(kind, "__annotations__", {}))


def new_config(kind: Any, values: Mapping[str, Any]) -> Any:
    """A configuration of that class with those values."""
    if kind is Settings:
        return Settings({k: Settings(v) if isinstance(v, dict) else v for k, v in values.items()})
    hints = field_types(kind)
    filled = {key: real(hints.get(key), value) for key, value in values.items()}
    if dataclasses.is_dataclass(kind):
        hidden = {f.name for f in dataclasses.fields(kind) if not f.init}
        filled = {key: value for key, value in filled.items() if key not in hidden}
    return kind(**filled)


def real(hint: Any, value: Any) -> Any:
    """A plain value as its annotation wants it: a dataclass, an enum, a tuple."""
    if isinstance(value, Mapping) and is_config_class(hint):
        return new_config(hint, dict(value))
    kinds = [k for k in (hint, *typing.get_args(hint)) if isinstance(k, type) and issubclass(k, enum.Enum)]
    if kinds and isinstance(value, str) and not isinstance(value, enum.Enum):
        return member(kinds[0], value)
    if isinstance(value, list) and "tuple" in str(hint).lower():
        return tuple(value)
    return value


def member(kind: type[enum.Enum], value: Any) -> Any:
    """The member of an enumeration of that name or value."""
    for entry in kind:
        if value in (entry.name, entry.value):
            return entry
    raise UnknownName(kind.__name__, str(value), [str(entry.value) for entry in kind])


def _defaults(kind: Any) -> tuple[dict[str, Any], list[str]]:
    """The defaults of a class of settings, and the fields that have none."""
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.init]
        defaults = declared(kind)
    elif hasattr(kind, "model_fields"):
        fields = kind.model_fields
        names = list(fields)
        defaults = {
            key: info.get_default(call_default_factory=True)
            for key, info in fields.items()
            if not info.is_required()
        }
    else:
        parameters = _parameters(kind)
        names = [k for k, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        defaults = {
            key: parameters[key].default
            for key in names
            if parameters[key].default is not inspect.Parameter.empty
        }
    return {key: _plain(value) for key, value in defaults.items()}, [n for n in names if n not in defaults]


def _parameters(kind: Any) -> Mapping[str, inspect.Parameter]:
    """What a class takes; of some that are built in, such as `dict`, Python cannot say it."""
    try:
        return inspect.signature(kind).parameters
    except ValueError:
        return {}


def declared(kind: Any) -> dict[str, Any]:
    """The defaults of a dataclass, by its fields."""
    missing = dataclasses.MISSING
    return {
        field.name: field.default if field.default_factory is missing else field.default_factory()
        for field in dataclasses.fields(kind)
        if field.init and (field.default, field.default_factory) != (missing, missing)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return copy.copy(value)
