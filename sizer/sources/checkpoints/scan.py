"""JSON of known form, read piece by piece: headers of many megabytes in bounded memory.

A JSON parser makes up to forty bytes of objects out of one byte of hostile text. The headers read
here are flat, so a scanner that knows their form needs memory only for what it keeps.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from sizer.errors import BadInput, clip

_SPACE = rb"[ \t\n\r]*+"
_TEXT = rb'"((?:[^"\\\x00-\x1f]++|\\.)*+)"'
# The longest key; a name of a tensor is a tenth of that.
MAX_KEY = 4_096
_KEY = re.compile(_SPACE + rb'"((?:[^"\\\x00-\x1f]|\\.){0,4096}+)"' + _SPACE + rb":" + _SPACE)
_PAIR = re.compile(_SPACE + _TEXT + _SPACE + rb":" + _SPACE + _TEXT + _SPACE + rb"([,}])")
_END = re.compile(_SPACE + rb"([,}])")
_OPEN = re.compile(_SPACE + rb"\{" + _SPACE + rb"(\}?)")

SPACES = b" \t\n\r"
# What a JSON string holds as an escape alone, and the backslash that begins one.
_ESCAPED = bytes(range(32)) + b"\\"
# How much of a long text is taken apart at once, and how much of one that falls into small pieces: as much
# as a processor keeps at hand.
WINDOW = 1_000_000
SMALL_WINDOW = 200_000

# The keys of a flat object by their value.
Inverse = dict[bytes, list[bytes]]

# The longest value of mixed form: an entry of a header, or the metadata of an index.
MAX_VALUE = 65_536


def text(raw: bytes, where: str) -> str:
    """A JSON string without its quotes."""
    try:
        if b"\\" in raw:
            decoded: str = scanstring(raw.decode() + '"', 0)[0]
            decoded.encode()  # a lone surrogate is no text
            return decoded
        return raw.decode()
    except UnicodeError:
        raise BadInput(f"{clip(where)} holds a text that is not UTF-8") from None
    except ValueError:
        raise BadInput(f"{clip(where)} holds a text with an escape that JSON has not") from None


def opening(data: bytes, at: int, where: str) -> tuple[int, bool]:
    """The place after the brace that opens an object, and whether the object is empty."""
    found = _OPEN.match(data, at)
    if found is None:
        raise BadInput(f"{clip(where)}: no JSON object at byte {at:,}")
    return found.end(), bool(found[1])


def key(data: bytes, at: int, where: str) -> tuple[str, int]:
    """The key at a place, and the place of its value."""
    found = _KEY.match(data, at)
    if found is None:
        raise BadInput(f"{clip(where)} is not valid JSON: no key of up to {MAX_KEY:,} bytes at byte {at:,}")
    return text(found[1], where), found.end()


def ending(data: bytes, at: int, where: str) -> tuple[int, bool]:
    """The place after the comma or the brace that follows a value, and whether it was a brace."""
    found = _END.match(data, at)
    if found is None:
        raise BadInput(f"{clip(where)} is not valid JSON: no comma or brace at byte {at:,}")
    return found.end(), found[1] == b"}"


def value(data: bytes, at: int, where: str, most: int = MAX_VALUE) -> tuple[Any, int]:
    """A small value of any form, and the place after it."""
    from sizer.sources.json_text import Duplicate, unique

    chunk = data[at : at + most]
    piece = chunk.decode("utf-8", "surrogateescape")
    try:
        found, end = json.JSONDecoder(object_pairs_hook=unique).raw_decode(piece)
    except Duplicate as error:
        raise BadInput(f"{clip(where)} has the key {clip(error.key)!r} twice") from None
    except RecursionError:
        raise BadInput(f"{clip(where)} is nested too deeply at byte {at:,}") from None
    except ValueError:
        raise BadInput(f"{clip(where)} is not valid JSON at byte {at:,}") from None
    return found, at + (end if piece.isascii() else len(piece[:end].encode("utf-8", "surrogateescape")))


def texts(data: bytes, at: int, where: str, most: int, room: int = 2**63) -> tuple[dict[str, str], int]:
    """A flat object of texts, or `null` for none, and the place after it.

    Past `room` characters entries are read and not kept.
    """
    after = empty_object(data, at)
    if after >= 0:
        return {}, after
    at, _ = opening(data, at, where)
    found: dict[str, str] = {}
    # Files are few and names many: each value is read once.
    read: dict[bytes, str] = {}
    kept = 0
    for _ in range(most):
        pair = _PAIR.match(data, at)
        if pair is None:
            raise BadInput(f"{clip(where)}: no pair of two texts at byte {at:,}")
        at = pair.end()
        if pair.end(1) - pair.start(1) > MAX_KEY:
            raise BadInput(f"{clip(where)} has a key of over {MAX_KEY:,} bytes at byte {at:,}")
        key = text(pair[1], where)
        if key in found:
            raise BadInput(f"{clip(where)} has the key {clip(key)!r} twice")
        kept += len(key) + pair.end(2) - pair.start(2)
        if kept <= room:
            written = pair[2]
            if written not in read:
                read[written] = text(written, where)
            found[key] = read[written]
        if pair[3] == b"}":
            return found, at
    raise BadInput(f"{clip(where)} holds over {most:,} entries")


def pairs(data: bytes, at: int, most: int) -> tuple[list[bytes], Inverse, int] | None:
    """The keys of a flat object of up to so many texts, the keys by value, and the place after it.

    Values are as they are written, escapes and all. `None` for an object of another form.
    """
    end = data.find(b"}", at)
    found = _OPEN.match(data, at)
    if end < 0 or found is None or data.count(b'"', at, end) > 4 * most:
        return None
    keys: list[bytes] = []
    by_value: Inverse = defaultdict(list)
    at = found.end()
    while at < end:
        cut = end if end - at < SMALL_WINDOW else data.rfind(b",", at, at + SMALL_WINDOW)
        # Split at its quotes, such an object is four pieces a pair; a cut within a text leaves an odd one.
        pieces = (data[at:cut] + b",").split(b'"')
        if len(pieces) % 4 != 1 or not _are_between(pieces):
            return None
        some = unescaped(pieces[1::4])
        if some is None:
            return None
        keys += some
        for key, value in zip(some, pieces[3::4], strict=True):
            by_value[value].append(key)
        at = cut + 1
    return keys, by_value, end + 1


def unescaped(texts: list[bytes]) -> list[bytes] | None:
    """JSON strings without their quotes, read all at once; `None` where one is no such string.

    >>> unescaped([b"a", rb"\\u0062\\n"]), unescaped([b"a", b"b\\\\"])
    ([b'a', b'b\\n'], None)
    """
    whole = b'","'.join(texts)
    if len(whole.translate(None, _ESCAPED)) == len(whole) and whole.isascii():
        return texts
    try:
        found = [text.encode() for text in json.loads(f'["{whole.decode()}"]')]
    except ValueError:
        return None
    # A backslash before the quote that ends a text makes one of two.
    return found if len(found) == len(texts) else None


def _are_between(pieces: list[bytes]) -> bool:
    """Whether what stands outside the quotes is a colon, then a comma, again and again."""
    return (
        not pieces[0].strip(SPACES)
        and _are_all(pieces[2::4], b":")
        and _are_all(pieces[4:-1:4], b",")
        and pieces[-1].strip(SPACES) == b","
    )


def _are_all(texts: list[bytes], mark: bytes) -> bool:
    """Whether texts are a mark with spaces around it; nearly always, all are written alike."""
    alike = texts.count(texts[0]) == len(texts) if texts else True
    return {text.strip(SPACES) for text in (texts[:1] if alike else set(texts))} <= {mark}


def empty_object(data: bytes, at: int) -> int:
    """The place after `{}` or `null`, or -1 where there is neither."""
    if data.startswith(b"null", at):
        return at + 4
    found = _OPEN.match(data, at)
    return found.end() if found is not None and found[1] else -1
