"""Values of a file replaced by those that were asked for, under any tool's name for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizer.errors import InvalidConfig, UnknownKey, clip, nearest
from sizer.sources.model_types import named_class, own_code_type, record_of
from sizer.sources.values import ALIASES, canonical_name

# What one may ask of a file in our own words, whatever its model type.
SWITCHES = ("count_mtp",)


def overridden(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a file with some replaced; a key may be in our words or transformers'."""
    if not overrides:
        return dict(values)
    changed: dict[str, Any] = {}
    model_type = str(values.get("model_type", ""))
    record = record_of(own_code_type(model_type, named_class(values), values) or model_type)
    known = {**record.get("defaults", {}), **record.get("aliases", {}), **values}
    for key, value in overrides.items():
        spelled = _spelled(key, known, record)
        if spelled in changed:
            raise InvalidConfig(f"{spelled} is set twice, once as {clip(key)!r}")
        changed[spelled] = value
    return {**values, **changed}


def _spelled(key: str, known: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    if key in known or key in record.get("ignored", ()) or key in SWITCHES:
        return key
    name = canonical_name(key)
    for spelling in (name, *ALIASES.get(name, ())):
        if spelling in known:
            return spelling
    near = nearest(key, [*known, *ALIASES])
    guess = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise UnknownKey(f"a {record['model_type']} configuration has no key {clip(key)!r}{guess}")
