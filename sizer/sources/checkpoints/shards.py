"""Checkpoints in several files, by their numbered names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from sizer.sources.checkpoints.columns import check_groups
from sizer.sources.checkpoints.files import exists, is_file, of_each, opened, read_at, size_of
from sizer.sources.checkpoints.stored import Contents, Missing, check_number
from sizer.sources.lfs import lfs_size

# The most files a checkpoint has been published in is some 200.
MAX_FILES = 10_000
_NUMBERED = re.compile(r"^(?P<stem>.*)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})(?P<ending>\.[A-Za-z.]+)$")

Reader = Callable[[str], Contents]
Agreement = Callable[[list[Contents]], bool]


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
    path: str, format: str, files: Iterable[str], reader: Reader, index: Agreement | None = None
) -> Contents:
    """The contents of several files together; those that are not here are missing.

    `index` answers whether the tensors are in the files that it says, where there is an index.
    """
    whole = Contents(path, format, files=[path])
    whole.files.clear()
    for file in files:
        pointer = _pointer(file)
        if pointer is not None or not exists(file):
            whole.missing.append(Missing(os.path.basename(file), bytes=pointer))
        else:
            whole.files.append(file)
    parts = read_each(reader, whole.files, path)
    whole.is_as_listed = index is not None and index(parts)
    if not whole.is_as_listed:
        _keep_once(parts)
    join(whole, parts)
    return whole


def read_each(reader: Reader, files: list[str], path: str) -> list[Contents]:
    """The contents of each of some files of a checkpoint, which together are not too many."""
    parts: list[Contents] = []
    tensors = 0
    for part in of_each(reader, files):
        parts.append(part)
        tensors += len(part)
        check_number(tensors, path)
        check_groups([columns for part in parts for columns in part.columns], path)
    return parts


def join(whole: Contents, parts: list[Contents]) -> None:
    """Append files to a checkpoint."""
    for part in parts:
        whole.format = part.format
        for key, value in part.metadata.items():
            whole.metadata.setdefault(key, value)
        whole.missing += part.missing
        whole.problems += part.problems
        whole.remarks += part.remarks
        whole.made_of_tensors |= part.made_of_tensors
        whole.add(part)


def _keep_once(parts: list[Contents]) -> None:
    """Drop the tensors that an earlier file has too."""
    seen: set[bytes] = set()
    for part in parts:
        names = set(part.names())
        again = {name.decode(errors="surrogatepass") for name in seen & names}
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
