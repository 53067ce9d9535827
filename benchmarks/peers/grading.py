"""What a tool answered, and how far that is from what is right."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

SUFFIXES = {"": 1, "K": 10**3, "k": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}
BINARY = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
BINARY |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@dataclass(frozen=True)
class Number:
    """A number as it was given: `half` is half a unit of its last digit, 0 for a whole one.

    `tokens`: the length it was given for, where the tool has a fixed one.
    """

    value: float
    half: float = 0
    tokens: int | None = None

    def scaled(self, factor: float) -> Number:
        return Number(self.value * factor, self.half * factor, self.tokens)


Answers = dict[str, Number]


def rounded(text: str, units: dict[str, int]) -> Number:
    """A printed number with a unit, such as `8.03B` or `1.00 GB`.

    >>> rounded("8.03B", SUFFIXES)
    Number(value=8030000000.0, half=5000000.0, tokens=None)
    """
    found = re.fullmatch(r"([\d,]+(?:\.(\d+))?)\s*([A-Za-z]*)", text.strip())
    if not found or found[3] not in units:
        raise ValueError(f"no number: {text!r}")
    unit, digits = units[found[3]], len(found[2] or "")
    value = Decimal(found[1].replace(",", "")) * unit
    half = 0 if unit == 1 and not digits else Decimal(unit) / 2 / 10**digits
    return Number(float(value), float(half))


@dataclass(frozen=True)
class Cell:
    """What stands in a table: a mark, and what it rests on."""

    text: str
    right: bool | None


NOTHING = Cell("–", None)


def grade(number: Number | None, right: tuple[int, ...]) -> Cell:
    """✓ exact, ≈ right in the digits that are shown, ✗ with how far off, – no answer."""
    if number is None:
        return NOTHING
    if not number.half and number.value in right:
        return Cell("✓", True)
    # The slack of a hundredth is for what was divided in floating point before it was rounded.
    if number.half and any(abs(number.value - value) <= 1.01 * number.half for value in right):
        return Cell("≈", True)
    nearest = min(right, key=lambda value: abs(number.value - value))
    ratio = number.value / nearest
    if abs(ratio - 1) < 0.0005:
        return Cell(f"✗ {number.value - nearest:+,.0f}", False)
    if abs(ratio - 1) < 0.1:
        return Cell(f"✗ {100 * (ratio - 1):+.2g} %", False)
    return Cell(f"✗ {ratio:.2f} ×" if ratio < 10 else f"✗ {ratio:.1f} ×", False)
