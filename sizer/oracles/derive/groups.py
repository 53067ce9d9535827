"""Tensors that repeat: names without their indices, their shapes, and how often they stand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from sizer.core.poly import Poly
from sizer.core.record import Record
from sizer.oracles.compare import Found
from sizer.oracles.derive.expressions import Point, constant
from sizer.oracles.derive.fit import Fitter

# Members of one pattern with more different shapes than this follow no rule that is looked for.
MAX_CLASSES = 64
NUMBER = re.compile(r"\d+")


class Sample(NamedTuple):
    """A point and the tensors of the module that was built there."""

    point: Point
    tensors: Mapping[str, Found]


class Derived(Record):
    """Tensors of one pattern and one shape.

    `levels`: how many indices there are in each `{}` of the name; `times`: how many tensors that
    makes. `tied_to`: the pattern whose storage they share, and then nothing of it is counted.
    """

    __slots__ = ("levels", "members", "name", "shape", "tied_to", "times")

    def __init__(
        self,
        name: str,
        shape: tuple[Poly, ...],
        times: Poly,
        levels: tuple[Poly, ...],
        tied_to: str | None,
        members: tuple[str, ...],
    ) -> None:
        self.name = name
        self.shape = shape
        self.times = times
        self.levels = levels
        self.tied_to = tied_to
        self.members = members

    @property
    def each(self) -> Poly:
        """Elements of one of them."""
        return prod(self.shape, start=constant(1))


class Inexpressible(Exception):
    """A series that no expression was found for: of which tensor, its values, and whether they count it."""

    def __init__(
        self, name: str, what: str, series: Sequence[tuple[Point, int]], *, counts: bool = False
    ) -> None:
        self.name, self.what, self.series, self.counts = name, what, series, counts
        super().__init__(f"{name}: {what}")


def folded(name: str) -> tuple[str, tuple[int, ...]]:
    """A name with its indices taken out.

    >>> folded("h.3.mlp.weight")
    ('h.{}.mlp.weight', (3,))
    """
    parts = name.split(".")
    indices = tuple(int(part) for part in parts if part.isdecimal())
    return ".".join("{}" if part.isdecimal() else part for part in parts), indices


def deeply_folded(name: str) -> str:
    """A name without any number in it: those inside of words too.

    >>> deeply_folded("rnn.weight_ih_l1_reverse")
    'rnn.weight_ih_l{}_reverse'
    """
    return NUMBER.sub("{}", name)


def numbers(name: str) -> tuple[int, ...]:
    """The numbers that `deeply_folded` takes out."""
    return tuple(map(int, NUMBER.findall(name)))


def groups(samples: Sequence[Sample], fitter: Fitter) -> list[Derived]:
    """The tensors of all samples, folded; `Inexpressible` where one follows no expression."""
    shallow: dict[str, dict[str, None]] = {}
    often: dict[str, int] = {}
    for sample in samples:
        for name in sample.tensors:
            shallow.setdefault(folded(name)[0], {})[name] = None
        for pattern in {folded(name)[0] for name in sample.tensors}:
            often[pattern] = often.get(pattern, 0) + 1
    patterns: dict[str, dict[str, None]] = {}
    for pattern, names in shallow.items():
        # A number inside of a word is an index where the words come and go.
        deep = often[pattern] < len(samples) and NUMBER.search(pattern)
        patterns.setdefault(deeply_folded(pattern) if deep else pattern, {}).update(names)
    return [
        derived
        for pattern, names in patterns.items()
        for derived in _of_pattern(pattern, list(names), samples, fitter)
    ]


def _of_pattern(
    pattern: str,
    names: list[str],
    samples: Sequence[Sample],
    fitter: Fitter,
) -> list[Derived]:
    present = {name: [s for s in samples if name in s.tensors] for name in names}
    names = sorted(names, key=lambda name: (-len(present[name]), numbers(name)))
    classes: list[tuple[tuple[Poly, ...], list[str]]] = []
    for name in names:
        for shape, members in classes:
            if all(_has_shape(s, name, shape, fitter) for s in present[name]):
                members.append(name)
                break
        else:
            if len(classes) >= MAX_CLASSES:
                raise Inexpressible(
                    pattern, "its shape changes with its index", _series(present[name], name, 0)
                )
            classes.append((_shape(name, present[name], fitter), [name]))
    return [d for shape, members in classes for d in _counted(pattern, shape, members, samples, fitter)]


def _series(samples: Sequence[Sample], name: str, axis: int) -> list[tuple[Point, int]]:
    return [(s.point, s.tensors[name].shape[axis]) for s in samples if len(s.tensors[name].shape) > axis]


def _shape(name: str, samples: Sequence[Sample], fitter: Fitter) -> tuple[Poly, ...]:
    ranks = {len(s.tensors[name].shape) for s in samples}
    if len(ranks) > 1:
        raise Inexpressible(
            name, "the number of its dimensions", [(s.point, len(s.tensors[name].shape)) for s in samples]
        )
    shape = []
    for axis in range(ranks.pop()):
        series = _series(samples, name, axis)
        found = fitter.size(series)
        if found is None:
            raise Inexpressible(name, f"dimension {axis}", series)
        shape.append(found)
    return tuple(shape)


def _has_shape(sample: Sample, name: str, shape: tuple[Poly, ...], fitter: Fitter) -> bool:
    actual = sample.tensors[name].shape
    return len(actual) == len(shape) and all(
        fitter.value(poly, sample.point) == size for poly, size in zip(shape, actual, strict=True)
    )


def _counted(
    pattern: str,
    shape: tuple[Poly, ...],
    members: list[str],
    samples: Sequence[Sample],
    fitter: Fitter,
) -> list[Derived]:
    """The class with its counts: those with storage of their own, and those that share another's."""
    found = []
    for tied in (False, True):
        lists = [
            [n for n in members if n in s.tensors and (s.tensors[n].tied_to is not None) == tied]
            for s in samples
        ]
        if not any(lists):
            continue
        series = [(s.point, len(mine)) for s, mine in zip(samples, lists, strict=True)]
        times = fitter.count(series)
        if times is None:
            raise Inexpressible(pattern, "how often it stands", series, counts=True)
        name, depth = _literal(lists)
        levels = _levels(samples, lists, fitter, times, depth)
        last = next(i for i in range(len(lists) - 1, -1, -1) if lists[i])
        tied_to = samples[last].tensors[lists[last][0]].tied_to if tied else None
        found.append(Derived(name, shape, times, levels, tied_to and folded(tied_to)[0], tuple(lists[0])))
    return found


def _literal(lists: list[list[str]]) -> tuple[str, list[int]]:
    """The name with the numbers that never change written out, and the places of those that do."""
    every = [name for mine in lists for name in mine]
    indices = [numbers(name) for name in every]
    varying = [place for place in range(len(indices[0])) if len({entry[place] for entry in indices}) > 1]
    first, *pieces = NUMBER.split(every[0])
    filled = ("{}" if place in varying else str(index) for place, index in enumerate(indices[0]))
    return first + "".join(index + piece for index, piece in zip(filled, pieces, strict=True)), varying


def _levels(
    samples: Sequence[Sample], lists: list[list[str]], fitter: Fitter, times: Poly, depth: list[int]
) -> tuple[Poly, ...]:
    """How many indices each `{}` has, where the members are all their combinations."""
    if len(depth) <= 1:
        return (times,) * len(depth)
    sets = [[{numbers(n)[level] for n in mine} for level in depth] for mine in lists]
    if any(prod(len(x) for x in levels) != len(mine) for levels, mine in zip(sets, lists, strict=True)):
        return (times,)
    levels = []
    for place in range(len(depth)):
        found = fitter.count([(s.point, len(x[place])) for s, x in zip(samples, sets, strict=True)])
        if found is None:
            return (times,)
        levels.append(found)
    return tuple(levels)
