"""The few bytes of data that say what a header does not: a shape, a state, a count of bits."""

from __future__ import annotations

import os
from struct import unpack
from typing import Any

from sizer.errors import SizerError
from sizer.sources.checkpoints.files import small_value
from sizer.sources.checkpoints.stored import Contents, StoredTensor

_CODES = {"int64": "q", "int32": "i", "int16": "h", "int8": "b", "uint8": "B", "uint32": "I", "uint64": "Q"}
MOST = 4_096


def integers_of(contents: Contents, tensor: StoredTensor) -> list[int]:
    """The whole numbers in a small tensor; none where its file is not at hand."""
    code = _CODES.get(tensor.dtype)
    if code is None or tensor.elements > 64:
        return []
    data = bytes_of(contents, tensor)
    return list(unpack(f"<{tensor.elements}{code}", data)) if len(data) == tensor.bytes else []


def object_of(contents: Contents, tensor: StoredTensor) -> dict[str, Any]:
    """The JSON object in a small tensor of bytes; empty where there is none."""
    import json

    try:
        found = json.loads(bytes_of(contents, tensor))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def bytes_of(contents: Contents, tensor: StoredTensor) -> bytes:
    """The bytes of a small tensor; none where its file is not at hand."""
    if tensor.offset is None or not 0 < tensor.bytes <= MOST:
        return b""
    paths = {os.path.basename(file): file for file in contents.files}
    try:
        return small_value(paths[tensor.file], tensor.offset, tensor.bytes)
    except SizerError:
        return b""
