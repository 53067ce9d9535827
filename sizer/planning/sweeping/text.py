"""Many rows of numbers as text, quickly: CSV and JSON lines without a loop in Python.

A row is a stretch of bytes, some of them nothing (0), which are left out at the end. Numbers become
digits four at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

# A numpy array of bytes, the last axis along the text.
Bytes: TypeAlias = Any


def numbers(values: Any) -> Bytes:
    """The digits of an array of whole numbers: its shape, and as many bytes as the longest has.

    >>> import numpy
    >>> [bytes(row).replace(b"\\0", b" ") for row in numbers(numpy.array([7, 12345, 0]))]
    [b'    7', b'12345', b'    0']
    """
    import numpy

    if values.dtype == object or (values.size and int(values.min()) < 0):
        return words([str(value) for value in values.ravel()], values.shape)
    if not values.size:
        return numpy.zeros((*values.shape, 1), numpy.uint8)
    least, most = len(str(int(values.min()))), len(str(int(values.max())))
    groups = -(-most // 4)
    fours = numpy.empty((*values.shape, groups), numpy.uint32)
    table, rest = _four_digits(), values
    for i in range(groups - 1, 0, -1):
        above = rest // 10_000
        fours[..., i] = table[rest - 10_000 * above]
        rest = above
    fours[..., 0] = table[rest]
    out = fours.view(numpy.uint8)[..., 4 * groups - most :]
    for i in range(most - least):
        out[..., i] *= values >= 10 ** (most - 1 - i)
    return out


def words(texts: Sequence[str], shape: tuple[int, ...]) -> Bytes:
    """Texts as bytes of the same length, in an array of that shape and one axis more."""
    import numpy

    encoded = numpy.array([text.encode() for text in texts] or [b""])
    width = max(1, encoded.dtype.itemsize)
    return encoded.astype(f"S{width}").view(numpy.uint8).reshape(*shape, width)


def joined(columns: Sequence[bytes | Bytes], shape: tuple[int, ...]) -> bytes:
    """Rows as text: each column the same bytes for all rows, or an array that is stretched to them.

    >>> import numpy
    >>> joined([numbers(numpy.array([[8], [16]])), b",", numbers(numpy.array([1, 2])), b";"], (2, 2))
    b'8,1;8,2;16,1;16,2;'
    """
    import numpy

    width = sum(len(c) if isinstance(c, bytes) else c.shape[-1] for c in columns)
    out = numpy.empty((*shape, width), numpy.uint8)
    at = 0
    for column in columns:
        if isinstance(column, bytes):
            end = at + len(column)
            out[..., at:end] = numpy.frombuffer(column, numpy.uint8)
        else:
            end = at + column.shape[-1]
            out[..., at:end] = column
        at = end
    text: bytes = out.tobytes().translate(None, b"\0")
    return text


@cache
def _four_digits() -> Any:
    """The four digits of each number below 10,000, as one number of 32 bits."""
    import numpy

    table: Any = numpy.empty((10_000, 4), numpy.uint8)
    for i in range(4):
        table[:, i] = ord("0") + numpy.arange(10_000) // 10 ** (3 - i) % 10
    return table.view(numpy.uint32).ravel()
