"""Many rows of numbers as text, quickly: CSV and JSON lines without a loop in Python.

A row is a stretch of bytes, some of them nothing (0), which are left out at the end. Numbers become
digits four at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from math import prod
from typing import Any, TypeAlias

# A numpy array of bytes, the last axis along the text.
Bytes: TypeAlias = Any
# Fewer than one gap in so many bytes are few.
FEW_GAPS = 20


def numbers(values: Any) -> Bytes:
    """The digits of an array of whole numbers from 0 on: its shape, and as many bytes as the longest has.

    >>> import numpy
    >>> [bytes(row).replace(b"\\0", b" ") for row in numbers(numpy.array([7, 12345, 0]))]
    [b'    7', b'12345', b'    0']
    """
    import numpy

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

    parts = [numpy.frombuffer(c, numpy.uint8) if isinstance(c, bytes) else c for c in columns if len(c)]
    out = _side_by_side(list(_grouped(parts, prod(shape))), shape)
    text: bytes = out.tobytes()
    gaps = out.size - int(numpy.count_nonzero(out))
    # Where there are few, gaps are cut out one by one.
    return text.replace(b"\0", b"") if gaps * FEW_GAPS < out.size else text.translate(None, b"\0")


def _grouped(parts: Sequence[Bytes], rows: int) -> Iterator[Bytes]:
    """The columns, neighbours as one where they are the same for many rows."""
    import numpy

    group: list[Bytes] = []
    shape: tuple[int, ...] = ()
    for part in parts:
        wider = numpy.broadcast_shapes(shape, part.shape[:-1])
        if group and prod(wider) == rows:
            yield _side_by_side(group, shape)
            group, wider = [], part.shape[:-1]
        group.append(part)
        shape = wider
    yield _side_by_side(group, shape)


def _side_by_side(parts: Sequence[Bytes], shape: tuple[int, ...]) -> Bytes:
    """Columns in one array of that shape and one axis more."""
    import numpy

    if len(parts) == 1 and parts[0].shape[:-1] == shape:
        return parts[0]
    *_, width = ends = list(accumulate(part.shape[-1] for part in parts))
    out = numpy.empty((*shape, width), numpy.uint8)
    for part, end in zip(parts, ends, strict=True):
        begin = end - part.shape[-1]
        if end - begin == 1:
            out[..., begin] = part[..., 0]
            continue
        # As one element of so many bytes, which is quicker to copy than as many elements of one.
        many: Any = {"names": ["_"], "formats": [f"V{end - begin}"], "offsets": [begin], "itemsize": width}
        out.view(numpy.dtype(many))[..., 0]["_"] = part.view(f"V{end - begin}")[..., 0]
    return out


@cache
def keep_pages() -> None:
    """Let the allocator keep what it has: glibc returns large blocks to the system and takes them anew,
    page by page, until one of its largest was freed. It is half of the time of many rows."""
    import numpy

    numpy.empty(2**25 - 2**16, numpy.uint8)


@cache
def _four_digits() -> Any:
    """The four digits of each number below 10,000, as one number of 32 bits."""
    import numpy

    table: Any = numpy.empty((10_000, 4), numpy.uint8)
    for i in range(4):
        table[:, i] = ord("0") + numpy.arange(10_000) // 10 ** (3 - i) % 10
    return table.view(numpy.uint32).ravel()
