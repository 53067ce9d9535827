"""The index of Hugging Face: which file of a checkpoint has which tensor.

`model.safetensors.index.json` holds `weight_map`, tensor -> file, and `metadata`, which says
`total_size` in bytes and, of late, `total_parameters`. Both are what a file says of itself: they are
compared with what is read, never counted.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache, cached_property
from typing import Any

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints import scan
from sizer.sources.checkpoints.compact import are_plain
from sizer.sources.checkpoints.files import exists, opened, read_at, size_of
from sizer.sources.checkpoints.shards import MAX_FILES, Reader, join, read_each, read_files, siblings
from sizer.sources.checkpoints.stored import MAX_TENSORS, Contents, Missing

MAX_INDEX = 50_000_000
# The first pair: its key, the colon, the file, the comma.
_FIRST = re.compile(rb'\{\s*"([^"\\]*)"(\s*:\s*)"([^"\\]*)"(\s*,\s*)"')


def read_index(path: str, reader: Reader) -> Contents:
    """The files that an index names, compared with what it says of them."""
    weight_map, metadata = parse_index(path)
    reader = cache(reader)
    whole = _as_numbered(path, reader, weight_map) or _as_listed(path, reader, weight_map)
    whole.metadata = {**metadata, **whole.metadata}
    whole.stated = {
        key: value
        for key in ("total_size", "total_parameters")
        if type(value := metadata.get(key)) is int and value >= 0
    }
    absent = {missing.file for missing in whole.missing}
    if absent:
        count = Counter(weight_map.files.values())
        whole.missing = [Missing(m.file, count.get(m.file.encode()), m.bytes) for m in whole.missing]
    _compare(whole, weight_map, absent, os.path.basename(path))
    return whole


class WeightMap:
    """The text of a weight map, which begins at a place in an index; parsed when asked for."""

    def __init__(self, data: bytes, at: int, where: str) -> None:
        self.data = data
        self.at = at
        self.where = where

    @cached_property
    def parsed(self) -> tuple[dict[bytes, bytes], int]:
        """The file of each tensor, and the place after the map."""
        found = scan.pairs(self.data, self.at, MAX_TENSORS)
        if found is not None:
            names, files, after = found
            weight_map = dict(zip(names, files, strict=True))
            if len(weight_map) == len(names) and all(map(are_plain, (names, list(set(files))))):
                return weight_map, after
        texts, after = scan.texts(self.data, self.at, self.where, MAX_TENSORS)
        return {name.encode(): file.encode() for name, file in texts.items()}, after

    @cached_property
    def end(self) -> int:
        """The place after the map."""
        end = self.data.find(b"}", self.at)
        # With all quotes of all pairs before it, the first brace is the one that closes the map.
        plain = end > 0 and self.data.count(b'"', self.at, end) % 4 == 0
        return end + 1 if plain else self.parsed[1]

    @property
    def files(self) -> dict[bytes, bytes]:
        """The file of each tensor."""
        return self.parsed[0]

    def agrees(self, parts: list[Contents]) -> bool:
        """Whether the tensors of some files are as many as are listed, and each in the file that is said."""
        return len(self.files) == sum(map(len, parts)) and all(part.are_in(self.files) for part in parts)

    def first(self) -> re.Match[bytes] | None:
        """The first pair and the comma after it, as they are written."""
        return _FIRST.match(self.data, self.at)

    def lists_exactly(self, parts: list[Contents]) -> bool:
        """Whether it says, in one way of writing throughout, what the files hold; else it has to be parsed.

        Its text is split into lines of a pair each, and they are those that the files make.
        """
        first = self.first()
        if first is None or not all(part.columns for part in parts):
            return False
        _, colon, _, comma = first.groups()
        text = self.data[first.start(1) : self.end - 1].rstrip(scan.SPACES)
        lines = text.removesuffix(b'"').split(b'"%b"' % comma)
        made: list[bytes] = []
        names: set[bytes] = set()
        for part in parts:
            pair = b'"%b"%b\n' % (colon, os.path.basename(part.path).encode())
            for columns in part.columns:
                made += (columns.lines.replace(b"\n", pair) + pair[:-1]).split(b"\n")
                names.update(columns.names)
        if not len(names) == len(made) == len(lines):
            return False
        # Both are sorted already, or nearly, where writers sort names.
        made.sort()
        lines.sort()
        return made == lines


def parse_index(path: str) -> tuple[WeightMap, dict[str, Any]]:
    """The weight map of an index, and its metadata."""
    size = size_of(path)
    if size > MAX_INDEX:
        raise BadInput(f"{clip(path)} is over {MAX_INDEX:,} bytes, too large for an index")
    with opened(path) as file:
        data = read_at(file, 0, size).removeprefix(b"\xef\xbb\xbf")
    weight_map: WeightMap | None = None
    metadata: dict[str, Any] = {}
    at, last = scan.opening(data, 0, path)
    while not last:
        key, at = scan.key(data, at, path)
        if key == "weight_map" and weight_map is None:
            weight_map = WeightMap(data, at, f"{path}: weight_map")
            at = weight_map.end
        elif key == "weight_map":
            raise BadInput(f"{clip(path)} has the key 'weight_map' twice")
        else:
            found, at = scan.value(data, at, path)
            if key == "metadata" and isinstance(found, dict):
                metadata = found
        at, last = scan.ending(data, at, path)
    if weight_map is None:
        raise BadInput(f"{clip(path)} has no weight_map, so it is not the index of a checkpoint")
    return weight_map, metadata


def _as_numbered(path: str, reader: Reader, weight_map: WeightMap) -> Contents | None:
    """The set of numbered files of which the index names one, where it lists just what they hold."""
    first = weight_map.first()
    if first is None:
        return None
    name = first[3].decode(errors="replace")
    files = siblings(os.path.join(os.path.dirname(path), os.path.basename(name)))
    if len(files) == 1 or not all(map(exists, files)):
        return None
    parts = read_each(reader, files, path)
    if not weight_map.lists_exactly(parts):
        return None
    whole = Contents(path, "safetensors", files=files)
    whole.is_as_listed = True
    join(whole, parts)
    return whole


def _as_listed(path: str, reader: Reader, weight_map: WeightMap) -> Contents:
    """The files of an index, which may be anywhere beside it."""
    names = [file.decode() for file in dict.fromkeys(weight_map.files.values())]
    for name in names:
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise BadInput(f"{clip(path)} names the file {clip(name)!r}, which is not beside it")
    if len(names) > MAX_FILES:
        raise BadInput(f"{clip(path)} names {len(names):,} files, over {MAX_FILES:,}")
    paths = [os.path.join(os.path.dirname(path), name) for name in names]
    return read_files(path, "safetensors", paths, reader, weight_map.agrees)


def _compare(whole: Contents, weight_map: WeightMap, absent: set[str], index: str) -> None:
    """Say where an index contradicts the files it names."""
    lost, moved, extra = ([], [], []) if whole.is_as_listed else _differences(whole, weight_map, absent)
    for names, what in (
        (lost, f"{index} lists {{}} that its file does not hold"),
        (moved, f"{index} lists {{}} under another file than the one that holds it"),
        (extra, f"{index} leaves out {{}} that its files hold"),
    ):
        if names:
            more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
            whole.problems.append(what.format(clip(names[0]) + more))
    total = whole.stated.get("total_size")
    stored = whole.bytes
    if total is not None and not whole.missing and not whole.problems and total != stored:
        # Writers differ in what they add up: a tied tensor twice, buffers, the files themselves.
        whole.remarks.append(f"{index} states a total_size of {total:,} bytes; its tensors take {stored:,}")


def _differences(
    whole: Contents, listed: WeightMap, absent: set[str]
) -> tuple[list[str], list[str], list[str]]:
    """Tensors that are listed and not here, listed under another file, here and not listed."""
    weight_map = {name.decode(): file.decode() for name, file in listed.files.items()}
    here = {tensor.name: tensor.file for tensor in whole.stored}
    lost = [n for n, file in weight_map.items() if file not in absent and n not in here]
    moved = [n for n, file in weight_map.items() if file not in absent and here.get(n, file) != file]
    return lost, moved, [n for n in here if n not in weight_map]
