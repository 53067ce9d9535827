"""safetensors: a length, a JSON header, and the data.

Format: https://huggingface.co/docs/safetensors/index#format. The header is at most 100 MB, offsets
cover the data without holes, no key is twice; a file that breaks a rule is refused, as the library
of the format does. A file that ends early is read as far as its header goes.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from itertools import accumulate, compress
from operator import add, not_
from typing import Any, BinaryIO

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints import entries, scan
from sizer.sources.checkpoints.columns import Columns
from sizer.sources.checkpoints.files import opened, read_at, size_of
from sizer.sources.checkpoints.stored import Contents, StoredTensor

MAX_HEADER = 100_000_000
# Tensors in a header that has to be read entry by entry.
MAX_SCANNED = 20_000
# What may be kept of the free texts of a header, and how many there may be.
MAX_METADATA = 4_000_000
MAX_TEXTS = 100_000

_METADATA = b'"__metadata__"'


def read(path: str) -> Contents:
    """The tensors of one file."""
    size = size_of(path)
    name = os.path.basename(path)
    with opened(path) as file:
        length = _header_length(file, path, size)
        found, metadata = parse(file, length, path, name)
    contents = Contents(path, "safetensors", metadata=metadata, files=[path])
    contents.columns, stored = found
    if stored:
        contents.stored = stored
    end = _checked(contents, path, 8 + length, size - 8 - length)
    if end > size - 8 - length:
        contents.problems.append(
            f"{name} is cut off: its header describes {end:,} bytes of tensors, "
            f"{size - 8 - length:,} are here; download it again"
        )
    return contents


def _header_length(file: BinaryIO, path: str, size: int) -> int:
    length = int.from_bytes(read_at(file, 0, 8), "little")
    if size == 0:
        raise BadInput(f"{clip(path)} is empty, so it is no safetensors file; download it again")
    if size < 10:
        raise BadInput(f"{clip(path)} has {size} bytes, too few for a safetensors file")
    if length > MAX_HEADER:
        raise BadInput(
            f"{clip(path)} claims a header of {length:,} bytes, over the {MAX_HEADER:,} "
            "that safetensors allows"
        )
    if length > size - 8:
        raise BadInput(
            f"{clip(path)} is cut off within its header: {length:,} bytes of header, "
            f"{size - 8:,} bytes in the file; download it again"
        )
    return length


def parse(
    file: BinaryIO, length: int, where: str, name: str
) -> tuple[tuple[list[Columns], list[StoredTensor]], dict[str, str]]:
    """The tensors of a header, in columns or as objects, and its metadata.

    Headers are read column by column, as every writer writes them; the rare other one entry by entry.
    """
    header = read_at(file, 8, min(length, scan.WINDOW))
    if not header.startswith(b"{"):
        raise BadInput(f"{clip(where)} is no safetensors file: its header is not a JSON object")
    try:
        metadata, at, last = _metadata(header, where)
    except BadInput:
        if len(header) == length:
            raise
        # Free texts that are longer than a window.
        header = read_at(file, 8, length)
        metadata, at, last = _metadata(header, where)

    def text(begin: int, most: int) -> bytes:
        if begin < len(header):
            return header[begin : begin + most]
        return read_at(file, 8 + begin, min(most, length - begin))

    if not last:
        found = entries.columns(text, at, length, where, name)
        if found is not None:
            return (found, []), metadata
    header = read_at(file, 8, length)
    if last:
        if header[at:].strip(scan.SPACES):
            raise BadInput(f"{clip(where)}: text follows the header's object, at byte {at:,}")
        return ([], []), metadata
    stored, more = _by_entry(header, at, where, name)
    names: set[str] = set()
    for tensor in stored:
        if tensor.name in names:
            raise entries.twice(tensor.name, where)
        names.add(tensor.name)
    return ([], stored), metadata | more


def _metadata(header: bytes, where: str) -> tuple[dict[str, str], int, bool]:
    """The free texts that a header begins with, the place after them, and whether it is the last."""
    metadata: dict[str, str] = {}
    at, last = scan.opening(header, 0, where)
    if not last and header.startswith(_METADATA, at):
        key, at = scan.key(header, at, where)
        # `null` and `{}` stand for none.
        metadata, at = scan.texts(header, at, f"{where}: {key}", MAX_TEXTS, MAX_METADATA)
        at, last = scan.ending(header, at, where)
    return metadata, at, last


def _by_entry(header: bytes, at: int, where: str, file: str) -> tuple[list[StoredTensor], dict[str, str]]:
    """The tensors and the metadata of a header in any order, with any spaces."""
    stored: list[StoredTensor] = []
    metadata: dict[str, str] | None = None
    base, last = 8 + len(header), False
    while not last:
        name, at = scan.key(header, at, where)
        if name == "__metadata__" and metadata is None:
            metadata, at = scan.texts(header, at, f"{where}: {name}", MAX_TEXTS, MAX_METADATA)
        else:
            entry, at = scan.value(header, at, where)
            stored.append(_tensor(name, entry, where, base, file))
        at, last = scan.ending(header, at, where)
        if len(stored) > MAX_SCANNED:
            raise BadInput(
                f"{clip(where)} holds over {MAX_SCANNED:,} tensors in a header that is unlike any "
                "writer's, more than sizer reads"
            )
    if header[at:].strip(b" \t\n\r"):
        raise BadInput(f"{clip(where)}: text follows the header's object, at byte {at:,}")
    return stored, metadata or {}


def _tensor(name: str, entry: Any, where: str, base: int, file: str) -> StoredTensor:
    """An entry in any order of its keys."""
    what = f"{clip(where)}: {clip(name)}"
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= set(entry):
        raise BadInput(f"{what} is not an object with dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise BadInput(f"{what}: the shape {clip(shape)} is not a list of whole numbers")
    if not (
        isinstance(offsets, list) and len(offsets) == 2 and all(type(o) is int and o >= 0 for o in offsets)
    ):
        raise BadInput(f"{what}: data_offsets {clip(offsets)} are not two whole numbers")
    begin, end = offsets
    known = entries.kind(str(dtype), tuple(shape), name, where)
    if end - begin != known.bytes:
        raise entries.span(name, known, begin, end, where)
    return known.tensor(name, file, base + begin)


def _checked(found: Contents, where: str, start: int, room: int) -> int:
    """The end of the data, after a check that the tensors follow each other without hole or overlap."""
    size = found.bytes
    # Columns without places of their own follow each other from the start.
    if not found.columns or any(columns.begins is not None for columns in found.columns):
        _no_holes(found, where, start)
    if size < room:
        raise BadInput(f"{clip(where)}: {room - size:,} bytes follow the last tensor, unknown to the header")
    return size


def _no_holes(found: Contents, where: str, start: int) -> None:
    if found.columns and found.bytes < 2**63 and _follow(found.columns, start):
        return
    places = [place for columns in found.columns for place in columns.places()]
    places = places or [(t.offset or 0, t.bytes) for t in found.stored]
    at = start
    for i in sorted(range(len(places)), key=places.__getitem__):
        begin, size = places[i]
        if begin != at:
            how = "overlaps the tensor before it" if begin < at else "leaves a hole before it"
            name = found.names()[i].decode()
            raise BadInput(
                f"{clip(where)}: {clip(name)} begins at byte {begin - start:,} of the data "
                f"and {how}, which ends at byte {at - start:,}"
            )
        at += size


def _follow(columns: list[Columns], start: int) -> bool:
    """Whether tensors that hold something follow each other, and those that hold nothing lie between them.

    One begins just where another ends, so that at every byte one more has begun than has ended.
    """
    begins, ends = array("Q"), array("Q", [start])
    empty: set[int] = set()
    for one in columns:
        sizes = one.sizes
        places = one.begins or list(accumulate(sizes[:-1], initial=one.start))
        begins.extend(compress(places, sizes))
        ends.extend(compress(map(add, places, sizes), sizes))
        empty.update(compress(places, map(not_, sizes)))
    begins, ends = array("Q", sorted(begins)), array("Q", sorted(ends))
    if begins != ends[:-1]:
        return False
    return all(ends[min(bisect_left(ends, at), len(begins))] == at for at in empty)
