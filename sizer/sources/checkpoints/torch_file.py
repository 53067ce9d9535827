"""PyTorch's files: a zip archive with a pickle and the storages, or, before 1.6, a row of pickles.

Format: `torch/serialization.py`. The pickle is parsed (`pickles.py`), never executed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, BinaryIO

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints import zips
from sizer.sources.checkpoints.files import opened, read_at, size_of
from sizer.sources.checkpoints.pickled_tensors import Storage, Walk, stored_tensors
from sizer.sources.checkpoints.pickles import CutOff, parse
from sizer.sources.checkpoints.stored import Contents

# The pickle of 25,000 tensors takes five megabytes.
MAX_PICKLE = 32_000_000
ZIP_START = b"PK\x03\x04"
# What a legacy file begins with: a pickle of the number 0x1950a86a20f9469cfc6c.
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C


def read(path: str) -> Contents:
    """The tensors of a `.bin`, `.pt`, `.pth` or `.ckpt` file."""
    size = size_of(path)
    with opened(path) as file:
        head = read_at(file, 0, 16)
        if head.startswith(ZIP_START):
            return _read_zip(file, size, path)
        if head.startswith(b"\x80"):
            return _read_legacy(file, size, path)
    if size == 0:
        raise BadInput(f"{clip(path)} is empty, so it is no PyTorch file; download it again")
    raise BadInput(f"{clip(path)} is no PyTorch file: it is neither a zip archive nor a pickle")


def _read_zip(file: BinaryIO, size: int, path: str) -> Contents:
    entries = zips.entries(file, size, path)
    pickles = [name for name in entries if name == "data.pkl" or name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise BadInput(f"{clip(path)} is a zip archive without a data.pkl, so it is no PyTorch file")
    prefix = pickles[0].removesuffix("data.pkl")
    data = zips.contents(file, entries[pickles[0]], path, MAX_PICKLE)
    walk = _walk(_whole(data, path), path)
    places: dict[str, Storage] = {}
    for storage in walk.storages():
        entry = entries.get(f"{prefix}data/{storage.key}")
        if entry is None:
            raise BadInput(
                f"{clip(path)}: the storage {clip(storage.key)} that its pickle names is not in it"
            )
        if entry.size != storage.bytes:
            raise BadInput(
                f"{clip(path)}: its pickle says {storage.bytes:,} bytes for storage {clip(storage.key)}, "
                f"the archive {entry.size:,}"
            )
        if entry.method == zips.STORED and entry.header + entry.size > size:
            raise BadInput(f"{clip(path)}: the storage {clip(storage.key)} lies beyond the file's end")
        places[storage.key] = storage
    return _contents(path, "pytorch", walk, places)


def _read_legacy(file: BinaryIO, size: int, path: str) -> Contents:
    # The second time as much as there may be, where the first is too little.
    for length in sorted({min(size, 4_000_000), min(size, MAX_PICKLE)}):
        with suppress(CutOff):
            return _legacy(read_at(file, 0, length), size, path)
    raise BadInput(
        f"{clip(path)} is cut off within its pickle, or that is over {MAX_PICKLE:,} bytes; download it again"
    )


def _legacy(data: bytes, size: int, path: str) -> Contents:
    """Pickles in a row: a magic number, a version, the system, the tensors, the keys of the storages."""
    magic, at = parse(data, path)
    if magic != LEGACY_MAGIC:
        _walk(magic, path)
        raise BadInput(
            f"{clip(path)} is a pickle without PyTorch's mark; sizer reads files that torch.save wrote"
        )
    _, at = parse(data, path, at)
    _, at = parse(data, path, at)
    root, at = parse(data, path, at)
    keys, at = parse(data, path, at)
    walk = _walk(root, path)
    places = {storage.key: storage for storage in walk.storages()}
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise BadInput(f"{clip(path)}: the list of its storages is no list of names")
    if set(places) - set(keys):
        raise BadInput(f"{clip(path)}: a storage that its pickle names is not in it")
    for key in keys:
        storage = places.get(key)
        if storage is None:
            # Of how many bytes is not known, nor where the next begins.
            break
        # Each storage is its number of elements, then its bytes.
        storage.offset = at + 8
        at += 8 + storage.bytes
    contents = _contents(path, "pytorch (before 1.6)", walk, places)
    if at > size and set(keys) == set(places):
        contents.problems.append(
            f"{os.path.basename(path)} is cut off: its pickle describes a file of {at:,} bytes, "
            f"{size:,} are here; download it again"
        )
    return contents


def _whole(data: bytes, path: str) -> Any:
    try:
        root, _ = parse(data, path)
    except CutOff:
        raise BadInput(f"{clip(path)}: its pickle ends early; download it again") from None
    return root


def _walk(root: Any, path: str) -> Walk:
    walk = Walk(path)
    walk.visit(root)
    return walk


def _contents(path: str, format: str, walk: Walk, places: dict[str, Storage]) -> Contents:
    stored, made = stored_tensors(walk, places, os.path.basename(path))
    contents = Contents(path, format, stored, files=[path])
    contents.made_of_tensors = made
    if walk.passed_over:
        names = list(walk.passed_over)
        more = f" and {len(names) - 3} more kinds" if len(names) > 3 else ""
        contents.remarks.append(
            f"{os.path.basename(path)} holds objects that are no tensors, passed over: "
            f"{', '.join(clip(name) for name in names[:3])}{more}"
        )
    if not stored and walk.passed_over:
        contents.problems.append(f"{os.path.basename(path)} holds no tensor that sizer can read")
    return contents
