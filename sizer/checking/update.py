"""`sizer check --update`: the totals of a file rewritten where they stand; comments and layout stay."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from sizer.checking import lock
from sizer.checking.check import Result
from sizer.checking.files import Watched
from sizer.checking.lock import Locked
from sizer.core.record import Record
from sizer.errors import BadInput, MissingExtra, clip


class Written(Record):
    """What an update wrote: `numbers` of totals in the file, and whether the lock is another now."""

    __slots__ = ("lock", "numbers")

    def __init__(self, numbers: int, lock: bool) -> None:
        self.numbers = numbers
        self.lock = lock


def update(watched: Watched, results: Iterable[Result], locks: Mapping[str, Locked]) -> Written:
    """Write what was found; an entry that could not be checked keeps what it has.

    An entry that expects nothing yet gets its `params`. Limits are nobody's to rewrite.
    """
    done = [result for result in results if result.measured is not None]
    numbers, text = _rewritten(watched, done)
    if text != watched.text:
        _write(watched.path, text)
    written = False
    if watched.lock:
        known = {entry.name for entry in watched.entries}
        now = {name: entry for name, entry in locks.items() if name in known}
        now |= {r.entry.name: lock.locked(r.measured) for r in done if r.measured is not None}
        order = [entry.name for entry in watched.entries if entry.name in now]
        fresh = lock.text_of({name: now[name] for name in order})
        if not os.path.exists(watched.lock_path) or fresh != lock.text_of(locks):
            _write(watched.lock_path, fresh)
            written = True
    return Written(numbers, written)


def _rewritten(watched: Watched, done: list[Result]) -> tuple[int, str]:
    stale = [r for r in done if _wanted(r)]
    if not stale:
        return 0, watched.text
    try:
        import tomlkit
    except ImportError:
        raise MissingExtra("check", "rewriting a file with its comments") from None
    document: Any = tomlkit.parse(watched.text)
    tables = document
    if os.path.basename(watched.path) == "pyproject.toml":
        tables = document["tool"]["sizer"]
    by_name = {_name(table): table for table in tables["model"]}
    numbers = 0
    for result in stale:
        table = by_name[result.entry.name]
        for quantity, value in _wanted(result).items():
            numbers += 1
            if value is None:
                del table["components"][quantity.partition(".")[2]]
            else:
                _set(table, quantity, value)
    return numbers, str(document.as_string())


def _wanted(result: Result) -> dict[str, int | None]:
    """The numbers of an entry that are to be others; `None` for a component that is no more."""
    entry, found = result.entry, result.measured
    assert found is not None
    if not entry.expected and not entry.limits:
        return {"params": found.value("params")}
    wanted: dict[str, int | None] = {d.quantity: d.found for d in result.differences if not d.limit}
    if any(quantity.startswith("components.") for quantity in entry.expected):
        # Who lists components lists what there is now.
        total = sum(v for k, v in entry.expected.items() if k.startswith("components."))
        if total == entry.expected.get("params", -1):
            wanted |= {
                f"components.{name}": n
                for name, n in found.components.items()
                if entry.expected.get(f"components.{name}") != n
            }
        wanted |= {f"components.{name}": None for name in _gone(result)}
    return wanted


def _gone(result: Result) -> list[str]:
    assert result.measured is not None
    listed = (q.partition(".")[2] for q in result.entry.expected if q.startswith("components."))
    return [name for name in listed if name not in result.measured.components]


def _set(table: Any, quantity: str, value: int) -> None:
    from tomlkit.items import Integer, Trivia

    group, _, name = quantity.rpartition(".")
    place = table[group] if group else table
    before = place.get(name)
    # Digits are grouped, unless whoever wrote the number did not group them.
    plain = before is not None and "_" not in before.as_string() and int(before) >= 1000
    place[name] = Integer(value, Trivia(), str(value) if plain else f"{value:_}")


def _name(table: Any) -> str:
    return str(
        next(table[key] for key in ("name", "preset", "config", "checkpoint", "factory") if key in table)
    )


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"cannot write {clip(path)}: {error.strerror}") from None
