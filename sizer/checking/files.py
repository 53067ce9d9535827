"""Where the entries are: `sizer.toml`, or `[tool.sizer]` of a `pyproject.toml`, each with its lines."""

from __future__ import annotations

import os
import re
from typing import Any

from sizer.checking.entries import Entry, entry_of
from sizer.core.record import Record
from sizer.errors import BadInput, SizerError, UnknownName, clip, shown
from sizer.sources.checkpoints.files import no_file
from sizer.sources.config_text import read_text

NAMES = ("sizer.toml", "pyproject.toml")
MOST_ENTRIES = 10_000
_HEADER = re.compile(r"\s*\[\[\s*(?:tool\s*\.\s*sizer\s*\.\s*)?model\s*\]\]")
_EXAMPLE = '[[model]] and preset = "gpt2-small"'


class Wrong(Record):
    """An entry that cannot be read: its name or number, its line, and why."""

    __slots__ = ("line", "name", "reason")

    def __init__(self, name: str, line: int, reason: str) -> None:
        self.name = name
        self.line = line
        self.reason = reason


class Watched(Record):
    """A file of expectations: its entries, those that are wrong, and whether it has a lock."""

    __slots__ = ("entries", "lock", "path", "text", "wrong")

    def __init__(self, path: str, text: str, entries: list[Entry], wrong: list[Wrong], lock: bool) -> None:
        self.path = path
        self.text = text
        self.entries = entries
        self.wrong = wrong
        self.lock = lock

    @property
    def folder(self) -> str:
        """The folder that paths in the file start from."""
        return os.path.dirname(os.path.abspath(self.path))

    @property
    def lock_path(self) -> str:
        """The file beside it that lists the tensors."""
        stem = os.path.splitext(os.path.basename(self.path))[0]
        return os.path.join(
            os.path.dirname(self.path), "sizer.lock" if stem == "pyproject" else f"{stem}.lock"
        )

    def line_of(self, entry: Entry, quantity: str) -> int:
        """The line of an expectation, or of its entry where it has none."""
        first = quantity.partition(".")[0]
        last = quantity.rpartition(".")[2]
        lines = self.text.splitlines()
        for number in range(entry.line, len(lines)):
            line = lines[number]
            if line.lstrip().startswith("[["):
                break
            if re.match(rf"\s*(?:{re.escape(first)}|{re.escape(last)})\b[\w.\s]*=", line):
                return number + 1
        return entry.line


def find(path: str | None = None) -> str:
    """The file to check: the one that is named, or the nearest from here up to the repository's root."""
    if path is not None:
        if os.path.isdir(path):
            return _in_folder(path) or _nothing(path)
        if not os.path.exists(path):
            raise no_file(path)
        return path
    folder = os.getcwd()
    while True:
        found = _in_folder(folder)
        if found is not None:
            return os.path.relpath(found)
        above = os.path.dirname(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            return _nothing(os.curdir)
        folder = above


def _in_folder(folder: str) -> str | None:
    for name in NAMES:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and (name == NAMES[0] or "tool.sizer" in read_text(path)):
            return path
    return None


def _nothing(folder: str) -> str:
    raise BadInput(
        f"no sizer.toml in {clip(folder)}, and no [tool.sizer] in a pyproject.toml; "
        f"write one that says {_EXAMPLE}"
    )


def read(path: str) -> Watched:
    """The entries of a file."""
    import tomllib

    text = read_text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at line (\d+), column \d+\)", str(error))
        line = f":{place[1]}" if place else ""
        said = str(error).replace(place[0], "") if place else str(error)
        raise BadInput(f"{clip(path)}{line}: not valid TOML: {clip(said)}") from None
    except (RecursionError, ValueError):
        raise BadInput(f"{clip(path)} is nested too deeply, or has a number with too many digits") from None
    if os.path.basename(path) == "pyproject.toml":
        for key in ("tool", "sizer"):
            document = document.get(key, {})
            if not isinstance(document, dict):
                raise BadInput(f"{clip(path)}: {key} is {shown(document)}, and not a table")
    return _watched(path, text, document)


def _watched(path: str, text: str, document: Any) -> Watched:
    for key in document:
        if key not in ("model", "lock"):
            raise UnknownName("key", key, ("model", "lock"), hint=f"in {clip(path)}")
    lock, tables = document.get("lock", True), document.get("model", [])
    if not isinstance(lock, bool):
        raise BadInput(f"{clip(path)}: lock is {shown(lock)}, and not true or false")
    if not isinstance(tables, list) or not tables:
        raise BadInput(f"{clip(path)} lists no models; begin with {_EXAMPLE}")
    if len(tables) > MOST_ENTRIES:
        raise BadInput(f"{clip(path)} lists {len(tables):,} models, and at most {MOST_ENTRIES:,} are read")
    entries: list[Entry] = []
    wrong: list[Wrong] = []
    first: dict[str, int] = {}
    for number, (table, line) in enumerate(zip(tables, _lines(text, len(tables)), strict=True), 1):
        try:
            entry = entry_of(table, line)
            if entry.name in first:
                raise BadInput(
                    f"{entry.name}: the name is taken at line {first[entry.name]}; give one of them a name"
                )
        except SizerError as error:
            wrong.append(Wrong(f"model {number}", line, str(error)))
        else:
            first[entry.name] = line
            entries.append(entry)
    return Watched(path, text, entries, wrong, lock)


def _lines(text: str, n: int) -> list[int]:
    """The line of each `[[model]]`; of the first, where they are written in another way."""
    found = []
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not inside and _HEADER.match(line):
            found.append(number)
        for quotes in ('"""', "'''"):
            if inside in ("", quotes) and line.count(quotes) % 2:
                inside = "" if inside else quotes
                break
    return found if len(found) == n else [1] * n
