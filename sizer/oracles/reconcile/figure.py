"""A number somebody states, and what it may mean: exact, rounded, cut off, or of bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from sizer.core.record import Record
from sizer.errors import BadInput, shown

# No figure of a model is near this; it bounds the arithmetic.
MOST = 10**24
MAX_TEXT = 40
_SCALES = {"k": 10**3, "m": 10**6, "mn": 10**6, "b": 10**9, "bn": 10**9, "t": 10**12}
_DECIMAL = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BINARY = {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_BYTES = {"byte": 1, "bytes": 1, **_DECIMAL, **_BINARY}
_NAMES = {
    "kb": "kB",
    "mb": "MB",
    "gb": "GB",
    "tb": "TB",
    "kib": "KiB",
    "mib": "MiB",
    "gib": "GiB",
    "tib": "TiB",
}
_NUMBER = re.compile(
    r"(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+|[0-9][0-9_]*)(?:\.(?P<part>[0-9]+))?(?:e\+?(?P<power>[0-9]{1,2}))?"
    r" ?(?P<unit>[a-z]*)"
)
# Widths that bytes are read at where nobody says one: bits, and the words for it.
WIDTHS = {16: "2 bytes a parameter (bf16, fp16)", 32: "4 bytes a parameter (fp32)"}
WIDTHS |= {8: "1 byte a parameter (fp8, int8)", 4: "half a byte a parameter (int4, fp4)"}


class Reading(Record):
    """Elements between `low` and `high`, both included, that a figure may stand for.

    `exact`: it stands for one number. `note` says how it is read, empty where there is one way alone.
    `penalty`: terms that it is as unlikely as. `bits` of an element, for a figure of bytes that says
    elements only at some width; zero where it says what it says.
    """

    __slots__ = ("bits", "exact", "high", "low", "note", "penalty")

    def __init__(self, low: int, high: int, exact: bool, note: str = "", penalty: int = 0, bits: int = 0):
        self.low = low
        self.high = high
        self.exact = exact
        self.note = note
        self.penalty = penalty
        self.bits = bits


class Figure(Record):
    """A number as it was written, its value in its own unit, and its readings, the likely first.

    `unit`: "params" or "bytes". `stored`: the readings of a figure of bytes, in bytes.
    """

    __slots__ = ("readings", "stored", "text", "unit", "value")

    def __init__(
        self, text: str, value: int, unit: str, readings: list[Reading], stored: list[Reading]
    ) -> None:
        self.text = text
        self.value = value
        self.unit = unit
        self.readings = readings
        self.stored = stored

    @property
    def exact(self) -> bool:
        """Whether it stands for one number alone."""
        return all(reading.exact for reading in self.readings or self.stored)


def parse(text: str, *, dtype: str | None = None) -> Figure:
    """A figure of parameters (`163037184`, `671B`) or of bytes (`13.5GB`, `26953670656 bytes`).

    `dtype`: the type that bytes are of; without it several widths are tried.

    >>> parse("8.03B").readings[0]
    Reading(bits=0, exact=False, high=8035000000, low=8025000000, note='', penalty=0)
    >>> parse("163,037,184").readings[0].low
    163037184
    """
    found = _NUMBER.fullmatch(text.strip().lower()) if len(text) <= MAX_TEXT else None
    if found is None:
        what = "a text of over 40 characters" if len(text) > MAX_TEXT else shown(text)
        raise BadInput(f"{what} is no number; write 163037184, 163,037,184, 671B, 13.5GB or 12.55GiB")
    unit = found["unit"]
    scale = _SCALES.get(unit) or _BYTES.get(unit) or (1 if not unit else None)
    if scale is None:
        raise BadInput(
            f"{shown(text)}: unknown unit {shown(found['unit'])}; counts have k, M, B or T, "
            "bytes have bytes, MB, GB, TB, MiB, GiB or TiB"
        )
    digits = found["whole"].replace(",", "").replace("_", "")
    decimals = found["part"] or ""
    step = Fraction(scale * 10 ** int(found["power"] or 0), 10 ** len(decimals))
    value = int(digits + decimals) * step
    if value == 0:
        raise BadInput(f"{shown(text)} is zero, and no model has no parameters")
    if value > MOST:
        raise BadInput(f"{shown(text)} is beyond 10^24, more than any model has")
    if value.denominator != 1 and unit in ("", "byte", "bytes"):
        raise BadInput(f"{shown(text)} is not a whole number; a rounded figure has a unit, such as 1.5B")
    return _figure(text.strip(), unit, value, step, digits + decimals, dtype)


def _figure(text: str, unit: str, value: Fraction, step: Fraction, digits: str, dtype: str | None) -> Figure:
    intervals = list(_intervals(unit, value, step, digits))
    if unit not in _BYTES:
        if dtype is not None:
            raise BadInput(f"{shown(text)} is a count of parameters; a dtype goes with bytes, such as 13.5GB")
        readings = [Reading(*found) for found in intervals]
        return Figure(text, int(value), "params", [*readings, *_as_bytes(readings)], [])
    from sizer.dtypes import bits

    widths = {bits(dtype): f"{dtype}, {bits(dtype) / 8:g} bytes a parameter"} if dtype else WIDTHS
    readings = []
    for low, high, exact, note, penalty in intervals:
        for width, words in widths.items():
            least, most = -(-low * 8 // width), high * 8 // width
            if least <= most:
                said = f"{note}; {words}" if note else words
                readings.append(Reading(least, most, exact, said, penalty, width))
    return Figure(text, int(value), "bytes", readings, [Reading(*found) for found in intervals])


def _as_bytes(readings: list[Reading]) -> Iterator[Reading]:
    """A whole number without a unit that is of bytes, as the `total_size` of an index is."""
    for bits in (16, 32):
        for one in readings:
            if one.exact and one.low * 8 % bits == 0:
                params = one.low * 8 // bits
                yield Reading(params, params, True, f"bytes, {WIDTHS[bits]}", 1, bits)


def _intervals(
    unit: str, value: Fraction, step: Fraction, digits: str
) -> Iterator[tuple[int, int, bool, str, int]]:
    """Between which whole numbers the figure lies, in its own unit: each way to read its digits."""
    if step <= 1 and value.denominator == 1:
        yield int(value), int(value), True, "", 0
        return
    yield *_between(value - step / 2, value + step / 2), False, "", 0
    yield *_between(value, value + step - Fraction(1, 10**9)), False, "cut off, not rounded", 1
    # 110M may be of two digits, as 1.1e8 is.
    zeros = min(len(digits) - len(digits.rstrip("0")), len(digits.lstrip("0")) - 2)
    if step.denominator == 1 and step.numerator >= 1 and zeros > 0:
        coarse = step * 10**zeros
        yield *_between(value - coarse / 2, value + coarse / 2), False, "rounded to two digits", 1
    other = _mistaken(unit)
    if other is not None:
        factor, note = other
        yield *_between((value - step / 2) * factor, (value + step / 2) * factor), False, note, 1


def _mistaken(unit: str) -> tuple[Fraction, str] | None:
    """A unit taken for its sister: how much larger what was meant is, and the words for it."""
    if unit in _DECIMAL:
        binary = unit[0] + "ib"
        meant = f"{_NAMES[binary]} printed as {_NAMES[unit]}"
        return Fraction(_BINARY[binary], _DECIMAL[unit]), meant
    if unit in _BINARY and unit[0] + "b" in _DECIMAL:
        decimal = unit[0] + "b"
        return Fraction(_DECIMAL[decimal], _BINARY[unit]), f"{_NAMES[decimal]} printed as {_NAMES[unit]}"
    if unit in _SCALES and unit != "k":
        power = {"m": 2, "b": 3, "t": 4}[unit[0]]
        return Fraction(1024, 1000) ** power, f"divided by 1,024 {power} times, not by 1,000"
    return None


def _between(low: Fraction, high: Fraction) -> tuple[int, int]:
    return -(-low.numerator // low.denominator), high.numerator // high.denominator
