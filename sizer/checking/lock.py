"""`sizer.lock`: the tensors behind the totals, so that a changed total can say which tensor changed.

JSON, a line a tensor, equal layers as one: `"h.{0-11}.ln_1.weight": "[768] norm"`. `sizer check --update`
writes it; a review of its diff shows what a change did to a model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sizer.checking.measured import Measured
from sizer.core.fold import fold, spread
from sizer.core.record import Record
from sizer.errors import BadInput, clip
from sizer.sources.config_text import read_text

VERSION = 1


class Locked(Record):
    """What was written of one model: parameters by component, and its tensors."""

    __slots__ = ("components", "tensors")

    def __init__(self, components: dict[str, int], tensors: dict[str, str]) -> None:
        self.components = components
        self.tensors = tensors


class Change(Record):
    """A tensor that came ("+"), went ("-"), or is another now ("~"); equal layers as one."""

    __slots__ = ("found", "locked", "name", "sign")

    def __init__(self, sign: str, name: str, locked: str, found: str) -> None:
        self.sign = sign
        self.name = name
        self.locked = locked
        self.found = found

    def __str__(self) -> str:
        what = " → ".join(text for text in (self.locked, self.found) if text)
        return f"{self.sign} {self.name}  {what}"


def read(path: str) -> dict[str, Locked]:
    """The lock beside a file of expectations; nothing where there is none."""
    if not os.path.exists(path):
        return {}
    import json

    try:
        document: Any = json.loads(read_text(path))
        if document["version"] != VERSION:
            raise BadInput(f"{clip(path)} is of version {clip(document['version'])}, and {VERSION} is read")
        return {
            str(name): Locked(_numbers(entry["components"]), _texts(entry["tensors"]))
            for name, entry in document["models"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadInput(
            f"{clip(path)} is no lock of sizer check; delete it, and sizer check --update writes it anew"
        ) from None


def _numbers(values: Mapping[str, Any]) -> dict[str, int]:
    if not all(type(value) is int for value in values.values()):
        raise TypeError
    return dict(values)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    if not all(type(value) is str for value in values.values()):
        raise TypeError
    return dict(values)


def text_of(models: Mapping[str, Locked]) -> str:
    """The text of a lock."""
    import json

    document = {
        "version": VERSION,
        "about": "written by sizer check --update: the tensors behind the totals",
        "models": {
            name: {"components": entry.components, "tensors": entry.tensors} for name, entry in models.items()
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def locked(found: Measured) -> Locked:
    """What is written of a model."""
    return Locked(found.components, found.tensors)


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[Change]:
    """Which tensors changed, name by name, folded again for people.

    >>> print(*changes({"h.{0-3}.b": "[8] mlp"}, {"h.{0-1,3}.b": "[8] mlp"}))
    - h.2.b  [8] mlp
    """
    # Most rows are the same on both sides; only those that are not need their names.
    old = {n: text for p, text in before.items() if now.get(p) != text for n in spread(p)}
    new = {n: text for p, text in now.items() if before.get(p) != text for n in spread(p)}
    pairs = [(name, (old.get(name, ""), new.get(name, ""))) for name in {**old, **new}]
    return [
        Change("~" if a and b else "-" if a else "+", name, a, b)
        for name, (a, b) in fold((name, pair) for name, pair in pairs if pair[0] != pair[1])
    ]
