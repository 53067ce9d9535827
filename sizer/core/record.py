"""The base of the small classes that everything is made of."""

from __future__ import annotations

from typing import Any, Self


class Record:
    """A class of named fields that is made once and never changed.

    Its subclasses are written out, since they are on the path of every command: a dataclass takes
    a hundred times as long to define, and four times as long to make an instance of.
    """

    __slots__: tuple[str, ...] = ()

    def _replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return type(self)(**({name: getattr(self, name) for name in self.__slots__} | changes))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__slots__))

    def __repr__(self) -> str:
        named = (name for name in self.__slots__ if not name.startswith("_"))
        fields = ", ".join(f"{name}={_short(getattr(self, name))}" for name in named)
        return f"{type(self).__name__}({fields})"


# A list that is longer than this in letters hides the figures that a person asked for.
_LONG = 160


def _short(value: Any) -> str:
    """A field as Python writes it; of a long list how many there are of what."""
    shown = repr(value)
    if len(shown) <= _LONG or not isinstance(value, list | tuple):
        return shown
    return f"<{len(value)} × {type(value[0]).__name__}>"
