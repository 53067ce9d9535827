"""Headers of safetensors without a space, as nearly all writers write them, taken apart as a whole.

Such a header is the same text over and over between the names and the numbers. That text becomes
single bytes that no header holds, so their order shows that the form is this one throughout.
"""

from __future__ import annotations

import re

from sizer.sources.checkpoints.scan import MAX_KEY

_BETWEEN = (b'":{"dtype":"', b'],"data_offsets":[', b']},"')
_MARKS = b"\1\2\3"
_NOT_MARKS = bytes(set(range(256)) - set(_MARKS))
_TO_LINES = bytes.maketrans(_MARKS, b"\n\n\n")
# What a name in its plain form does not hold: quotes, escapes, control characters.
_NOT_IN_NAMES = bytes(range(32)) + b'"\\'
_NUMBER = rb"(?:0|[1-9][0-9]{0,18})"
_OFFSETS = re.compile(rb"(?:%b,%b\n)*+%b,%b" % (_NUMBER, _NUMBER, _NUMBER, _NUMBER))
# What stands between a dtype and its dimensions.
SHAPE = b'","shape":['

# Names, a line each; of each tensor its dtype and dimensions, where it begins and where it ends.
Parts = tuple[bytes, list[bytes], list[int], list[int]]


def parts(header: bytes, at: int) -> Parts | None:
    """The entries from a place to the header's end; `None` where the header has another form."""
    end = header.rfind(b"]}}")
    if end < 0 or header[at : at + 1] != b'"' or header[end + 3 :].strip(b" \t\n\r"):
        return None
    body = header[at + 1 : end]
    for i, text in enumerate(_BETWEEN):
        body = body.replace(text, _MARKS[i : i + 1])
    marks = body.translate(None, _NOT_MARKS)
    count = len(marks) // 3 + 1
    if marks != (_MARKS * count)[:-1]:
        return None
    lines = body.translate(_TO_LINES).split(b"\n")
    if len(lines) != 3 * count:
        return None
    own = lines[::3]
    names, offsets = b"\n".join(own), b"\n".join(lines[2::3])
    if len(names.translate(None, _NOT_IN_NAMES)) != len(names) - (count - 1):
        return None
    if len(max(own, key=len)) > MAX_KEY or _OFFSETS.fullmatch(offsets) is None:
        return None
    numbers = offsets.replace(b"\n", b",").split(b",")
    begins, ends = numbers[::2], list(map(int, numbers[1::2]))
    # Most begin where the one before ends, and need not be read again.
    in_order = begins[0] == b"0" and begins[1:] == numbers[1:-1:2]
    return names, lines[1::3], [0, *ends[:-1]] if in_order else list(map(int, begins)), ends
