"""The directory of a zip archive, read in bounded memory.

Format: APPNOTE.TXT of PKWARE, with the 64-bit fields that PyTorch writes.
"""

from __future__ import annotations

from struct import unpack_from
from typing import BinaryIO

from sizer.core.record import Record
from sizer.errors import BadInput, clip
from sizer.sources.checkpoints.files import read_at

MAX_DIRECTORY = 20_000_000
MAX_ENTRIES = 100_000
STORED, DEFLATED = 0, 8


class Entry(Record):
    """A file in an archive: how it is packed, its sizes, and where its local header is."""

    __slots__ = ("header", "method", "packed", "size")

    def __init__(self, method: int, packed: int, size: int, header: int) -> None:
        self.method = method
        self.packed = packed
        self.size = size
        self.header = header


def entries(file: BinaryIO, size: int, path: str) -> dict[str, Entry]:
    """The files of an archive by name."""
    where = clip(path)
    at, length, count = _directory(file, size, where)
    if length > MAX_DIRECTORY or count > MAX_ENTRIES:
        raise BadInput(f"{where} is an archive of {count:,} files, more than sizer reads")
    if at + length > size or count * 46 > length:
        raise BadInput(f"{where} is not a valid zip archive: its directory is beyond its end")
    data = read_at(file, at, length)
    found: dict[str, Entry] = {}
    pos = 0
    for _ in range(count):
        if data[pos : pos + 4] != b"PK\x01\x02" or pos + 46 > len(data):
            raise BadInput(f"{where} is not a valid zip archive: its directory is broken")
        method, packed, full, n_name, n_extra, n_comment, header = unpack_from("<10xH8xIIHHH8xI", data, pos)
        name = data[pos + 46 : pos + 46 + n_name].decode("utf-8", "replace")
        extra = data[pos + 46 + n_name : pos + 46 + n_name + n_extra]
        full, packed, header = _wide(extra, full, packed, header)
        if name in found:
            raise BadInput(f"{where} is an archive with {clip(name)!r} twice")
        found[name] = Entry(method, packed, full, header)
        pos += 46 + n_name + n_extra + n_comment
    return found


def _directory(file: BinaryIO, size: int, where: str) -> tuple[int, int, int]:
    """Where the central directory is, its length, and its entries."""
    begin = max(0, size - 65_557)
    tail = read_at(file, begin, size - begin)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + 22 > len(tail):
        raise BadInput(
            f"{where} is cut off: a zip archive ends with a directory, and there is none; download it again"
        )
    count, length, start = unpack_from("<10xHII", tail, at)
    if count == 0xFFFF or length == 0xFFFFFFFF or start == 0xFFFFFFFF:
        locator = tail[at - 20 : at] if at >= 20 else b""
        if locator[:4] != b"PK\x06\x07":
            raise BadInput(f"{where} is not a valid zip archive: its 64-bit directory is missing")
        (place,) = unpack_from("<8xQ", locator)
        record = read_at(file, place, 56) if place + 56 <= size else b""
        if record[:4] != b"PK\x06\x06":
            raise BadInput(f"{where} is not a valid zip archive: its 64-bit directory is missing")
        count, length, start = unpack_from("<32xQQQ", record)
    return start, length, count


def _wide(extra: bytes, full: int, packed: int, header: int) -> tuple[int, int, int]:
    """The 64-bit values of those that did not fit 32 bits."""
    pos = 0
    while pos + 4 <= len(extra):
        kind, length = unpack_from("<HH", extra, pos)
        if kind == 1:
            field = extra[pos + 4 : pos + 4 + length]
            values = [unpack_from("<Q", field, i)[0] for i in range(0, len(field) - 7, 8)]
            values.reverse()
            if full == 0xFFFFFFFF and values:
                full = values.pop()
            if packed == 0xFFFFFFFF and values:
                packed = values.pop()
            if header == 0xFFFFFFFF and values:
                header = values.pop()
            break
        pos += 4 + length
    return full, packed, header


def data_offset(file: BinaryIO, entry: Entry, path: str) -> int:
    """Where the bytes of a file in an archive begin."""
    local = read_at(file, entry.header, 30)
    if local[:4] != b"PK\x03\x04" or len(local) < 30:
        raise BadInput(
            f"{clip(path)} is not a valid zip archive: a file in it is not where the directory says"
        )
    n_name, n_extra = unpack_from("<26xHH", local)
    return int(entry.header + 30 + n_name + n_extra)


def contents(file: BinaryIO, entry: Entry, path: str, most: int) -> bytes:
    """The bytes of a file in an archive, of at most `most`."""
    if entry.size > most or entry.packed > most:
        raise BadInput(
            f"{clip(path)}: a file in it takes {max(entry.size, entry.packed):,} bytes, over {most:,}"
        )
    raw = read_at(file, data_offset(file, entry, path), entry.packed)
    if len(raw) < entry.packed:
        raise BadInput(f"{clip(path)} is cut off; download it again")
    if entry.method == STORED:
        return raw
    if entry.method != DEFLATED:
        raise BadInput(
            f"{clip(path)}: a file in it is packed by method {entry.method}, which sizer does not read"
        )
    import zlib

    try:
        unpacked = zlib.decompressobj(-15).decompress(raw, most + 1)
    except zlib.error:
        raise BadInput(f"{clip(path)}: a file in it does not unpack") from None
    if len(unpacked) > most:
        raise BadInput(f"{clip(path)}: a file in it unpacks to over {most:,} bytes, against what it says")
    return unpacked
