"""Files from outside: opened only if they are regular, read in bounded pieces."""

from __future__ import annotations

import os
import stat
from typing import Any, BinaryIO

from sizer.errors import BadInput, clip

LFS_START = b"version https://git-lfs.github.com/spec/"


def size_of(path: str) -> int:
    """The size of a regular file; anything else (a folder, a pipe, a device) is an error."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise BadInput(f"there is no file {clip(path)!r}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInput(f"cannot read {clip(path)}: {reason}") from None
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a device or a pipe"
        raise BadInput(f"{clip(path)} is {kind}, not a file of weights")
    return found.st_size


def opened(path: str) -> BinaryIO:
    """A regular file, open for reading without a buffer of its own."""
    size_of(path)
    try:
        return open(path, "rb", buffering=0)
    except PermissionError:
        raise BadInput(f"no permission to read {clip(path)}") from None
    except OSError as error:
        raise BadInput(f"cannot read {clip(path)}: {error.strerror}") from None


def read_at(file: BinaryIO, offset: int, length: int) -> bytes:
    """Up to `length` bytes from a place in a file; fewer only at its end."""
    try:
        file.seek(offset)
        data = file.read(length)
        while len(data) < length:
            more = file.read(length - len(data))
            if not more:
                break
            data += more
    except OSError as error:
        raise BadInput(f"cannot read {clip(file.name)}: {error.strerror}") from None
    return data


def small_value(path: str, offset: int, length: int) -> bytes:
    """The bytes of one small tensor, which says what the header does not: a shape, a state."""
    if length > 65_536:
        return b""
    with opened(path) as file:
        data = read_at(file, offset, length)
    return data if len(data) == length else b""


def lfs_size(head: bytes) -> int | None:
    """The size in a Git LFS pointer, a small text that stands for a file not downloaded.

    https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md

    >>> lfs_size(b"version https://git-lfs.github.com/spec/v1\\noid sha256:4d7a\\nsize 548105171\\n")
    548105171
    """
    if not head.startswith(LFS_START):
        return None
    for line in head[:1024].splitlines():
        key, _, value = line.partition(b" ")
        if key == b"size" and value.isdigit() and len(value) < 20:
            return int(value)
    return 0


def json_file(path: str, most: int = 8_000_000) -> dict[str, Any] | None:
    """The object in a small JSON file, or `None` where there is no such file."""
    if not os.path.isfile(path):
        return None
    from sizer.sources.json_text import parse_object

    if size_of(path) > most:
        raise BadInput(f"{clip(path)} is over {most:,} bytes, too large for a configuration")
    with opened(path) as file:
        data = read_at(file, 0, most)
    try:
        return parse_object(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError:
        raise BadInput(f"{clip(path)} is not text, so it is no configuration") from None
