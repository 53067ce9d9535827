"""The values of a size, as people write them: `512:4096:512`, `12,24`, `512:8192:*2`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from sizer.core.dims import MAX_SIZE
from sizer.core.record import Record
from sizer.errors import InvalidConfig, clip
from sizer.sources.values import parse_value

# Values of one size that are written as a list, or reached by a factor.
MAX_LISTED = 1_000_000
EXAMPLE = "such as 512:4096:512, 512:8192:*2 or 12,24"


class Axis(Record):
    """A name and the values it takes, in order; `values` is a `range` where they are evenly spaced."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        self.name = name
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    @property
    def numeric(self) -> bool:
        """Whether all its values are whole numbers."""
        return isinstance(self.values, range) or all(type(value) is int for value in self.values)


def axis(name: str, text: str) -> Axis:
    """The axis that a text describes; the last value of a range is in it where a step reaches it.

    >>> axis("d_model", "512:2048:512").values
    range(512, 2049, 512)
    >>> axis("d_model", "512:4096:*2").values, axis("n_layers", "12,24:32:4").values
    ([512, 1024, 2048, 4096], [12, 24, 28, 32])
    """
    if len(text) > 100_000:
        raise InvalidConfig(f"{clip(name)}: more values than fit in a line; write a range, {EXAMPLE}")
    parts = [_part(name, part.strip()) for part in text.split(",")]
    if len(parts) == 1:
        return Axis(name, parts[0])
    if sum(map(len, parts)) > MAX_LISTED:
        raise InvalidConfig(f"{clip(name)}: more than {MAX_LISTED:,} values in a list; write one range")
    return Axis(name, [value for part in parts for value in part])


def axis_of(name: str, given: Any) -> Axis:
    """The axis of a text, a number, a range, or any list of values.

    >>> axis_of("n_layers", 12).values, axis_of("n_layers", range(2, 7, 2)).values
    ([12], range(2, 7, 2))
    """
    if isinstance(given, str):
        return axis(name, given)
    if given is None or isinstance(given, int | float):
        values: Any = [given]
    elif isinstance(given, range):
        values = given
    elif isinstance(given, Iterable):
        # An array's numbers as Python's own.
        values = [value.item() if hasattr(value, "item") else value for value in given]
    else:
        raise InvalidConfig(f"{clip(name)} = {clip(repr(given))} is no list of values")
    if not len(values):
        raise InvalidConfig(f"{clip(name)} has no value; give one, {EXAMPLE}")
    for value in (values[0], values[-1]) if isinstance(values, range) else values:
        if isinstance(value, float) or (isinstance(value, int) and not 0 <= value <= MAX_SIZE):
            raise InvalidConfig(f"{clip(name)} = {clip(value)} is no whole number from 0 to {MAX_SIZE:,}")
    return Axis(name, values)


def _part(name: str, text: str) -> Sequence[Any]:
    if not text:
        raise InvalidConfig(f"{clip(name)}: a value is missing in its list; write {EXAMPLE}")
    if ":" not in text:
        # What begins as a number is one; any other word is a switch or a name.
        return [_number(name, text) if re.match(r"[+-]?[.0-9]", text) else parse_value(text)]
    start, stop, *rest = (piece.strip() for piece in text.split(":"))
    if len(rest) > 1:
        raise InvalidConfig(f"{clip(name)} = {clip(text)} is no range; write start:stop:step, {EXAMPLE}")
    low, high = _number(name, start), _number(name, stop)
    if high < low:
        raise InvalidConfig(
            f"{clip(name)} = {clip(text)} is empty: {low} is more than {high}; write the smaller one first"
        )
    step = rest[0] if rest else "1"
    if step.startswith("*"):
        return _geometric(name, text, low, high, _number(name, step[1:]))
    stride = _number(name, step)
    if stride < 1:
        raise InvalidConfig(f"{clip(name)} = {clip(text)} never ends: its step is {step}; use 1 or more")
    return range(low, high + 1, stride)


def _geometric(name: str, text: str, low: int, high: int, factor: int) -> list[int]:
    if factor < 2 or low < 1:
        why = f"its factor is {factor}; use *2 or more" if low else "0 times a factor is 0; begin at 1"
        raise InvalidConfig(f"{clip(name)} = {clip(text)} never ends: {why}")
    values = [low]
    while values[-1] * factor <= high:
        values.append(values[-1] * factor)
    return values


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9][0-9_]{0,30}", text):
        raise InvalidConfig(f"{clip(name)}: {clip(repr(text))} is no whole number; write {EXAMPLE}")
    number = int(text)
    if number < 0:
        raise InvalidConfig(f"{clip(name)} = {number} is negative; sizes are 1 or more")
    if number > MAX_SIZE:
        raise InvalidConfig(f"{clip(name)} is beyond {MAX_SIZE:,}, the largest size that is accepted")
    return number
