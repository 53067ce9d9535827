"""ONNX: the initializers of a graph, read from the protobuf message around their data.

Format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, in the wire format of
https://protobuf.dev/programming-guides/encoding. The message is walked field by field and data is
passed over; files that hold data apart are compared in size and never opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints.files import exists, is_file, opened, size_of
from sizer.sources.checkpoints.onnx_nodes import packing
from sizer.sources.checkpoints.stored import Contents, Missing, StoredTensor, check_number, elements_of
from sizer.sources.checkpoints.window import Window
from sizer.sources.hub.target import is_plain

# Of a model with ten thousand nodes and tensors there are a fifth of these.
MAX_FIELDS = 400_000
MAX_TEXT = 65_536
MAX_DIMS = 64
# What a node takes that holds no data: more of it is said.
LARGE_NODE = 16_384

# TensorProto.DataType -> our name, and the bits of an element
DTYPES = {
    1: ("fp32", 32),
    2: ("uint8", 8),
    3: ("int8", 8),
    4: ("uint16", 16),
    5: ("int16", 16),
    6: ("int32", 32),
    7: ("int64", 64),
    9: ("bool", 8),
    10: ("fp16", 16),
    11: ("fp64", 64),
    12: ("uint32", 32),
    13: ("uint64", 64),
    14: ("complex64", 64),
    15: ("complex128", 128),
    16: ("bf16", 16),
    17: ("fp8_e4m3", 8),
    18: ("fp8_e4m3fnuz", 8),
    19: ("fp8_e5m2", 8),
    20: ("fp8_e5m2fnuz", 8),
    21: ("uint4", 4),
    22: ("int4", 4),
    23: ("fp4", 4),
    24: ("fp8_e8m0", 8),
    25: ("uint2", 2),
    26: ("int2", 2),
}
_TEXT = 8
# Numbers of the fields that are read: of a model, of a graph, of a tensor.
_GRAPH = 7
_NODE, _INITIALIZER, _SPARSE = 1, 5, 15
_DIMS, _TYPE, _NAME, _RAW, _EXTERNAL, _LOCATION = 1, 2, 8, 9, 13, 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read(path: str) -> Contents:
    """The initializers of one file."""
    size = size_of(path)
    if size == 0:
        raise BadInput(f"{clip(path)} is empty, so it is no ONNX file; download it again")
    contents = Contents(path, "onnx", files=[path])
    with opened(path) as file:
        walk = _Walk(Window(file, size, path), contents)
        graphs = 0
        for field, wire, length in walk.fields(size):
            if field == _GRAPH and wire == _BYTES:
                graphs += 1
                walk.graph(walk.window.at + length)
    if not graphs:
        raise BadInput(f"{clip(path)} is no ONNX file: it holds no graph")
    walk.finish()
    return contents


class _Walk:
    """Walks one file; data that lies in other files is noted by their name."""

    def __init__(self, window: Window, contents: Contents) -> None:
        self.window = window
        self.contents = contents
        self.path = clip(contents.path)
        self.file = os.path.basename(contents.path)
        self.count = 0
        self.nodes = 0
        self.names: set[str] = set()
        # file -> the bytes that its tensors reach to, and their number
        self.apart: dict[str, tuple[int, int]] = {}

    def fields(self, end: int) -> Iterator[tuple[int, int, int]]:
        """Number, wire type, and value or length of each field up to a place; the rest of one is skipped."""
        window = self.window
        while window.at < end:
            self.count += 1
            if self.count > MAX_FIELDS:
                raise BadInput(f"{self.path} has over {MAX_FIELDS:,} fields, more than sizer reads")
            tag = window.varint()
            field, wire = tag >> 3, tag & 7
            if wire == _VARINT:
                yield field, wire, window.varint()
                continue
            if wire not in (_FIXED64, _BYTES, _FIXED32) or not field:
                raise BadInput(f"{self.path} is no ONNX file: no field at byte {window.at:,}")
            length = window.varint() if wire == _BYTES else 8 if wire == _FIXED64 else 4
            after = window.at + length
            if after > end:
                raise BadInput(
                    f"{self.path} is cut off or no ONNX file: a field of {length:,} bytes at byte "
                    f"{window.at:,} of {end:,}; download it again"
                )
            yield field, wire, length
            window.skip(after - window.at)

    def graph(self, end: int) -> None:
        """The initializers of a graph."""
        window = self.window
        for field, wire, length in self.fields(end):
            if wire != _BYTES:
                continue
            if field == _INITIALIZER:
                self.tensor(window.at + length)
            elif field == _SPARSE:
                # Its first field is the tensor of the values that are not zero.
                for inner, kind, size in self.fields(window.at + length):
                    if inner == 1 and kind == _BYTES:
                        self.tensor(window.at + size)
            elif field == _NODE and length > LARGE_NODE:
                self.nodes += length
            elif field == _NODE:
                found = packing(window.take(length), self.contents.path)
                if found is not None:
                    self.contents.packed_by.append(found)

    def tensor(self, end: int) -> None:
        """One tensor, without its data."""
        window = self.window
        dims: list[int] = []
        kind = 0
        name = ""
        raw: int | None = None
        apart: dict[str, str] = {}
        for field, wire, length in self.fields(end):
            if field == _DIMS:
                dims += [length] if wire == _VARINT else self._packed(length)
                if len(dims) > MAX_DIMS:
                    raise BadInput(f"{self.path}: a tensor has over {MAX_DIMS} dimensions")
            elif field == _TYPE and wire == _VARINT:
                kind = length
            elif field == _NAME and wire == _BYTES:
                name = self._text(length)
            elif field == _RAW and wire == _BYTES:
                raw = length
            elif field == _EXTERNAL and wire == _BYTES:
                apart |= dict([self._pair(window.at + length)])
        self._add(name, dims, kind, raw, apart)

    def _add(self, name: str, dims: list[int], kind: int, raw: int | None, apart: dict[str, str]) -> None:
        what = f"{self.path}: {clip(name)}"
        if name in self.names:
            raise BadInput(f"{what} is there twice")
        if kind == _TEXT:
            return
        if kind not in DTYPES:
            raise BadInput(f"{what} has the data type {kind:,}, which is unknown to sizer")
        self.names.add(name)
        check_number(len(self.names), self.path)
        dtype, bits = DTYPES[kind]
        # A negative dimension is a varint of over 63 bits, and so is refused too.
        elements = elements_of(dims, what)
        size = -(-elements * bits // 8)
        if raw is not None and raw != size:
            raise BadInput(f"{what} of {dtype} {dims} takes {size:,} bytes, and its data has {raw:,}")
        if apart:
            self._place(apart, size, what)
        self.contents.stored.append(StoredTensor(name, tuple(dims), dtype, elements, size, self.file))

    def _place(self, apart: dict[str, str], size: int, what: str) -> None:
        """Note how far into another file a tensor reaches."""
        location = apart.get("location", "")
        if not is_plain(location):
            raise BadInput(f"{what} has its data in {clip(location)!r}, which is not beside the file")
        numbers = [apart.get("offset", "0"), apart.get("length", str(size))]
        if not all(n.isascii() and n.isdigit() and len(n) < 20 for n in numbers):
            raise BadInput(f"{what} has its data at {clip(numbers)}, which are not whole numbers")
        offset, length = map(int, numbers)
        if length != size:
            raise BadInput(f"{what} takes {size:,} bytes, and its data in {clip(location)} has {length:,}")
        end, count = self.apart.get(location, (0, 0))
        self.apart[location] = (max(end, offset + length), count + 1)
        if len(self.apart) > 10_000:
            raise BadInput(f"{self.path} has its data in over 10,000 files, more than sizer looks at")

    def finish(self) -> None:
        """Compare with the other files, and say what is not counted."""
        folder = os.path.dirname(self.contents.path)
        for location, (end, count) in self.apart.items():
            path = os.path.join(folder, location)
            if not exists(path):
                self.contents.missing.append(Missing(location, count, end))
            elif not is_file(path) or size_of(path) < end:
                self.contents.problems.append(
                    f"{clip(location)} is cut off: the tensors in it reach to byte {end:,}; download it again"
                )
        if self.nodes:
            self.contents.remarks.append(
                f"nodes of {self.nodes:,} bytes may hold constants, which are not counted; initializers are"
            )

    def _text(self, length: int) -> str:
        if length > MAX_TEXT:
            raise BadInput(f"{self.path}: a text of {length:,} bytes is over the {MAX_TEXT:,} allowed")
        return self.window.take(length).decode("utf-8", "replace")

    def _packed(self, length: int) -> list[int]:
        end = self.window.at + length
        found: list[int] = []
        while self.window.at < end and len(found) <= MAX_DIMS:
            found.append(self.window.varint())
        return found

    def _pair(self, end: int) -> tuple[str, str]:
        pair: dict[int, Any] = {}
        for field, wire, length in self.fields(end):
            if wire == _BYTES:
                pair[field] = self._text(length)
        return pair.get(1, ""), pair.get(2, "")
