"""What is derived: a class or factory and its arguments, found by name and never by a file's word.

`package.module:Class` is imported, since whoever names it asks for that. `transformers:Class` is a
class of transformers. Nothing in a configuration leads to an import.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any

from sizer.core.record import Record
from sizer.errors import BadInput, UnknownName, clip
from sizer.oracles.derive.config_objects import Settings, config_fields, is_config_class, new_config, real
from sizer.oracles.torch import import_torch

# Values that a number of arguments may have; a configuration with more is no configuration.
MAX_ARGUMENTS = 2_000

Path = tuple[str | int, ...]


class Target(Record):
    """Something that builds a module, and the values of its arguments.

    `make` builds it from values in the shape of `values`; `values` holds dictionaries, lists and
    plain values, whatever the real arguments are. `package` is where its code is.
    """

    __slots__ = ("make", "name", "package", "types", "values")

    def __init__(
        self,
        name: str,
        package: str,
        values: dict[str, Any],
        make: Callable[[dict[str, Any]], Any],
        types: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.package = package
        self.values = values
        self.make = make
        self.types = types


def target(name: str, given: Mapping[str, Any], config_class: str | None = None) -> Target:
    """The target of that name, with the given values for its arguments and defaults for the others."""
    module, _, attribute = name.partition(":")
    if not module or not attribute or not all(part.isidentifier() for part in attribute.split(".")):
        raise BadInput(
            f"{clip(name)!r} names no module to derive; write package.module:Class or transformers:Class"
        )
    if module == "transformers":
        from sizer.oracles.derive.hugging import hugging

        return hugging(attribute, given)
    found = imported(name)
    if not callable(found):
        raise BadInput(
            f"{clip(name)} is of type {type(found).__name__}, not a class or a function that builds a module"
        )
    return _of_callable(name, found, given, imported(config_class) if config_class else None)


def imported(name: str) -> Any:
    """The object that `package.module:Name` names; the current folder is where Python looks first."""
    module, _, attribute = name.partition(":")
    if not attribute or not all(part.isidentifier() for part in module.split(".")):
        raise BadInput(f"{clip(name)!r} names no class; write package.module:Class")
    import_torch("deriving a formula")
    here = os.getcwd()
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BadInput(
            f"{clip(name)}: there is no module {clip(error.name or module)!r} here or on Python's path"
        ) from None
    except Exception as error:
        raise BadInput(f"{clip(name)}: importing it fails: {type(error).__name__}: {clip(error)}") from None
    finally:
        if added and here in sys.path:
            sys.path.remove(here)
    for part in attribute.split("."):
        if not hasattr(found, part):
            known = [n for n in vars(found) if not n.startswith("_")] if hasattr(found, "__dict__") else []
            raise UnknownName(f"class in {clip(module)}", part, known)
        found = getattr(found, part)
    return found


def _of_callable(name: str, found: Any, given: Mapping[str, Any], config_class: Any) -> Target:
    parameters = _parameters(name, found)
    hints = _hints(found)
    single = _config_parameter(parameters, hints, given, config_class)
    if single is not None:
        parameter, kind = single
        values = config_fields(kind, given, name) if kind is not Settings else dict(given)

        def from_config(filled: dict[str, Any]) -> Any:
            return (
                found(new_config(kind, filled))
                if _positional(parameters[parameter])
                else found(**{parameter: new_config(kind, filled)})
            )

        return Target(
            name, found.__module__, values, from_config, hints if kind is Settings else _hints(kind)
        )
    values = _bound(name, parameters, given)

    def from_arguments(filled: dict[str, Any]) -> Any:
        positional, named = [], {}
        for key, value in filled.items():
            filling = real(hints.get(key), value)
            if key in parameters and _positional(parameters[key]):
                positional.append(filling)
            else:
                named[key] = filling
        return found(*positional, **named)

    return Target(name, found.__module__, values, from_arguments, hints)


def _parameters(name: str, found: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        raise BadInput(f"{clip(name)}: Python cannot say which arguments it takes") from None


def _hints(found: Any) -> dict[str, Any]:
    """Annotations, as far as they can be read."""
    function: Any = vars(found).get("__init__", found) if isinstance(found, type) else found
    try:
        return typing.get_type_hints(function)
    except Exception:
        return dict(getattr(function, "__annotations__", {}))


def _config_parameter(
    parameters: Mapping[str, inspect.Parameter],
    hints: Mapping[str, Any],
    given: Mapping[str, Any],
    chosen: Any,
) -> tuple[str, Any] | None:
    """The one argument that holds all others, and the class of it."""
    required = [
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    for name in required or list(parameters)[:1]:
        kind = chosen or hints.get(name)
        if (chosen or is_config_class(kind)) and (len(required) <= 1 or chosen) and name not in given:
            return name, kind
    # An unannotated `cfg`, read as `cfg["emb_dim"]` or `cfg.emb_dim`.
    alone = len(required) == 1 and required[0] not in hints and not set(given) & set(parameters)
    return (required[0], Settings) if alone and given else None


def _bound(
    name: str, parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> dict[str, Any]:
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {k: p for k, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    for key in given:
        if key not in named and not open_ended:
            raise UnknownName(f"argument of {clip(name)}", key, named)
    missing = [k for k, p in named.items() if p.default is p.empty and k not in given]
    if missing:
        example = ", ".join(f'"{key}": 64' for key in missing[:4])
        raise BadInput(
            f"{clip(name)} needs {', '.join(missing)}, without a default; give with --config '{{{example}}}'"
        )
    values = {k: given[k] if k in given else plain(p.default) for k, p in named.items()}
    return {**values, **{k: v for k, v in given.items() if k not in named}}


def plain(value: Any) -> Any:
    """A default as lists and dictionaries; other values stay what they are."""
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return value


def _positional(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.POSITIONAL_ONLY
