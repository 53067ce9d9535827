"""Many models at once: presets, a folder of configurations, or a file with one on each line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from sizer.core.record import Record
from sizer.errors import BadInput, InvalidConfig, SizerError, clip, printable
from sizer.model import Model
from sizer.planning.sweeping.axes import Axis, axis_of
from sizer.planning.sweeping.chunk import Chunk, Errors
from sizer.planning.sweeping.grid import Box, boxes
from sizer.planning.sweeping.sweep import CHUNK, MAX_POINTS, Sweep, at_once, measures

# Of a folder; a tree of files that is larger is not one of configurations.
MAX_FILES = 1_000_000
# What stands beside a configuration and is none.
OTHERS = ("tokenizer", "generation", "special_tokens", "preprocessor", "processor", "added_tokens", "vocab")
LINES = (".jsonl", ".ndjson")
# In a line that is longer, nobody looks for the name of its model.
MAX_NAMED = 1_000_000


class Entry(Record):
    """A model that is still to be read: by the name of a preset, by a path, or a line of a file."""

    __slots__ = ("kind", "name", "text")

    def __init__(self, kind: str, name: str, text: bytes = b"") -> None:
        self.kind = kind
        self.name = name
        self.text = text

    def load(self) -> Model:
        """The model."""
        from sizer import loading

        if self.kind == "preset":
            return loading.from_preset(self.name)
        if self.kind == "path":
            return loading.from_path(self.name)
        return loading.from_bytes(self.text, name=self.name)


class Registry:
    """Some models, each over the same grid; a model that cannot be read is a row with an error."""

    def __init__(
        self,
        models: str | Sequence[str],
        axes: Mapping[str, Any] | None = None,
        what: Sequence[str] = ("params",),
        *,
        settings: Mapping[str, Any] | None = None,
        max_points: int = MAX_POINTS,
        chunk: int = CHUNK,
    ) -> None:
        self.models = models
        self.given = dict(axes or {})
        self.what = measures(what)
        self.settings = dict(settings or {})
        self.max_points = max_points
        self.chunk_points = at_once(self.what, chunk)
        self.axes: list[Axis] = [axis_of(*pair) for pair in self.given.items()]
        self.lengths = tuple(len(axis) for axis in self.axes)
        if prod(self.lengths) > max_points:
            raise InvalidConfig(
                f"a grid of {prod(self.lengths):,} points for each model is more than {max_points:,}; "
                "take larger steps, or allow it with --max-points"
            )
        self._last: tuple[Entry, Sweep | SizerError] | None = None
        check(models)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}

    @property
    def names(self) -> list[str]:
        """The columns, without that of errors."""
        return ["model", *(axis.name for axis in self.axes), *self.what]

    @property
    def size(self) -> int | None:
        """How many points there are; of a file with a model on each line nobody knows before the end."""
        return None

    def boxes(self) -> Iterator[tuple[Entry, Box]]:
        """The boxes of each model's grid, one model after the other."""
        for entry in entries(self.models):
            for box in boxes(self.lengths, self.chunk_points):
                yield entry, box

    def chunk(self, part: tuple[Entry, Box]) -> Chunk:
        """The points of one box of one model's grid."""
        entry, box = part
        constants = {"model": entry.name}
        found = self._sweep(entry)
        try:
            if isinstance(found, SizerError):
                raise found
            chunk = found.chunk(box)
        except SizerError as error:
            if any(first for first, _ in box):
                return Chunk((0,), {}, {}, Errors(), constants)
            errors = Errors()
            errors.codes = errors.code(str(error).removeprefix(f"{entry.name}: "))
            return Chunk((1,), {}, {}, errors, constants)
        # Under the names that were asked for, whatever the model calls them.
        chunk.axes = dict(zip(self.given, chunk.axes.values(), strict=True))
        chunk.constants = constants
        return chunk

    def chunks(self) -> Iterator[Chunk]:
        """All points, in order."""
        return map(self.chunk, self.boxes())

    def _sweep(self, entry: Entry) -> Sweep | SizerError:
        if self._last is None or self._last[0] is not entry:
            try:
                found: Sweep | SizerError = Sweep(
                    entry.load(),
                    self.given,
                    self.what,
                    settings=self.settings,
                    max_points=self.max_points,
                    chunk=self.chunk_points,
                )
            except SizerError as error:
                found = error
            self._last = (entry, found)
        return self._last[1]


def check(models: str | Sequence[str]) -> None:
    """Refuse a registry that is no folder, file or list of names, before anything is written."""
    if isinstance(models, str) and models != "all" and not os.path.exists(models):
        if models.startswith((".", "/", "~")) or models.endswith((*LINES, ".json", ".toml")):
            raise BadInput(f"there is no file or folder {clip(models)!r}")
        if "," not in models:
            from sizer.sources.presets import preset

            preset(models)
    if next(entries(models), None) is None:
        raise BadInput(
            f"{clip(str(models))} names no model; give presets, or a folder or file of configurations"
        )


def entries(models: str | Sequence[str]) -> Iterator[Entry]:
    """The models of a folder, of a file, of a list of names with commas between, or all presets."""
    from sizer.sources.presets import presets

    if not isinstance(models, str):
        yield from (_named(str(name)) for name in models)
    elif models == "all":
        yield from (Entry("preset", found.name) for found in presets())
    elif os.path.isdir(models):
        yield from _in_folder(models)
    elif models.endswith(LINES):
        yield from _in_lines(models)
    else:
        yield from (_named(name.strip()) for name in models.split(",") if name.strip())


def _named(name: str) -> Entry:
    return Entry("path" if os.path.exists(name) else "preset", name)


def _in_folder(folder: str) -> Iterator[Entry]:
    seen = 0
    for path, folders, files in os.walk(folder):
        folders.sort()
        mine = ["config.json"] if "config.json" in files else sorted(files)
        for file in mine:
            seen += 1
            if seen > MAX_FILES:
                raise BadInput(f"{clip(folder)} holds more than {MAX_FILES:,} files")
            if file.endswith((".json", ".toml", ".yaml", ".yml")) and not file.startswith(OTHERS):
                yield Entry("path", os.path.join(path, file))


def _in_lines(path: str) -> Iterator[Entry]:
    from sizer.sources.config_text import MAX_CONFIG_BYTES

    with open(path, "rb") as file:
        number = 0
        while line := file.readline(MAX_CONFIG_BYTES + 1):
            number += 1
            rest = line
            while len(rest) > MAX_CONFIG_BYTES and not rest.endswith(b"\n"):
                # Of a line that is too long, which the reader refuses, the rest is skipped.
                rest = file.readline(MAX_CONFIG_BYTES + 1)
            if line.strip():
                yield _of_line(line, f"{os.path.basename(path)}:{number}")


def _of_line(line: bytes, place: str) -> Entry:
    """A configuration, perhaps with a name beside it, or the name of a preset."""
    import json

    try:
        values = json.loads(line) if len(line) < MAX_NAMED else None
    except (ValueError, RecursionError):
        values = None
    if isinstance(values, str):
        return Entry("preset", clip(printable(values)))
    if not isinstance(values, dict):
        return Entry("line", place, line)
    names = (values.get(key) for key in ("name", "model", "_name_or_path"))
    name = next((clip(printable(name)) for name in names if isinstance(name, str) and name), place)
    if isinstance(values.get("config"), dict) and "model_type" not in values:
        line = json.dumps(values["config"]).encode()
    return Entry("line", name, line)
