"""Stages that stand in one list: which index is of which stage changes with the lengths of those before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sizer.oracles.derive.expressions import Point
from sizer.oracles.derive.fit import Fitter
from sizer.oracles.derive.folding import MAX_SHAPES, Derived, Sample, literal, numbers

Shape: TypeAlias = tuple[int, ...]


def staged(names: Sequence[str], samples: Sequence[Sample], fitter: Fitter) -> list[Derived] | None:
    """The tensors of a pattern by their shapes, in the order of the list or of size, if either fits."""
    known = sorted(names, key=numbers)
    occurring = [_members(known, sample) for sample in samples]
    if any(s.tensors[name].tied_to is not None for s in samples for name in known if name in s.tensors):
        return None
    orders: tuple[Callable[[dict[Shape, list[str]]], list[Shape]], ...] = (list, sorted)
    return next((f for order in orders if (f := _in_order(order, samples, occurring, fitter))), None)


def _members(names: Sequence[str], sample: Sample) -> dict[Shape, list[str]]:
    """Which tensors have each shape, in the order of their indices."""
    found: dict[Shape, list[str]] = {}
    for name in names:
        if name in sample.tensors:
            found.setdefault(tuple(sample.tensors[name].shape), []).append(name)
    return found


def _in_order(
    order: Callable[[dict[Shape, list[str]]], list[Shape]],
    samples: Sequence[Sample],
    occurring: Sequence[dict[Shape, list[str]]],
    fitter: Fitter,
) -> list[Derived] | None:
    """The n-th shape of each sample as one class, fitted where no two stages are of one shape."""
    most = max(map(len, occurring))
    if not 2 <= most <= MAX_SHAPES:
        return None
    full = [
        (s, order(shapes), shapes)
        for s, shapes in zip(samples, occurring, strict=True)
        if len(shapes) == most
    ]
    found: list[Derived] = []
    for place in range(most):
        shape = _fitted([(s.point, shapes[place]) for s, shapes, _ in full], fitter)
        times = fitter.count([(s.point, len(members[shapes[place]])) for s, shapes, members in full])
        if shape is None or times is None:
            return None
        at: list[Any] = [tuple(fitter.value(size, s.point) for size in shape) for s in samples]
        lists = [shapes.get(value, []) for value, shapes in zip(at, occurring, strict=True)]
        name, varying = literal(lists)
        found.append(Derived(name, shape, times, (times,) * min(len(varying), 1), None, tuple(lists[0])))
    return found


def _fitted(series: Sequence[tuple[Point, Shape]], fitter: Fitter) -> Any:
    """The expressions of a shape, all of one rank."""
    ranks = {len(shape) for _, shape in series}
    if len(ranks) > 1:
        return None
    sizes = [fitter.size([(point, shape[axis]) for point, shape in series]) for axis in range(ranks.pop())]
    return None if None in sizes else tuple(sizes)
