"""How the layers of one model differ: in kind (a pattern) or in size (a list of sizes).

Both stay short in a formula: `L_full` layers of one kind and `L_window` of another, rather than
sixty-two separate blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sizer.core.dims import Dim
from sizer.core.poly import symbol
from sizer.core.record import Record
from sizer.core.tree import Layers
from sizer.errors import InvalidConfig, clip

# Layers repeat after a few; looking for more would take long for a list that somebody made up.
LONGEST_CYCLE = 128


class Pattern(Record):
    """The kind of each layer, in order: `Pattern(("window", "window", "full"))`."""

    __slots__ = ("kinds", "letter")

    def __init__(self, kinds: tuple[str, ...], letter: str | None = None) -> None:
        self.kinds = kinds
        self.letter = letter

    def __len__(self) -> int:
        return len(self.kinds)

    def layers(self, *kinds: str, among: tuple[str, ...] = ()) -> Layers:
        """The layers of any of these kinds; with `among`, their places among the layers of those.

        >>> Pattern(("a", "b", "a", "c")).layers("a", "c")
        Layers(count=3, indices=(0, 2, 3))
        >>> Pattern(("a", "b", "a", "c")).layers("c", among=("a", "c"))
        Layers(count=1, indices=(2,))
        """
        if self.letter is None:
            all_of_them = [kind for kind in self.kinds if not among or kind in among]
            found = tuple(i for i, kind in enumerate(all_of_them) if kind in kinds)
            return Layers(len(found), found)
        present = [kind for kind in dict.fromkeys(self.kinds) if kind in kinds]
        return Layers(sum((symbol(f"{self.letter}_{kind}") for kind in present), start=0))

    def kinds_like(self, prefix: str) -> tuple[str, ...]:
        """The kinds whose name begins so, in the order in which they first occur."""
        return tuple(kind for kind in dict.fromkeys(self.kinds) if kind.startswith(prefix))

    def check(self, name: str, n_layers: int, kinds: tuple[str, ...]) -> None:
        """Refuse a pattern `name` that does not say of each layer which of some kinds it is."""
        if len(self.kinds) != n_layers:
            raise InvalidConfig(
                f"{name} lists {len(self.kinds)} layers and n_layers = {n_layers}; give one kind a layer"
            )
        unknown = next((kind for kind in self.kinds if kind not in kinds), None)
        if unknown is not None:
            raise InvalidConfig(f"{name} has {clip(unknown)!r}; a layer is {' or '.join(kinds)}")

    def has(self, *kinds: str) -> bool:
        """Whether any layer is of one of these kinds: a switch, not a size."""
        return any(kind in self.kinds for kind in kinds)

    def resized(self, n_layers: int) -> Pattern:
        """The pattern of as many layers: cut off, or repeated where it is periodic.

        >>> Pattern(("dense", "a", "b", "a", "b")).resized(8).kinds
        ('dense', 'a', 'b', 'a', 'b', 'a', 'b', 'a')
        """
        return Pattern(resized(self.kinds, n_layers), self.letter)

    def symbolic(self, letter: str) -> tuple[Pattern, dict[str, int]]:
        """The pattern with counts as symbols, and the count each symbol stands for."""
        counts = {f"{letter}_{kind}": self.kinds.count(kind) for kind in dict.fromkeys(self.kinds)}
        return Pattern(self.kinds, letter), counts


class PerLayer(Record):
    """A size for each layer, in order: `PerLayer((1536, 1536, 2048))`; `None` where it has none."""

    __slots__ = ("letter", "values")

    def __init__(self, values: tuple[int | None, ...], letter: str | None = None) -> None:
        self.values = values
        self.letter = letter

    def __repr__(self) -> str:
        # In a message it is the list that somebody wrote.
        return repr(list(self.values))

    def __len__(self) -> int:
        return len(self.values)

    def groups(self) -> Iterator[tuple[Dim, Layers]]:
        """Each distinct size with the layers that have it.

        >>> list(PerLayer((16, 16, 32)).groups())
        [(16, Layers(count=2, indices=(0, 1))), (32, Layers(count=1, indices=(2,)))]
        """
        layers: dict[int | None, list[int]] = {}
        for i, value in enumerate(self.values):
            layers.setdefault(value, []).append(i)
        for value in self.distinct():
            found = tuple(layers[value])
            if self.letter is None:
                yield value, Layers(len(found), found)
            else:
                name = f"{self.letter}_{value}"
                yield symbol(name), Layers(symbol(f"L_{name}"), None)

    def sizes(self) -> list[Dim]:
        """The size of each layer, in order.

        >>> PerLayer((16, 32), "F").sizes()
        [F_16, F_32]
        """
        if self.letter is None:
            return list(self.values)
        return [None if value is None else symbol(f"{self.letter}_{value}") for value in self.values]

    def distinct(self) -> list[int]:
        """The sizes that occur, in the order of the layers."""
        return [value for value in dict.fromkeys(self.values) if value is not None]

    def resized(self, n_layers: int) -> PerLayer:
        """The sizes of as many layers: cut off, or repeated where they are periodic."""
        return PerLayer(resized(self.values, n_layers), self.letter)

    def symbolic(self, letter: str) -> tuple[PerLayer, dict[str, int]]:
        """The sizes as symbols `F_1536`, and what each symbol stands for."""
        values: dict[str, int] = {}
        counts = Counter(self.values)
        for value in self.distinct():
            values[f"{letter}_{value}"] = value
            values[f"L_{letter}_{value}"] = counts[value]
        return PerLayer(self.values, letter), values


def resized(items: Sequence[Any], length: int) -> tuple[Any, ...]:
    """A list with an entry a layer for another number of layers, where its form says how it goes on.

    A form is a few layers at the start and a cycle that is seen at least twice; the shortest one
    counts. Without one nobody can say what the other layers are, which is an error.

    >>> resized("wwfwwfw", 4)
    ('w', 'w', 'f', 'w')
    """
    if length == len(items):
        return tuple(items)
    start, period = form(items)
    if period == 0:
        raise InvalidConfig(
            f"its {len(items)} layers follow no repeating pattern, so {length} layers have none either; "
            "give a list with an entry a layer, or keep the number of layers"
        )
    return tuple(items[i] if i < start else items[start + (i - start) % period] for i in range(length))


def form(items: Sequence[Any]) -> tuple[int, int]:
    """How many entries come first, and the length of the cycle after them; a cycle of 0 is none.

    >>> form("dababab"), form("abcabcab"), form("abcdefaa")
    ((1, 2), (0, 3), (0, 0))
    """
    total = len(items)
    best = (0, 0)
    for period in range(1, min(total // 2, LONGEST_CYCLE) + 1):
        start = total - period
        while start and items[start - 1] == items[start - 1 + period]:
            start -= 1
        # What repeats at the end of a list without order is no cycle; a few layers unlike the rest are.
        enough = start + 2 * period <= total and (2 if period == 1 else 3) * start <= total
        if enough and (best == (0, 0) or start + period < sum(best)):
            best = (start, period)
    return best
