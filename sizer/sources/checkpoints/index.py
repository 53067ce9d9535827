"""The index of Hugging Face: which file of a checkpoint has which tensor.

`model.safetensors.index.json` holds `weight_map`, tensor -> file, and `metadata`, which says
`total_size` in bytes and, of late, `total_parameters`. Both are what a file says of itself: they are
compared with what is read, never counted.
"""

from __future__ import annotations

import os
from collections import defaultdict
from functools import cached_property
from typing import Any

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints import scan
from sizer.sources.checkpoints.compact import are_unique, plain_lines
from sizer.sources.checkpoints.files import opened, read_at, size_of
from sizer.sources.checkpoints.shards import MAX_FILES, Reader, read_files
from sizer.sources.checkpoints.stored import MAX_TENSORS, Contents, Missing

MAX_INDEX = 50_000_000


def read_index(path: str, reader: Reader) -> Contents:
    """The files that an index names, compared with what it says of them."""
    weight_map, metadata = parse_index(path)
    whole = _as_listed(path, reader, weight_map)
    whole.metadata = {**metadata, **whole.metadata}
    whole.stated = {
        key: value
        for key in ("total_size", "total_parameters")
        if type(value := metadata.get(key)) is int and value >= 0
    }
    absent = {missing.file for missing in whole.missing}
    if absent:
        count = {file.decode(): len(names) for file, names in weight_map.listed.items()}
        whole.missing = [Missing(m.file, count.get(m.file), m.bytes) for m in whole.missing]
    _compare(whole, weight_map, absent, os.path.basename(path))
    return whole


class WeightMap:
    """The tensors of each file, as an index lists them from a place in its text."""

    def __init__(self, data: bytes, at: int, where: str) -> None:
        self._text = data, at, where
        found = scan.pairs(data, at, MAX_TENSORS)
        if found is None or plain_lines(list(found[1])) is None:
            found = self._scanned()
        # All names in turn; those under each file; the place after the map.
        self.names, self.listed, self.end = found

    def _scanned(self) -> tuple[list[bytes], scan.Inverse, int]:
        """The same, letter by letter: what is wrong is an error."""
        texts, after = scan.texts(*self._text, MAX_TENSORS)
        names = [name.encode() for name in texts]
        listed: dict[str, list[bytes]] = defaultdict(list)
        for name, file in zip(names, texts.values(), strict=True):
            listed[file].append(name)
        return names, {file.encode(): under for file, under in listed.items()}, after

    @cached_property
    def files(self) -> dict[bytes, bytes]:
        """The file of each tensor."""
        if not are_unique(self.names):
            self.names, self.listed, _ = self._scanned()
        found = dict.fromkeys(self.names, b"")
        for file, names in self.listed.items():
            found.update(dict.fromkeys(names, file))
        return found

    def agrees(self, parts: list[Contents]) -> bool:
        """Whether each file holds just what is listed under it, and nothing is listed twice."""
        if len(parts) != len(self.listed):
            return False
        for part in parts:
            listed, here = self.listed.get(os.path.basename(part.path).encode(), []), part.names()
            # Writers list names in the order of the files, or else sorted.
            if listed != here and sorted(listed) != sorted(here):
                return False
        return are_unique(self.names)


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


def _as_listed(path: str, reader: Reader, weight_map: WeightMap) -> Contents:
    """The files of an index, which may be anywhere beside it."""
    names = [file.decode() for file in weight_map.listed]
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
    here = {t.name.encode(errors="surrogatepass"): t.file.encode() for t in whole.stored}
    gone = {file.encode() for file in absent}
    due = [(name, file) for name, file in listed.files.items() if file not in gone]
    found = (
        (name for name, _ in due if name not in here),
        (name for name, file in due if here.get(name, file) != file),
        (name for name in here if name not in listed.files),
    )
    lost, moved, extra = ([name.decode(errors="replace") for name in names] for names in found)
    return lost, moved, extra
