"""JSON from outside: one object, no key twice, bounded depth, errors with their position."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sizer.errors import BadInput, clip, shown

MAX_DEPTH = 100
# Keys of one object that are settings; each is compared with those that are known.
MAX_KEYS = 2_000
# Objects and lists side by side at one depth; a quantization map has a hundred thousand.
MAX_GROUPS = 5_000_000
_NESTED = frozenset((dict, list, tuple))


def parse_object(text: str, name: str) -> dict[str, Any]:
    """The JSON object in a text; `name` says in errors where the text came from.

    `NaN` and `Infinity`, which Python writes and JSON forbids, are read, and so is the way in which
    transformers writes them: `{"__float__": "Infinity"}`.

    >>> parse_object('{"n_layer": 12}', "config.json")
    {'n_layer': 12}
    >>> parse_object('{"limit": {"__float__": "Infinity"}}', "config.json")
    {'limit': inf}
    """
    try:
        value = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise BadInput(
            f"{clip(name)} is not valid JSON: {error.msg.lower()} at line {error.lineno}, "
            f"column {error.colno}"
        ) from None
    except Duplicate as error:
        at = _position(text, error.key)
        raise BadInput(f"{clip(name)} has the key {clip(error.key)!r} twice{at}") from None
    except RecursionError:
        raise BadInput(f"{clip(name)} is nested too deeply") from None
    except ValueError:
        # Python refuses to convert a number of many thousand digits.
        raise BadInput(f"{clip(name)} holds a number with too many digits") from None
    return checked_object(value, name)


def checked_object(value: object, name: str) -> dict[str, Any]:
    """A parsed document as an object of settings, of bounded depth."""
    if not isinstance(value, Mapping):
        raise BadInput(f"{clip(name)} holds {_article(value)}, not an object of settings")
    if len(value) > MAX_KEYS:
        raise BadInput(f"{clip(name)} has {len(value):,} keys; no configuration has over {MAX_KEYS:,}")
    for key in value:
        if not isinstance(key, str):
            raise BadInput(f"{clip(name)} has the key {shown(key)}, which is no word")
    found = _groups(value, MAX_DEPTH)
    if found is None:
        raise BadInput(f"{clip(name)} is nested over {MAX_DEPTH} levels deep")
    # Most files have none, and then their contents stay as they are.
    if any(type(group) is dict and "__float__" in group for group in found):
        return {key: _floats(entry) for key, entry in value.items()}
    return dict(value)


def _floats(value: Any) -> Any:
    """`{"__float__": "Infinity"}`, as transformers writes it, is a number."""
    if isinstance(value, dict):
        return _number(value) if len(value) == 1 else {key: _floats(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_floats(entry) for entry in value]
    return value


def _number(value: Mapping[str, Any]) -> Any:
    word = value.get("__float__")
    if word in ("Infinity", "-Infinity", "NaN"):
        return float(str(word).replace("Infinity", "inf"))
    return {key: _floats(entry) for key, entry in value.items()}


class Duplicate(Exception):
    """A key that an object has twice."""

    def __init__(self, key: str) -> None:
        self.key = key


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs of an object as a dictionary; no key twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Duplicate(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found


def _position(text: str, key: str) -> str:
    first = text.find(f'"{key}"')
    second = text.find(f'"{key}"', first + 1)
    return f", again at line {text.count(chr(10), 0, second) + 1}" if second > first >= 0 else ""


def _groups(value: Mapping[str, Any], limit: int) -> list[Any] | None:
    """The objects and lists inside a value; nothing where they are deeper than the limit."""
    found: list[Any] = []
    level: list[Any] = [dict(value)]
    for _ in range(limit):
        level = [
            child
            for group in level
            for child in (group.values() if type(group) is dict else group)
            if type(child) in _NESTED
        ]
        if not level:
            return found
        found += level
        if len(found) > MAX_GROUPS:
            # Only a value that holds itself, as Python can make one, is that wide.
            return None
    return None


def _article(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
