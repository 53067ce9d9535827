"""JSON from outside: one object, no key twice, bounded depth, errors with their position."""

from __future__ import annotations

import json
from typing import Any

from sizer.errors import BadInput, clip

MAX_DEPTH = 100


def parse_object(text: str, name: str) -> dict[str, Any]:
    """The JSON object in a text; `name` says in errors where the text came from.

    `NaN` and `Infinity`, which Python writes and JSON forbids, are read.

    >>> parse_object('{"n_layer": 12}', "config.json")
    {'n_layer': 12}
    """
    try:
        value = json.loads(text, object_pairs_hook=unique)
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
    if not isinstance(value, dict):
        raise BadInput(f"{clip(name)} holds {_article(value)}, not an object of settings")
    if _deeper_than(value, MAX_DEPTH):
        raise BadInput(f"{clip(name)} is nested over {MAX_DEPTH} levels deep")
    return value


class Duplicate(Exception):
    """A key that an object has twice."""

    def __init__(self, key: str) -> None:
        self.key = key


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs of an object as a dictionary; no key twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Duplicate(key)
            seen.add(key)
    return found


def _position(text: str, key: str) -> str:
    first = text.find(f'"{key}"')
    second = text.find(f'"{key}"', first + 1)
    return f", again at line {text.count(chr(10), 0, second) + 1}" if second > first >= 0 else ""


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def _article(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
