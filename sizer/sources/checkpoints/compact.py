"""Headers of safetensors without a space, as nearly all writers write them, taken apart as a whole.

Split at its quotes, such a header is ten pieces a tensor, of which six are always the same. That they
stand where they must shows that the form is this one throughout.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice, pairwise
from operator import add, lt

from sizer.sources.checkpoints.scan import MAX_KEY

# An entry between its quotes: "name" :{ "dtype" : "BF16" , "shape" :[4,4], "data_offsets" :[0,32]},
_PIECES = 10
_SAME = ((1, b":{"), (2, b"dtype"), (3, b":"), (5, b","), (6, b"shape"), (8, b"data_offsets"))
_NAME, _DTYPE, _SHAPE, _OFFSETS = 0, 4, 7, 9
_DIGITS = b"0123456789"
_AROUND = b":[]}"
# What a name in its plain form does not hold: escapes, control characters.
_NOT_IN_NAMES = bytes(range(32)) + b"\\"

# Names; dtypes with dimensions, as the header writes them; where each tensor begins and ends, as
# numbers between commas.
Parts = tuple[list[bytes], list[bytes], bytes]


def parts(entries: bytes) -> Parts | None:
    """Entries, from the first name to the brace that closes the last; `None` where their form is another."""
    if entries[:1] != b'"':
        return None
    pieces = (entries + b",").split(b'"')[1:]
    count = len(pieces) // _PIECES
    if len(pieces) != count * _PIECES:
        return None
    if any(pieces[i::_PIECES].count(same) != count for i, same in _SAME):
        return None
    offsets = b"".join(pieces[_OFFSETS::_PIECES])
    if offsets.translate(None, _DIGITS) != b":[,]}," * count:
        return None
    names = pieces[_NAME::_PIECES]
    if not are_plain(names):
        return None
    keys = list(map(add, pieces[_DTYPE::_PIECES], pieces[_SHAPE::_PIECES]))
    return names, keys, offsets.translate(None, _AROUND)[:-1]


def are_plain(names: list[bytes]) -> bool:
    """Whether names are UTF-8 as they stand, without escapes, of a length that names have."""
    text = b"".join(names)
    if len(text.translate(None, _NOT_IN_NAMES)) != len(text) or max(map(len, names), default=0) > MAX_KEY:
        return False
    try:
        return text.isascii() or all(name.decode() or True for name in names)
    except UnicodeDecodeError:
        return False


def are_unique(names: list[bytes]) -> bool:
    """Whether no name is there twice; of sorted ones their order says so, in half the time of a set."""
    return all(map(lt, names, islice(names, 1, None))) or len(set(names)) == len(names)


def key_of(dtype: bytes, dims: bytes) -> bytes:
    """A dtype and dimensions as a header writes them."""
    return b"%b:[%b]," % (dtype, dims)


def dtype_and_dims(key: bytes) -> tuple[bytes, bytes | None]:
    """The same apart; `None` for dimensions that are no list.

    >>> dtype_and_dims(key_of(b"BF16", b"4,4"))
    (b'BF16', b'4,4')
    """
    dtype, _, rest = key.partition(b":")
    return dtype, rest[1:-2] if key == key_of(dtype, rest[1:-2]) else None


def in_order(places: Iterable[int]) -> bytes:
    """The numbers of tensors that follow each other: where the first begins, and where each ends.

    >>> in_order([0, 4, 10])
    b'0,4,4,10'
    """
    texts = list(map(str, places))
    return ",".join(chain.from_iterable(pairwise(texts))).encode()


def pairs(numbers: bytes) -> tuple[list[int], list[int]] | None:
    """Where tensors begin and end; `None` where a number is not one of JSON, or over 63 bits."""
    texts = numbers.split(b",")
    if not all(texts) or len(max(texts, key=len)) > 19:
        return None
    found = list(map(int, texts))
    if list(map(b"%d".__mod__, found)) != texts:
        return None
    return found[::2], found[1::2]
