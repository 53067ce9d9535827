"""Files from outside: opened only if they are regular, read in bounded pieces.

A path that begins with `hub:` names a file of a repository on a hub, which is read as a folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, TypeVar

from sizer.errors import BadInput, SizerError, UnknownName, clip, nearest
from sizer.sources.hub.target import is_hub

MAX_LISTED = 100_000
T = TypeVar("T")


def exists(path: str) -> bool:
    """Whether there is a file or a folder; a repository on a hub that there is none of is an error."""
    return is_folder(path) or is_file(path) if is_hub(path) else os.path.exists(path)


def is_file(path: str) -> bool:
    """Whether there is a file."""
    if not is_hub(path):
        return os.path.isfile(path)
    from sizer.sources.hub.repository import place

    repository, inside = place(path)
    return inside in repository.sizes


def is_folder(path: str) -> bool:
    """Whether there is a folder."""
    if not is_hub(path):
        return os.path.isdir(path)
    from sizer.sources.hub.repository import place

    repository, inside = place(path)
    return repository.is_folder(inside)


def no_file(path: str) -> SizerError:
    """That there is no such file; of a repository with the nearest that it has."""
    if not is_hub(path):
        return BadInput(f"there is no file {clip(path)!r}{_instead(path)}")
    from sizer.sources.hub.repository import place

    repository, inside = place(path)
    names = [name for name in repository.sizes if "/" not in name or "/" in inside]
    return UnknownName(f"file of {repository.where}", inside, names, hint=f"it has {len(names):,}")


def _instead(path: str) -> str:
    """What there is in place of a file that there is not."""
    folder, name = os.path.split(path.rstrip("/"))
    if folder and not os.path.isdir(folder):
        return f"; there is no folder {clip(folder)!r} either"
    try:
        near = nearest(name, names_in(folder or "."))
    except BadInput:
        return ""
    return f"; did you mean {clip(os.path.join(folder, near[0]))!r}?" if near else ""


def names_in(folder: str) -> list[str]:
    """The names of what is in a folder, sorted."""
    if is_hub(folder):
        from sizer.sources.hub.repository import place

        repository, inside = place(folder)
        return sorted(repository.names(inside))
    names = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > MAX_LISTED:
                    raise BadInput(f"{clip(folder)} holds over {MAX_LISTED:,} files; name the one to read")
    except OSError as error:
        raise BadInput(f"cannot read {clip(folder)}: {error.strerror}") from None
    return sorted(names)


def of_each(function: Callable[[str], T], paths: list[str]) -> Iterable[T]:
    """What a function answers for each of some files; those on a hub are read side by side."""
    if len(paths) > 1 and is_hub(paths[0]):
        from sizer.sources.hub.repository import in_parallel

        return in_parallel(function, paths)
    return map(function, paths)


def size_of(path: str) -> int:
    """The size of a regular file; anything else (a folder, a pipe, a device) is an error."""
    if is_hub(path):
        from sizer.sources.hub.repository import place

        repository, inside = place(path)
        if repository.is_folder(inside):
            raise BadInput(f"{clip(path)} is a folder, not a file of weights")
        if inside not in repository.sizes:
            raise no_file(path)
        return repository.size(inside)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise no_file(path) from None
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
    if is_hub(path):
        from sizer.sources.hub import repository

        return repository.opened(path)
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
        data = b""
        while len(data) < length and (more := file.read(length - len(data))):
            data += more
    except OSError as error:
        raise BadInput(f"cannot read {clip(file.name)}: {error.strerror}") from None
    return data


def small_value(path: str, offset: int, length: int) -> bytes:
    """The bytes of one small tensor, which says what the header does not: a shape, a state.

    None on a hub, where each would be a request of its own.
    """
    if is_hub(path):
        return b""
    with opened(path) as file:
        data = read_at(file, offset, length)
    return data if len(data) == length else b""


def json_file(path: str, most: int = 8_000_000) -> dict[str, Any] | None:
    """The object in a small JSON file, or `None` where there is no such file."""
    if not is_file(path):
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
