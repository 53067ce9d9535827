"""safetensors: a length, a JSON header, and the data.

Format: https://huggingface.co/docs/safetensors/index#format. The header is at most 100 MB, offsets
cover the data without holes, no key is twice; a file that breaks a rule is refused, as the library
of the format does. A file that ends early is read as far as its header goes.
"""

from __future__ import annotations

import os
import re
from itertools import accumulate
from operator import itemgetter, sub
from typing import Any

from sizer.errors import BadInput, UnknownName, clip
from sizer.sources.checkpoints import compact, scan
from sizer.sources.checkpoints.columns import Columns, Kind
from sizer.sources.checkpoints.files import opened, read_at, size_of
from sizer.sources.checkpoints.safetensors_types import DTYPES
from sizer.sources.checkpoints.stored import MAX_TENSORS, Contents, StoredTensor, elements_of

MAX_HEADER = 100_000_000
# What is read of those: 300,000 tensors with long names. The largest seen takes 30 MB.
MAX_READ = 50_000_000
# Tensors in a header that has to be read entry by entry.
MAX_SCANNED = 20_000
# What may be kept of the free texts of a header, and how many there may be.
MAX_METADATA = 4_000_000
MAX_TEXTS = 100_000

_METADATA = b'"__metadata__"'
_S = rb"[ \t\n\r]*+"
# An entry as every writer writes it: dtype, shape, offsets, in this order.
_ENTRY = (
    rb'%s"([^"\\\x00-\x1f]{0,4096}+)"%s:%s\{%s"dtype"%s:%s"([A-Z0-9_]{1,16})"%s,'
    rb'%s"shape"%s:%s\[([0-9, \t\n\r]{0,999}+)\]'
    rb'%s,%s"data_offsets"%s:%s\[%s([0-9]{1,19})%s,%s([0-9]{1,19})%s\]%s\}%s([,}])'.replace(b"%s", _S)
)


def read(path: str) -> Contents:
    """The tensors of one file."""
    size = size_of(path)
    name = os.path.basename(path)
    with opened(path) as file:
        head = read_at(file, 0, 8)
        length = int.from_bytes(head, "little")
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
        if length > MAX_READ:
            raise BadInput(
                f"{clip(path)} has a header of {length:,} bytes, over the {MAX_READ:,} that sizer reads"
            )
        header = read_at(file, 8, length)
    if not header.startswith(b"{"):
        raise BadInput(f"{clip(path)} is no safetensors file: its header is not a JSON object")
    found, metadata = parse(header, path, name)
    contents = Contents(path, "safetensors", metadata=metadata, files=[path])
    if isinstance(found, Columns):
        contents.columns = [found]
    else:
        contents.stored = found
    end = _checked(found, path, 8 + length, size - 8 - length)
    if end > size - 8 - length:
        contents.problems.append(
            f"{name} is cut off: its header describes {end:,} bytes of tensors, "
            f"{size - 8 - length:,} are here; download it again"
        )
    return contents


def parse(header: bytes, where: str, file: str) -> tuple[Columns | list[StoredTensor], dict[str, str]]:
    """The tensors and the metadata of a header.

    Headers are read column by column, as every writer writes them; the rare other one entry by entry.
    """
    metadata: dict[str, str] = {}
    at, last = scan.opening(header, 0, where)
    if not last and header.startswith(_METADATA, at):
        key, at = scan.key(header, at, where)
        # `null` and `{}` stand for none.
        metadata, at = scan.texts(header, at, f"{where}: {key}", MAX_TEXTS, MAX_METADATA)
        at, last = scan.ending(header, at, where)
    if last:
        if header[at:].strip(b" \t\n\r"):
            raise BadInput(f"{clip(where)}: text follows the header's object, at byte {at:,}")
        return [], metadata
    # The shortest entry has over forty bytes.
    if len(header) > 40 * MAX_TENSORS and header.count(b"{", at) > MAX_TENSORS:
        raise BadInput(f"{clip(where)} holds over {MAX_TENSORS:,} tensors, more than sizer reads")
    parts = compact.parts(header, at) or _spaced(header, at)
    if parts is not None:
        return _columns(parts, where, file, 8 + len(header)), metadata
    stored, more = _by_entry(header, at, where, file)
    _no_name_twice([tensor.name for tensor in stored], where)
    return stored, metadata | more


def _spaced(header: bytes, at: int) -> compact.Parts | None:
    """The parts of a header whose entries are of the usual form with spaces anywhere; else `None`."""
    entry = re.compile(_ENTRY)
    if entry.match(header, at) is None:
        return None
    # What stands between entries, then the six groups of an entry, again and again.
    parts = entry.split(header[at:])
    between, closes = parts[::7], parts[6::7]
    if any(between[:-1]) or between[-1].strip(b" \t\n\r") or not closes:
        return None
    if closes.pop() != b"}" or set(closes) - {b","}:
        return None
    # The pattern allows no control characters in a name.
    keys = [dtype + compact.SHAPE + dims for dtype, dims in zip(parts[2::7], parts[3::7], strict=True)]
    return b"\n".join(parts[1::7]), keys, list(map(int, parts[4::7])), list(map(int, parts[5::7]))


def _columns(parts: compact.Parts, where: str, file: str, start: int) -> Columns:
    """The tensors of a header's parts; `start` is where the data begins."""
    lines, keys, begins, ends = parts
    try:
        names = lines.decode().split("\n")
    except UnicodeDecodeError:
        raise BadInput(f"{clip(where)} holds a name that is not UTF-8") from None
    _no_name_twice(names, where)
    kinds: dict[bytes, Kind] = {}
    # In the order of the header, so that of several mistakes the first is said.
    for key, name in reversed(dict(zip(reversed(keys), reversed(names), strict=True)).items()):
        dtype, _, dims = key.partition(compact.SHAPE)
        kinds[key] = Kind(*_kind(dtype.decode("ascii", "replace"), _dims(dims, where, name), name, where))
    sizes = list(map({key: kind.bytes for key, kind in kinds.items()}.__getitem__, keys))
    if list(map(sub, ends, begins)) != sizes:
        i = next(i for i, size in enumerate(sizes) if ends[i] - begins[i] != size)
        raise _span(names[i], kinds[keys[i]], begins[i], ends[i], where)
    return Columns(file, lines, names, keys, kinds, sizes, list(map(start.__add__, begins)))


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


def _no_name_twice(names: list[str], where: str) -> None:
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadInput(
                f"{clip(where)} has the key {clip(name)!r} twice, so which tensor is meant is unclear"
            )
        seen.add(name)


def _dims(raw: bytes, where: str, name: str) -> tuple[int, ...]:
    if not raw.strip():
        return ()
    parts = [part.strip(b" \t\n\r") for part in raw.split(b",")] if len(raw) < 1000 else []
    try:
        dims = tuple(map(int, parts))
    except ValueError:
        dims = ()
    # Python reads `1_0` and `+1`, which are no numbers of JSON.
    if not dims or [b"%d" % size for size in dims] != parts:
        raise BadInput(f"{clip(where)}: the shape of {clip(name)} is not a list of whole numbers")
    return dims


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
    known = _kind(str(dtype), tuple(shape), name, where)
    if end - begin != known[3]:
        raise _span(name, Kind(*known), begin, end, where)
    return StoredTensor(name, *known, file, base + begin)


def _kind(dtype: str, shape: tuple[int, ...], name: str, where: str) -> tuple[tuple[int, ...], str, int, int]:
    """The shape, our name of the dtype, the elements and the bytes of a tensor."""
    known = DTYPES.get(dtype)
    if known is None:
        raise UnknownName("dtype", dtype, DTYPES, hint=f"of {clip(name)} in {clip(where)}")
    elements = elements_of(shape, f"{clip(where)}: {clip(name)}")
    if elements * known[1] % 8:
        raise BadInput(f"{clip(where)}: {clip(name)} of {dtype} {list(shape)} is no whole number of bytes")
    return shape, known[0], elements, elements * known[1] // 8


def _span(name: str, kind: Kind, begin: int, end: int, where: str) -> BadInput:
    return BadInput(
        f"{clip(where)}: {clip(name)} of {kind.dtype} {list(kind.shape)} takes {kind.bytes:,} bytes, "
        f"and its offsets [{begin}, {end}] span {end - begin:,}"
    )


def _checked(found: Columns | list[StoredTensor], where: str, start: int, room: int) -> int:
    """The end of the data, after a check that the tensors follow each other without hole or overlap."""
    if isinstance(found, Columns):
        begins, sizes = found.begins, found.sizes
    else:
        begins, sizes = [t.offset or 0 for t in found], [t.bytes for t in found]
    end: int = start + sum(sizes)
    # In order, as they nearly always are, each begins where those before it end.
    if [*begins, end] != list(accumulate(sizes, initial=start)):
        names = found.names if isinstance(found, Columns) else [t.name for t in found]
        at = start
        for begin, size, name in sorted(zip(begins, sizes, names, strict=True), key=itemgetter(0, 1)):
            if begin != at:
                how = "overlaps the tensor before it" if begin < at else "leaves a hole before it"
                raise BadInput(
                    f"{clip(where)}: {clip(name)} begins at byte {begin - start:,} of the data "
                    f"and {how}, which ends at byte {at - start:,}"
                )
            at += size
    if end - start < room:
        raise BadInput(
            f"{clip(where)}: {room - (end - start):,} bytes follow the last tensor, unknown to the header"
        )
    return end - start
