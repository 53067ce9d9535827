"""Checkpoints in several files: numbered names, and the index of Hugging Face.

An index (`model.safetensors.index.json`) holds `weight_map`, tensor -> file, and `metadata`, which
says `total_size` in bytes and, of late, `total_parameters`. Both are what a file says of itself:
they are compared with what is read, never counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints import scan
from sizer.sources.checkpoints.files import exists, is_file, lfs_size, of_each, opened, read_at, size_of
from sizer.sources.checkpoints.stored import MAX_TENSORS, Contents, Missing

MAX_INDEX = 50_000_000
# The most files a checkpoint has been published in is some 200.
MAX_FILES = 10_000
_NUMBERED = re.compile(r"^(?P<stem>.*)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})(?P<ending>\.[A-Za-z.]+)$")

Reader = Callable[[str], Contents]


def siblings(path: str) -> list[str]:
    """The paths of all files of a numbered set, this one among them.

    >>> siblings("a/m-00001-of-00002.gguf")
    ['a/m-00001-of-00002.gguf', 'a/m-00002-of-00002.gguf']
    >>> siblings("model.gguf")
    ['model.gguf']
    """
    folder, name = os.path.split(path)
    found = _NUMBERED.match(name)
    if found is None:
        return [path]
    count = int(found["count"])
    if count < 1 or count > MAX_FILES or not 0 <= int(found["number"]) <= count:
        return [path]
    # Nearly everyone numbers from one.
    first = 0 if found["number"] == "00000" else 1
    return [
        os.path.join(folder, f"{found['stem']}-{i:05d}-of-{found['count']}{found['ending']}")
        for i in range(first, count + first)
    ]


def index_beside(path: str) -> str | None:
    """The index that lists a numbered file, if it is there."""
    folder, name = os.path.split(path)
    found = _NUMBERED.match(name)
    if found is None:
        return None
    index = os.path.join(folder, f"{found['stem']}{found['ending']}.index.json")
    return index if is_file(index) else None


def read_files(
    path: str, format: str, files: Iterable[str], reader: Reader, index: dict[str, str] | None = None
) -> Contents:
    """The contents of several files together; those that are not here are missing.

    `index` says which file has which tensor, where something does.
    """
    whole = Contents(path, format, files=[path])
    whole.files.clear()
    for file in files:
        pointer = _pointer(file)
        if pointer is not None or not exists(file):
            whole.missing.append(Missing(os.path.basename(file), bytes=pointer))
        else:
            whole.files.append(file)
    parts: list[Contents] = []
    tensors = 0
    for part in of_each(reader, whole.files):
        parts.append(part)
        tensors += len(part)
        if tensors > MAX_TENSORS:
            raise BadInput(f"{clip(path)} holds over {MAX_TENSORS:,} tensors, more than sizer reads")
    whole.is_as_listed = index is not None and len(index) == tensors and _are_as_listed(parts, index)
    if not whole.is_as_listed:
        _keep_once(parts)
    for part in parts:
        whole.format = part.format
        for key, value in part.metadata.items():
            whole.metadata.setdefault(key, value)
        whole.missing += part.missing
        whole.problems += part.problems
        whole.remarks += part.remarks
        whole.made_of_tensors |= part.made_of_tensors
        whole.add(part)
    return whole


def _are_as_listed(parts: list[Contents], index: dict[str, str]) -> bool:
    """Whether each of as many tensors as an index lists is in the file that it says, and so in no other."""
    return all({os.path.basename(part.path)}.issuperset(map(index.get, part.names())) for part in parts)


def _keep_once(parts: list[Contents]) -> None:
    """Drop the tensors that an earlier file has too."""
    seen: set[str] = set()
    for part in parts:
        names = set(part.names())
        again = seen & names
        if again:
            more = f" and {len(again) - 1:,} more" if len(again) > 1 else ""
            part.problems.append(
                f"{min(again)}{more} in {os.path.basename(part.path)} is in another file too; "
                "it is counted once"
            )
            part.stored = [tensor for tensor in part.stored if tensor.name not in again]
        seen |= names


def _pointer(file: str) -> int | None:
    if not is_file(file) or size_of(file) > 1024:
        return None
    with opened(file) as opened_file:
        return lfs_size(read_at(opened_file, 0, 1024))


def read_index(path: str, reader: Reader) -> Contents:
    """The files that an index names, compared with what it says of them."""
    weight_map, metadata = parse_index(path)
    folder = os.path.dirname(path)
    names = list(dict.fromkeys(weight_map.values()))
    for name in names:
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise BadInput(f"{clip(path)} names the file {clip(name)!r}, which is not beside it")
    if len(names) > MAX_FILES:
        raise BadInput(f"{clip(path)} names {len(names):,} files, over {MAX_FILES:,}")
    paths = [os.path.join(folder, name) for name in names]
    whole = read_files(path, "safetensors", paths, reader, weight_map)
    whole.metadata = {**metadata, **whole.metadata}
    whole.stated = {
        key: value
        for key in ("total_size", "total_parameters")
        if type(value := metadata.get(key)) is int and value >= 0
    }
    absent = {missing.file for missing in whole.missing}
    if absent:
        count: dict[str, int] = {}
        for file in weight_map.values():
            count[file] = count.get(file, 0) + 1
        whole.missing = [Missing(m.file, count.get(m.file), m.bytes) for m in whole.missing]
    _compare(whole, weight_map, absent, os.path.basename(path))
    return whole


def _compare(whole: Contents, weight_map: dict[str, str], absent: set[str], index: str) -> None:
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
    whole: Contents, weight_map: dict[str, str], absent: set[str]
) -> tuple[list[str], list[str], list[str]]:
    """Tensors that are listed and not here, listed under another file, here and not listed."""
    here = {tensor.name: tensor.file for tensor in whole.stored}
    lost = [n for n, file in weight_map.items() if file not in absent and n not in here]
    moved = [n for n, file in weight_map.items() if file not in absent and here.get(n, file) != file]
    return lost, moved, [n for n in here if n not in weight_map]


def parse_index(path: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The map from tensors to files of an index, and its metadata."""
    size = size_of(path)
    if size > MAX_INDEX:
        raise BadInput(f"{clip(path)} is over {MAX_INDEX:,} bytes, too large for an index")
    with opened(path) as file:
        data = read_at(file, 0, size).removeprefix(b"\xef\xbb\xbf")
    weight_map: dict[str, str] | None = None
    metadata: dict[str, Any] = {}
    at, last = scan.opening(data, 0, path)
    while not last:
        key, at = scan.key(data, at, path)
        if key == "weight_map" and weight_map is None:
            weight_map, at = scan.texts(data, at, f"{path}: weight_map", MAX_TENSORS)
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
