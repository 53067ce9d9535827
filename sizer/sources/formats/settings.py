"""The values of a tool's configuration, each checked as it is read, and what a format is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from sizer.core.dims import MAX_LAYERS, MAX_SIZE
from sizer.core.record import Record
from sizer.errors import InvalidConfig, UnknownKey, clip, shown
from sizer.sources.spelling import meant


class Described(NamedTuple):
    """What a file describes: an architecture, its fields, and what was assumed of it."""

    architecture: str
    given: dict[str, Any]
    assumptions: tuple[str, ...] = ()


class Settings:
    """The values of one file, asked for one by one; `null` counts as not given."""

    def __init__(self, values: Mapping[str, Any], name: str) -> None:
        self.values = values
        self.name = name
        self.asked: set[str] = set()

    def given(self, key: str) -> bool:
        """Whether the file has a value for the key."""
        self.asked.add(key)
        return self.values.get(key) is not None

    def get(self, key: str) -> Any:
        """The value as it stands in the file."""
        self.asked.add(key)
        return self.values.get(key)

    def size(self, key: str, default: int | None = None, *, least: int = 1) -> Any:
        """A whole number; the default where the file has none."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, value, "a whole number")
        if value < least:
            raise InvalidConfig(f"{self.name}: {key} = {shown(value)} must be at least {least}")
        if value > MAX_SIZE:
            raise InvalidConfig(
                f"{self.name}: {key} is beyond {MAX_SIZE:,}, the largest size that is accepted"
            )
        return value

    def needed(self, key: str) -> int:
        """A whole number that the file must have."""
        value: int | None = self.size(key)
        if value is None:
            raise InvalidConfig(f"{self.name}: {key} is missing")
        return value

    def count(self, key: str) -> int | None:
        """A whole number that means "none" when it is zero."""
        return self.size(key, least=0) or None

    def flag(self, key: str, default: bool = False) -> bool:
        """A switch."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def number(self, key: str, default: float | None = None) -> float | None:
        """A finite number of a sane magnitude."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_SIZE:
            raise self._wrong(key, value, "a number")
        return value

    def word(self, key: str, default: str, allowed: Iterable[str] = ()) -> str:
        """A word, one of those allowed where they are few."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or (allowed and value not in allowed):
            raise self._wrong(key, value, f"one of {', '.join(allowed)}" if allowed else "a word")
        return value

    def section(self, key: str) -> Settings | None:
        """A group of settings inside the file."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong(key, value, "a group of settings")
        return Settings(value, f"{self.name}: {key}")

    def numbers(self, key: str, length: int, allowed: tuple[int, ...] = (0, 1)) -> list[int] | None:
        """A list with a number for each layer; what goes beyond the layers is left out."""
        value = self.get(key)
        if value is None:
            return None
        if length > MAX_LAYERS:
            raise InvalidConfig(f"{self.name}: {key}: {length:,} layers are more than {MAX_LAYERS:,}")
        # Booleans equal 0 and 1 in Python, and mean the same here.
        if not isinstance(value, list | tuple) or not all(isinstance(v, int) and v in allowed for v in value):
            raise self._wrong(key, value, f"a list of {' or '.join(map(str, allowed))}, one a layer")
        if len(value) < length:
            raise InvalidConfig(f"{self.name}: {key} lists {len(value)} of {length} layers")
        return list(value[:length])

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """Name what a model of this file would have that cannot be counted."""
        for key, reason in reasons.items():
            if self.get(key) not in (None, False, 0, "", [], {}):
                raise InvalidConfig(f"{self.name}: {key} is set: {reason}, which sizer cannot count yet")

    def _wrong(self, key: str, value: object, rule: str) -> InvalidConfig:
        return InvalidConfig(f"{self.name}: {key} = {shown(value)} is not {rule}")


class Format(Record):
    """A tool's way to write a configuration.

    `title`: what it is called in messages. `required`: keys that each of its files has.
    `marks`: keys of which a file has at least one, as no other tool's has them. `weak`: keys that do
    as marks for a file that fits no other format. `excludes`: keys that none of its files has.
    `sizes`: our word for each size, and the key that holds it. `ignored`: keys that size nothing.
    `read`: says what model its settings describe.
    """

    __slots__ = ("excludes", "ignored", "marks", "read", "required", "sizes", "title", "weak")

    def __init__(
        self,
        title: str,
        read: Callable[[Settings], Described],
        *,
        required: tuple[str, ...] = (),
        marks: tuple[str, ...] = (),
        weak: tuple[str, ...] = (),
        excludes: tuple[str, ...] = (),
        sizes: Mapping[str, str],
        ignored: Iterable[str] = (),
    ) -> None:
        self.title = title
        self.read = read
        self.required = required
        self.marks = marks
        self.weak = weak
        self.excludes = excludes
        self.sizes = sizes
        self.ignored = frozenset(ignored)

    def fits(self, keys: Iterable[str], *, weakly: bool = False) -> bool:
        """Whether a file with these keys is of this format."""
        present = set(keys)
        if not present.issuperset(self.required) or not present.isdisjoint(self.excludes):
            return False
        if not self.marks and not self.weak:
            return True
        return not present.isdisjoint(self.weak if weakly else self.marks)

    def marked(self) -> str:
        """The keys that tell a file of this format from another's, for a message."""
        return " or ".join((*self.marks, *self.weak)[:2])

    def check_spelling(self, settings: Settings) -> None:
        """Refuse a key that is a size of this format, misspelt."""
        keys = (*self.required, *self.sizes.values())
        missing = [key for key in keys if key not in settings.values]
        known = self.ignored.union(keys, self.marks)
        for key in settings.values:
            near = meant(key, missing) if key not in known else None
            if near is not None:
                raise UnknownKey(f"{settings.name}: unknown key {clip(key)!r}; did you mean {near!r}?")

    def unknown(self, settings: Settings) -> list[str]:
        """Keys that the format does not have, once its reader has asked for those it has."""
        known = settings.asked.union(self.ignored, self.marks, self.sizes.values())
        return [key for key in settings.values if key not in known and not key.startswith("_")]
