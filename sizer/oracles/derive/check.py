"""Fresh points: whether the formula is the module's there, and how sure that makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sizer.core.poly import Poly
from sizer.core.record import Record
from sizer.oracles.derive.expressions import Point, evaluate
from sizer.oracles.derive.fit import degrees
from sizer.oracles.derive.folding import Derived, Sample, deeply_folded
from sizer.oracles.derive.points import Space

# Draws that a module may refuse for each that it accepts.
REFUSALS = 8


class Checked(Record):
    """How a formula was checked.

    `points`: fresh points at which every shape and the total agreed. `refused`: points that the
    module did not accept. `bound`: the probability that a wrong polynomial of the same degrees
    agrees at all of them. `wrong`: a point where it did not agree.
    """

    __slots__ = ("bound", "points", "polynomial", "refused", "total", "wrong")

    def __init__(
        self,
        points: int,
        refused: int,
        wrong: Sample | None,
        total: Poly,
        bound: float | None = None,
        polynomial: bool = True,
    ) -> None:
        self.points = points
        self.refused = refused
        self.wrong = wrong
        self.total = total
        self.bound = bound
        self.polynomial = polynomial

    def with_values(self, space: Space, given: Mapping[str, int]) -> Checked:
        """The same with its bound.

        Schwartz and Zippel, argument by argument: a polynomial that is not zero, of degree d in one
        that is drawn from n values, is not zero for at least 1 - d/n of them.
        """
        free = [name for name in space.free() if name in given]
        sees = 1.0
        for name, degree in degrees(self.total, free).items():
            low, high = space.windows[name]
            sees *= max(0.0, 1 - degree / (high - low + 1))
        return self._replace(bound=(1 - sees) ** self.points)


def check(found: Iterable[Derived], fresh: Callable[[], Sample | None], points: int) -> Checked:
    """Compare at as many fresh points, until one differs."""
    tensors = list(found)
    total = sum((t.each * t.times for t in tensors if t.tied_to is None), start=Poly({}))
    agreed = refused = 0
    while agreed < points and refused < REFUSALS * points:
        sample = fresh()
        if sample is None:
            refused += 1
            continue
        if differing(tensors, sample):
            return Checked(agreed, refused, sample, total)
        agreed += 1
    return Checked(agreed, refused, None, total)


def differing(found: Iterable[Derived], sample: Sample) -> str:
    """The first tensor whose shape or count is not the formula's at a point; nothing if none is."""
    wanted: dict[tuple[str, tuple[int, ...], bool], int] = {}
    for tensor in found:
        try:
            shape = tuple(_whole(poly, sample.point) for poly in tensor.shape)
            times = _whole(tensor.times, sample.point)
        except ZeroDivisionError:
            return f"{tensor.name} divides by zero"
        key = deeply_folded(tensor.name), shape, tensor.tied_to is not None
        wanted[key] = wanted.get(key, 0) + times
    actual: dict[tuple[str, tuple[int, ...], bool], int] = {}
    for entry in sample.tensors.values():
        key = deeply_folded(entry.name), tuple(entry.shape), entry.tied_to is not None
        actual[key] = actual.get(key, 0) + 1
    for key in {**actual, **wanted}:
        mine, theirs = wanted.get(key, 0), actual.get(key, 0)
        if mine != theirs:
            return f"{key[0]} {list(key[1])} stands {theirs} times, and {mine} by the formula"
    return ""


def _whole(poly: Poly, point: Point) -> int:
    value = evaluate(poly, point)
    return int(value) if value == int(value) else -1
