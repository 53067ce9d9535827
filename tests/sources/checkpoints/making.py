"""Small checkpoints made byte by byte, so that no library's writer stands between the test and the format."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E8M0": 1, "U8": 1, "I8": 1}
BYTES |= {"I16": 2, "I32": 4, "U32": 4, "I64": 8, "BOOL": 1}
Entry = tuple[str, list[int]]


def header(tensors: Mapping[str, Entry], metadata: Any = ...) -> tuple[bytes, int]:
    """A header of safetensors, and the bytes of its data."""
    entries: dict[str, Any] = {} if metadata is ... else {"__metadata__": metadata}
    at = 0
    for name, (dtype, shape) in tensors.items():
        end = at + prod(shape) * BYTES[dtype]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    return json.dumps(entries, separators=(",", ":")).encode(), at


def raw(text: bytes, data: int = 0) -> bytes:
    """A file of safetensors with that header and so many zeros."""
    return struct.pack("<Q", len(text)) + text + bytes(data)


def safetensors(
    path: Path, tensors: Mapping[str, Entry], metadata: Any = ..., values: Mapping[str, bytes] | None = None
) -> Path:
    """Write a file of zeros, the tensors in `values` aside; the data is sparse."""
    text, size = header(tensors, metadata)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        start = file.tell()
        at = 0
        for name, (dtype, shape) in tensors.items():
            if values and name in values:
                file.seek(start + at)
                file.write(values[name])
            at += prod(shape) * BYTES[dtype]
        file.truncate(start + size)
    return path


def sharded(folder: Path, shards: list[Mapping[str, Entry]], **metadata: int) -> Path:
    """Write numbered shards and their index."""
    folder.mkdir(exist_ok=True)
    weight_map = {}
    total = 0
    for i, tensors in enumerate(shards):
        name = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        safetensors(folder / name, tensors, {"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
        total += header(tensors)[1]
    index = {"metadata": {"total_size": total, **metadata}, "weight_map": weight_map}
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index, indent=2))
    return path


def text(value: str, order: str = "<", wide: str = "Q") -> bytes:
    """A text of GGUF."""
    encoded = value.encode()
    return struct.pack(order + wide, len(encoded)) + encoded


def gguf(
    tensors: Iterable[tuple[str, list[int], int, int]],
    keys: Iterable[tuple[str, int, Any]] = (),
    *,
    version: int = 3,
    order: str = "<",
    alignment: int = 32,
    data: bool = True,
) -> bytes:
    """A GGUF file: tensors as (name, sizes from the fastest, type, bytes), keys as (name, type, value)."""
    wide = "I" if version == 1 else "Q"
    tensors, keys = list(tensors), list(keys)
    out = b"GGUF" + struct.pack(order + "I" + wide + wide, version, len(tensors), len(keys))
    codes = {0: "B", 2: "H", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 12: "d"}
    for name, kind, value in keys:
        out += text(name, order, wide) + struct.pack(order + "I", kind)
        if kind == 8:
            out += text(value, order, wide)
        elif kind == 9:
            inner, items = value
            out += struct.pack(order + "I" + wide, inner, len(items))
            out += b"".join(
                text(v, order, wide) if inner == 8 else struct.pack(order + codes[inner], v) for v in items
            )
        else:
            out += struct.pack(order + codes[kind], value)
    at = 0
    for name, sizes, kind, size in tensors:
        out += text(name, order, wide) + struct.pack(order + "I", len(sizes))
        out += struct.pack(order + wide * len(sizes), *sizes) + struct.pack(order + "IQ", kind, at)
        at += -(-size // alignment) * alignment
    start = -(-len(out) // alignment) * alignment
    return out.ljust(start + at, b"\0") if data else out
