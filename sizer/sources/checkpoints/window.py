"""A file read front to back through a buffer, by numbers and texts."""

from __future__ import annotations

from struct import Struct, calcsize
from typing import Any, BinaryIO

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints.files import read_at

# What is read at once: little at first, so that not much is read past a short header.
FIRST, MOST = 1 << 16, 1 << 20


class Window:
    """A place in a file, and a piece of the file around it.

    `order` is the byte order of numbers, `<` or `>`. Reading past the end is an error.
    """

    def __init__(self, file: BinaryIO, size: int, path: str) -> None:
        self.file = file
        self.size = size
        self.path = clip(path)
        self.order = "<"
        self._chunk = FIRST
        self._data = b""
        self._begin = 0
        self._pos = 0
        self._structs: dict[str, Struct] = {}

    @property
    def at(self) -> int:
        """The place of the next byte."""
        return self._begin + self._pos

    @property
    def left(self) -> int:
        """The bytes from there to the end."""
        return self.size - self.at

    def take(self, length: int) -> bytes:
        """The next bytes."""
        self._need(length)
        found = self._data[self._pos : self._pos + length]
        self._pos += length
        return found

    def number(self, code: str) -> Any:
        """The next number, of that code of `struct`."""
        found = self._structs.get(code)
        if found is None:
            found = self._structs[code] = Struct(self.order + code)
        self._need(found.size)
        (value,) = found.unpack_from(self._data, self._pos)
        self._pos += found.size
        return value

    def varint(self) -> int:
        """The next number of protobuf: seven bits a byte, the lowest first, of 64 bits at most."""
        if self._pos < len(self._data) and self._data[self._pos] < 128:
            self._pos += 1
            return self._data[self._pos - 1]
        value = shift = 0
        while shift < 70:
            byte = int(self.number("B"))
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise BadInput(f"{self.path}: a number has over ten bytes at byte {self.at:,}")

    def size_of(self, code: str) -> int:
        """Bytes of a number."""
        return calcsize(self.order + code)

    def skip(self, length: int) -> None:
        """Pass over bytes, without reading those that are not at hand."""
        if length > self.left:
            self._over(length)
        self._pos += length
        if self._pos > len(self._data):
            self._begin, self._pos, self._data = self.at, 0, b""
            self._chunk = FIRST

    def skip_texts(self, count: int, code: str) -> None:
        """Pass over texts, each with its length before it."""
        length_of = Struct(self.order + code)
        unpack, width = length_of.unpack_from, length_of.size
        data, pos = self._data, self._pos
        for _ in range(count):
            if pos + width > len(data):
                self._pos = pos
                self._need(width)
                data, pos = self._data, self._pos
            pos += width + unpack(data, pos)[0]
            if pos > len(data):
                passed = pos - len(data)
                self._pos = len(data)
                self.skip(passed)
                data, pos = self._data, self._pos
        self._pos = pos

    def _need(self, length: int) -> None:
        if self._pos + length <= len(self._data):
            return
        if length > self.left:
            self._over(length)
        begin = self.at
        self._data = read_at(self.file, begin, max(length, min(self._chunk, self.size - begin)))
        self._chunk = min(2 * self._chunk, MOST)
        self._begin, self._pos = begin, 0
        if len(self._data) < length:
            self._over(length)

    def _over(self, length: int) -> None:
        raise BadInput(
            f"{self.path} is cut off within its header: {length:,} bytes are due at byte {self.at:,} "
            f"of {self.size:,}; download it again"
        )
