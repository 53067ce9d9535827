"""Tensors that repeat: names without their indices, their shapes, and how often they stand."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sizer.core.poly import Poly
from sizer.oracles.derive.expressions import Point
from sizer.oracles.derive.fit import Fitter
from sizer.oracles.derive.folding import (
    MAX_SHAPES,
    NUMBER,
    Derived,
    Sample,
    deeply_folded,
    folded,
    literal,
    numbers,
)
from sizer.oracles.derive.stages import staged


class Inexpressible(Exception):
    """A series that no expression was found for: of which tensor, its values, and whether they count it."""

    def __init__(
        self, name: str, what: str, series: Sequence[tuple[Point, int]], *, counts: bool = False
    ) -> None:
        self.name, self.what, self.series, self.counts = name, what, series, counts
        super().__init__(f"{name}: {what}")


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


def _of_pattern(pattern: str, names: list[str], samples: Sequence[Sample], fitter: Fitter) -> list[Derived]:
    """The classes of a pattern: each index with one shape, or else each shape at what indices it has."""
    try:
        return _by_index(pattern, names, samples, fitter)
    except Inexpressible:
        found = staged(names, samples, fitter)
        if found is None:
            raise
        return found


def _by_index(pattern: str, names: list[str], samples: Sequence[Sample], fitter: Fitter) -> list[Derived]:
    present = {name: [s for s in samples if name in s.tensors] for name in names}
    names = sorted(names, key=lambda name: (-len(present[name]), numbers(name)))
    classes: list[tuple[tuple[Poly, ...], list[str]]] = []
    for name in names:
        for shape, members in classes:
            if all(_has_shape(s, name, shape, fitter) for s in present[name]):
                members.append(name)
                break
        else:
            if len(classes) >= MAX_SHAPES:
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
        name, depth = literal(lists)
        levels = _levels(samples, lists, fitter, times, depth)
        last = next(i for i in range(len(lists) - 1, -1, -1) if lists[i])
        tied_to = samples[last].tensors[lists[last][0]].tied_to if tied else None
        found.append(Derived(name, shape, times, levels, tied_to and folded(tied_to)[0], tuple(lists[0])))
    return found


def _levels(
    samples: Sequence[Sample], lists: list[list[str]], fitter: Fitter, times: Poly, depth: list[int]
) -> tuple[Poly, ...]:
    """How many indices each `{}` has, where the members are all their combinations."""
    if len(depth) <= 1:
        return (times,) * len(depth)
    sets = [[{numbers(n)[level] for n in mine} for level in depth] for mine in lists]
    if any(prod(len(x) for x in levels) != len(mine) for levels, mine in zip(sets, lists, strict=True)):
        return (times,)
    levels = [
        fitter.count([(s.point, len(x[place])) for s, x in zip(samples, sets, strict=True)])
        for place in range(len(depth))
    ]
    known = tuple(level for level in levels if level is not None)
    return known if len(known) == len(levels) else (times,)
