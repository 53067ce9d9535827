"""The entries of a safetensors header, window by window and column by column.

The longest header holds two million entries, which as objects would take a gigabyte. Names stay as
text, and what tensors have in common is kept once.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate, compress, islice
from operator import eq, sub

from sizer.errors import BadInput, SizerError, UnknownName, clip
from sizer.sources.checkpoints import compact
from sizer.sources.checkpoints.columns import Columns, Kind, check_groups
from sizer.sources.checkpoints.compact import Parts
from sizer.sources.checkpoints.safetensors_types import DTYPES
from sizer.sources.checkpoints.scan import SPACES, WINDOW
from sizer.sources.checkpoints.stored import check_number, elements_of

_NUMBER = re.compile(rb"0|-?[1-9][0-9]*")
_COMMA = re.compile(rb"[ \t\n\r]*+,[ \t\n\r]*+")

# Different shapes and dtypes. A model has some dozens.
MAX_KINDS = 20_000

# The bytes of a header from a place in it, as many as are asked for.
Text = Callable[[int, int], bytes]


def columns(text: Text, at: int, length: int, where: str, file: str) -> list[Columns] | None:
    """The entries from a place in a header to its end; `None` where one of them has another form."""
    found: list[Columns] = []
    kinds: dict[bytes, Kind] = {}
    begin = 0
    # Whether names ascend from the first to the last, so that none is there twice.
    last, ascend = b"", True
    for entries in _windows(text, at, length):
        parts = compact.parts(entries)
        if parts is None:
            return None
        _no_name_twice(parts.names, where)
        ascend = ascend and last < parts.names[0] and compact.ascend(parts.names)
        last = parts.names[-1]
        found.append(_window(parts, kinds, where, file, 8 + length, begin))
        begin += found[-1].bytes
        check_number(sum(map(len, found)), where)
        check_groups(found, where)
    if len(found) > 1 and not ascend:
        _none_in_two_windows(found, where)
    return found


def _none_in_two_windows(windows: list[Columns], where: str) -> None:
    # Eight bytes a name.
    hashes = array("q")
    for one in windows:
        hashes.extend(map(hash, one.names))
    hashes = array("q", sorted(hashes))
    again = set(compress(hashes, map(eq, hashes, islice(hashes, 1, None))))
    # Of equal hashes two names are equal, or else there is a coincidence that nobody has seen.
    if again:
        _no_name_twice([name for one in windows for name in one.names if hash(name) in again], where)


def _windows(text: Text, at: int, length: int) -> Iterator[bytes]:
    """The entries, as many at a time as a window holds, up to the brace that closes the last of them."""
    read = text(at, WINDOW)
    at += len(read)
    while at < length:
        # Somewhat before the end, so that the comma behind the brace is there too.
        end = read.rfind(b"}", 0, len(read) - 16) + 1
        comma = _COMMA.match(read, end)
        more = text(at, WINDOW)
        if not end or comma is None or not more:
            yield b""
            return
        yield read[:end]
        at += len(more)
        read = read[comma.end() :] + more
    read = read.rstrip(SPACES)
    yield read[:-1].rstrip(SPACES) if read.endswith(b"}") else b""


def _window(parts: Parts, kinds: dict[bytes, Kind], where: str, file: str, base: int, begin: int) -> Columns:
    """The tensors of some entries, of which the first begins at `begin` where they are in order."""
    for key in parts.different:
        if key not in kinds:
            if len(kinds) == MAX_KINDS:
                raise BadInput(
                    f"{clip(where)} holds over {MAX_KINDS:,} different shapes, more than sizer reads"
                )
            try:
                kinds[key] = _kind_of(key, "", where)
            except SizerError:
                # Once more, with the name of the tensor.
                _kind_of(key, parts.names[parts.kinds.index(key)].decode(), where)
                raise
    found = Columns(file, parts.lines, list(map(kinds.__getitem__, parts.kinds)), base + begin)
    sizes = found.sizes
    if parts.offsets != compact.in_order(list(accumulate(sizes, initial=begin))):
        places = compact.pairs(parts.offsets)
        if places is None:
            raise BadInput(f"{clip(where)}: a data_offsets is not two whole numbers below 2^63")
        begins, ends = places
        spans = list(map(sub, ends, begins))
        if spans != sizes:
            i = next(i for i, size in enumerate(sizes) if spans[i] != size)
            raise span(parts.names[i].decode(), found.kinds[i], begins[i], ends[i], where)
        found.begins = array("Q", map(base.__add__, begins))
    return found


def _no_name_twice(names: list[bytes], where: str) -> None:
    if not compact.are_unique(names):
        raise twice(Counter(names).most_common(1)[0][0].decode(errors="replace"), where)


def twice(name: str, where: str) -> BadInput:
    """That a name is there twice."""
    return BadInput(f"{clip(where)} has the key {clip(name)!r} twice, so which tensor is meant is unclear")


def _kind_of(key: bytes, name: str, where: str) -> Kind:
    dtype, dims = compact.dtype_and_dims(key)
    parts = [part.strip(SPACES) for part in dims.split(b",")] if dims.strip(SPACES) else []
    # Python reads `1_0` and `+1`, which are no numbers of JSON.
    if not all(_NUMBER.fullmatch(part) for part in parts):
        raise BadInput(f"{clip(where)}: the shape of {clip(name)} is not a list of whole numbers")
    return kind(dtype.decode("ascii", "replace"), tuple(map(int, parts)), name, where)


def kind(dtype: str, shape: tuple[int, ...], name: str, where: str) -> Kind:
    """The shape, our name of the dtype, the elements and the bytes of a tensor."""
    known = DTYPES.get(dtype)
    if known is None:
        raise UnknownName("dtype", dtype, DTYPES, hint=f"of {clip(name)} in {clip(where)}")
    elements = elements_of(shape, f"{clip(where)}: {clip(name)}")
    if elements * known[1] % 8:
        raise BadInput(f"{clip(where)}: {clip(name)} of {dtype} {list(shape)} is no whole number of bytes")
    return Kind(shape, known[0], elements, elements * known[1] // 8)


def span(name: str, kind: Kind, begin: int, end: int, where: str) -> BadInput:
    """That the offsets of a tensor do not agree with its size."""
    return BadInput(
        f"{clip(where)}: {clip(name)} of {kind.dtype} {list(kind.shape)} takes {kind.bytes:,} bytes, "
        f"and its offsets [{begin}, {end}] span {end - begin:,}"
    )
