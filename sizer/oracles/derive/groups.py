"""Tensors that repeat: names without their indices, their shapes, and how often they stand."""

from __future__ import annotations

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
    """A series that no expression was found for: of which tensor, and its values."""

    def __init__(self, name: str, what: str, series: Sequence[tuple[Point, int]]) -> None:
        self.name, self.what, self.series = name, what, series
        super().__init__(f"{name}: {what}")


def folded(name: str) -> tuple[str, tuple[int, ...]]:
    """A name with its indices taken out.

    >>> folded("h.3.mlp.weight")
    ('h.{}.mlp.weight', (3,))
    """
    parts = name.split(".")
    indices = tuple(int(part) for part in parts if part.isdecimal())
    return ".".join("{}" if part.isdecimal() else part for part in parts), indices


def groups(samples: Sequence[Sample], fitter: Fitter) -> list[Derived]:
    """The tensors of all samples, folded; `Inexpressible` where one follows no expression."""
    patterns: dict[str, dict[str, None]] = {}
    for sample in samples:
        for name in sample.tensors:
            patterns.setdefault(folded(name)[0], {})[name] = None
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
    names = sorted(names, key=lambda name: (-len(present[name]), folded(name)[1]))
    classes: list[tuple[tuple[Poly, ...], list[str]]] = []
    for name in names:
        for shape, members in classes:
            if all(_has_shape(s, name, shape, fitter) for s in present[name]):
                members.append(name)
                break
        else:
            if len(classes) >= MAX_CLASSES:
                raise Inexpressible(pattern, "its shape changes with its index", _series(present[name], name, 0))
            classes.append((_shape(name, present[name], fitter), [name]))
    return [d for shape, members in classes for d in _counted(pattern, shape, members, samples, fitter)]


def _series(samples: Sequence[Sample], name: str, axis: int) -> list[tuple[Point, int]]:
    return [(s.point, s.tensors[name].shape[axis]) for s in samples if len(s.tensors[name].shape) > axis]


def _shape(name: str, samples: Sequence[Sample], fitter: Fitter) -> tuple[Poly, ...]:
    ranks = {len(s.tensors[name].shape) for s in samples}
    if len(ranks) > 1:
        raise Inexpressible(name, "the number of its dimensions", [(s.point, len(s.tensors[name].shape)) for s in samples])
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
            [n for n in members if n in s.tensors and (s.tensors[n].tied_to is not None) == tied] for s in samples
        ]
        if not any(lists):
            continue
        series = [(s.point, len(mine)) for s, mine in zip(samples, lists, strict=True)]
        times = fitter.count(series)
        if times is None:
            raise Inexpressible(pattern, "how often it stands", series)
        levels = _levels(samples, lists, fitter, times)
        last = next(i for i in range(len(lists) - 1, -1, -1) if lists[i])
        tied_to = samples[last].tensors[lists[last][0]].tied_to if tied else None
        found.append(Derived(pattern, shape, times, levels, tied_to and folded(tied_to)[0], tuple(lists[0])))
    return found


def _levels(
    samples: Sequence[Sample], lists: list[list[str]], fitter: Fitter, times: Poly
) -> tuple[Poly, ...]:
    """How many indices each `{}` has, where the members are all their combinations."""
    depth = len(folded(next(m for m in lists if m)[0])[1])
    if depth == 1:
        return (times,)
    sets = [[{folded(n)[1][level] for n in mine} for level in range(depth)] for mine in lists]
    if any(prod(len(x) for x in levels) != len(mine) for levels, mine in zip(sets, lists, strict=True)):
        return (times,)
    levels = []
    for level in range(depth):
        found = fitter.count([(s.point, len(x[level])) for s, x in zip(samples, sets, strict=True)])
        if found is None:
            return (times,)
        levels.append(found)
    return tuple(levels)
