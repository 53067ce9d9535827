"""Entries of a safetensors header taken apart as a whole, by one pattern that all of them must have.

Nearly all writers put no space between; of that form nothing but what varies becomes an object.
"""

from __future__ import annotations

import re
from itertools import islice
from operator import lt
from typing import NamedTuple

from sizer.sources.checkpoints.scan import SPACES

# "name":{"dtype":"BF16","shape":[4,4],"data_offsets":[0,32]}, with bounds, so that no text is read twice
# over by those that match in part.
_ENTRY = re.compile(
    rb'"([^"]{0,4096}+)":\{"dtype":"([^"]{0,32}+","shape":\[[^]]{0,999}+)\],"data_offsets":\[([^]]{3,39}+)\]\},'
)
_KIND = re.compile(rb'([^"\\]*)","shape":\[([^"]*)')
# The same with spaces anywhere.
_S = rb"[ \t\n\r]*+"
_SPACED = (
    rb'%s"([^"]{0,4096}+)"%s:%s\{%s"dtype"%s:%s"([A-Z0-9_]{1,16})"%s,'
    rb'%s"shape"%s:%s\[([0-9, \t\n\r]{0,999}+)\]'
    rb'%s,%s"data_offsets"%s:%s\[%s([0-9]{1,19})%s,%s([0-9]{1,19})%s\]%s\}%s,'.replace(b"%s", _S)
)
_ONES = bytes.maketrans(b"23456789", b"11111111")
# What a name in its plain form does not hold: escapes, control characters.
_NOT_IN_NAMES = bytes(range(32)) + b"\\"


class Parts(NamedTuple):
    """Entries column by column: names, a line each, and all else as the header writes it.

    `kinds` are dtype and shape, like `BF16","shape":[4,4`, and `different` each of them once; `offsets`
    are like `0,32|32,64`.
    """

    names: list[bytes]
    lines: bytes
    kinds: list[bytes]
    different: dict[bytes, None]
    offsets: bytes


def parts(entries: bytes) -> Parts | None:
    """Entries, from the first name to the brace that closes the last; `None` where their form is another."""
    # What stands between entries, then the three groups of an entry, again and again.
    found = _ENTRY.split(entries + b",")
    return _parts(*(found[i::4] for i in range(4))) or _spaced(entries)


def _spaced(entries: bytes) -> Parts | None:
    found = re.split(_SPACED, entries + b",")
    between, names, dtypes, dims, begins, ends = (found[i::6] for i in range(6))
    kinds = list(map(b'%b","shape":[%b'.__mod__, zip(dtypes, dims, strict=True)))
    return _parts(between, names, kinds, list(map(b"%b,%b".__mod__, zip(begins, ends, strict=True))))


def _parts(
    between: list[bytes], names: list[bytes], kinds: list[bytes], offsets: list[bytes]
) -> Parts | None:
    lines = plain_lines(names)
    different = dict.fromkeys(kinds)
    if not names or any(between) or lines is None or not all(map(_KIND.fullmatch, different)):
        return None
    return Parts(names, lines, kinds, different, b"|".join(offsets))


def plain_lines(names: list[bytes]) -> bytes | None:
    """Names as lines; `None` unless they are UTF-8 as they stand, without escapes."""
    lines = b"\n".join(names)
    # The ends of lines go too.
    if len(lines) - len(lines.translate(None, _NOT_IN_NAMES)) > max(len(names) - 1, 0):
        return None
    try:
        lines.isascii() or lines.decode()
    except UnicodeDecodeError:
        return None
    return lines


def are_unique(names: list[bytes]) -> bool:
    """Whether no name is there twice; of sorted ones their order says so, in half the time of a set."""
    return ascend(names) or len(set(names)) == len(names)


def ascend(names: list[bytes]) -> bool:
    """Whether each name is behind the one before it."""
    return all(map(lt, names, islice(names, 1, None)))


def dtype_and_dims(kind: bytes) -> tuple[bytes, bytes]:
    """The dtype and the dimensions of a kind.

    >>> dtype_and_dims(b'BF16","shape":[4,4')
    (b'BF16', b'4,4')
    """
    found = _KIND.fullmatch(kind)
    assert found is not None
    return found[1], found[2]


def in_order(places: list[int]) -> bytes:
    """The offsets of tensors that follow each other: where the first begins, and where each ends.

    >>> in_order([0, 4, 10])
    b'0,4|4,10'
    """
    count = len(places) - 1
    numbers = [0] * 2 * count
    numbers[::2], numbers[1::2] = places[:-1], places[1:]
    return (b"%d,%d|" * count % tuple(numbers))[:-1]


def pairs(offsets: bytes) -> tuple[list[int], list[int]] | None:
    """Where tensors begin and end; `None` where there are not two whole numbers of JSON below 2^63.

    >>> pairs(b"0, 4|4,10"), pairs(b"0|4,10,12")
    (([0, 4], [4, 10]), None)
    """
    count = offsets.count(b"|") + 1
    if offsets.translate(None, b"0123456789" + SPACES) != (b",|" * count)[:-1]:
        return None
    texts = offsets.replace(b"|", b",").split(b",")
    if len(offsets.translate(None, SPACES)) != len(offsets):
        texts = [text.strip(SPACES) for text in texts]
    marked = b",%b," % b",".join(texts).translate(_ONES)
    # No number is empty, has a space in it, or begins with a zero.
    if (
        any(wrong in marked for wrong in (b",,", b",00", b",01"))
        or not marked.translate(None, b",").isdigit()
    ):
        return None
    found = list(map(int, texts))
    return (found[::2], found[1::2]) if max(found) < 2**63 else None
