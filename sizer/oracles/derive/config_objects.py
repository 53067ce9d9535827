"""Configuration objects: dataclasses, pydantic models, and plain attribute holders."""

from __future__ import annotations

import copy
import dataclasses
import enum
import typing
from collections.abc import Mapping
from types import SimpleNamespace
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
    for key in given:
        if key not in defaults and key not in required:
            raise UnknownName(f"field of {clip(kind.__name__)}", key, [*defaults, *required])
    missing = [key for key in required if key not in given]
    if missing:
        raise BadInput(
            f"{clip(name)}: its {kind.__name__} needs {', '.join(missing)}, without a default; "
            "give with --config"
        )
    values: dict[str, Any] = {}
    for key in [*required, *defaults]:
        hint = hints.get(key)
        if is_config_class(hint) and (isinstance(given.get(key), Mapping) or key not in given):
            values[key] = config_fields(hint, given.get(key, {}), name)
        else:
            values[key] = given[key] if key in given else defaults[key]
    return values


def field_types(kind: Any) -> dict[str, Any]:
    """The annotations of a class, as far as they can be read."""
    try:
        return typing.get_type_hints(kind)
    except Exception:
        return dict(getattr(kind, "__annotations__", {}))


def new_config(kind: Any, values: Mapping[str, Any]) -> Any:
    """A configuration of that class with those values."""
    if kind is Settings or kind is dict:
        return Settings({k: Settings(v) if isinstance(v, dict) else v for k, v in values.items()})
    if kind is SimpleNamespace:
        return SimpleNamespace(**values)
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
    defaults: dict[str, Any] = {}
    required: list[str] = []
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            if not field.init:
                continue
            if field.default is not dataclasses.MISSING:
                defaults[field.name] = _plain(field.default)
            elif field.default_factory is not dataclasses.MISSING:
                defaults[field.name] = _plain(field.default_factory())
            else:
                required.append(field.name)
        return defaults, required
    if hasattr(kind, "model_fields"):
        for key, info in kind.model_fields.items():
            if info.is_required():
                required.append(key)
            else:
                defaults[key] = _plain(info.get_default(call_default_factory=True))
        return defaults, required
    import inspect

    for key, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.default is parameter.empty:
            required.append(key)
        else:
            defaults[key] = _plain(parameter.default)
    return defaults, required


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    return copy.copy(value)
