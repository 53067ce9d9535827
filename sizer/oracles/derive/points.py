"""Points at which a module can be built: random arguments that respect what belongs together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from random import Random

from sizer.core.poly import Poly
from sizer.oracles.derive.expressions import Number, Point, arguments, evaluate
from sizer.oracles.derive.trace import Record as Trace

ROUNDS = 60
STEPS = 4_000
# Refused points that make a suspicion a rule.
ENOUGH = 3


class Space:
    """The points that are drawn: a window for each argument, and rules between them.

    `divisions`: what is a multiple of what. `comparisons`: what is equal to, less or greater than
    what, as it was where the module was built first.
    """

    def __init__(
        self, base: Point, windows: Mapping[str, tuple[int, int]], trace: Trace, *, pinned: bool = True
    ) -> None:
        self.base = dict(base)
        self.windows = dict(windows)
        self.divisions = [(a, b) for a, b in trace.divisions if divides(a, b, base)]
        self.comparisons = [
            (word, a, b)
            for word, a, b in trace.comparisons
            if holds(word, a, b, base) and len(a.terms) < 4 and (pinned or word != "==" or arguments(b))
        ]
        # Numbers that divide: rules only if the module turns out to refuse what they do not divide.
        self.remainders = [(a, b) for a, b in trace.remainders if divides(a, b, base)]
        self.suspected: dict[tuple[Poly, Poly], int] = {}
        self.fixed: set[str] = set()
        # Comparisons that may come out otherwise, as far as the names of tensors say.
        self.dropped: list[tuple[str, Poly, Poly]] = []
        # How far away arguments are drawn where a far point is asked for.
        self.far: dict[str, int] = {}

    def free(self) -> list[str]:
        """The arguments that vary."""
        return [name for name in self.windows if name not in self.fixed]

    def draw(
        self, random: Random, vary: Iterable[str] | None = None, *, keep: bool = False, far: bool = False
    ) -> dict[str, int] | None:
        """A point within the windows that keeps the rules; nothing where none is found.

        `vary`: the arguments to draw, the others keep their base values unless a rule moves them.
        `keep`: rather move others than those. `far`: beyond the windows too, where `self.far` says so.
        """
        wanted = self.windows.keys() if vary is None else set(vary)
        # In one order, whatever the order of a set is: the same seed has to draw the same points.
        names = [name for name in self.free() if name in wanted]
        point = dict(self.base)
        for name in names:
            low, high = self.windows[name]
            point[name] = random.randint(low, max(high, self.far.get(name, high) if far else high))
        kept = set(names) if keep else set()
        return self.repaired(point, random, set(self.free()) - kept) or (
            self.repaired(point, random, set(self.free())) if kept else None
        )

    def learn(self, point: Point, *, accepted: bool) -> None:
        """Numbers that divide become rules where only points that break them are refused."""
        for rule in self.remainders:
            if not divides(*rule, point):
                self.suspected[rule] = -1_000 if accepted else self.suspected.get(rule, 0) + 1
                if self.suspected[rule] >= ENOUGH:
                    self.divisions.append(rule)
        self.remainders = [rule for rule in self.remainders if rule not in self.divisions]

    def repaired(self, start: Mapping[str, int], random: Random, movable: set[str]) -> dict[str, int] | None:
        """The point moved until every rule holds."""
        point = dict(start)
        for _ in range(ROUNDS):
            broken = next((r for r in self.divisions if not divides(*r, point)), None)
            if broken is not None:
                if not self._make_multiple(point, *broken, movable, random):
                    return None
                continue
            unequal = next((r for r in self.comparisons if not holds(*r, point)), None)
            if unequal is None:
                return point
            if not self._compare(point, *unequal, movable, random):
                return None
        return None

    def _make_multiple(
        self, point: dict[str, int], dividend: Poly, divisor: Poly, movable: set[str], random: Random
    ) -> bool:
        """Raise an argument of the dividend to the next value that divides; else redraw the divisor."""
        below = _value(divisor, point)
        # No dividend is a multiple of nothing.
        own = arguments(dividend) & movable - arguments(divisor) if below > 0 else frozenset[str]()
        name = bare(dividend)
        if name in own and isinstance(below, int):
            point[name] += -point[name] % below
            return True
        for name in sorted(own, key=lambda n: (-point[n], n)):
            start = point[name]
            for step in range(STEPS):
                point[name] = start + step
                if divides(dividend, divisor, point):
                    return True
            point[name] = start
        for name in sorted(arguments(divisor) & movable):
            start = point[name]
            for value in random.sample(range(1, start + 1), min(start, 64)):
                point[name] = value
                if divides(dividend, divisor, point):
                    return True
            point[name] = start
        return False

    def _compare(
        self, point: dict[str, int], word: str, left: Poly, right: Poly, movable: set[str], random: Random
    ) -> bool:
        sides = [(left, right), (right, left)]
        if word == "==":
            for mine, other in sides:
                name = bare(mine)
                value = evaluate(other, point)
                if name in movable and isinstance(value, int) and value > 0:
                    point[name] = value
                    return True
        for mine, _other in sides:
            for name in sorted(arguments(mine) & movable):
                low, high = self.windows.get(name, (point[name], point[name]))
                start = point[name]
                for _ in range(48):
                    point[name] = random.randint(low, high + (high - low))
                    if holds(word, left, right, point):
                        return True
                point[name] = start
        return False


def _value(poly: Poly, point: Point) -> Number:
    """The value at a point; zero where it divides by zero."""
    try:
        return evaluate(poly, point)
    except ZeroDivisionError:
        return 0


def bare(poly: Poly) -> str:
    """The argument that an expression is, where it is one alone."""
    if len(poly.terms) == 1:
        ((monomial, coefficient),) = poly.terms.items()
        if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
            return monomial[0][0]
    return ""


def divides(dividend: Poly, divisor: Poly, point: Point) -> bool:
    """Whether one is a multiple of the other at a point."""
    try:
        above, below = evaluate(dividend, point), evaluate(divisor, point)
        if isinstance(above, int) and isinstance(below, int):
            return above % below == 0
        return Fraction(above) % below == 0
    except ZeroDivisionError:
        return False


def holds(word: str, left: Poly, right: Poly, point: Point) -> bool:
    """Whether a comparison comes out as that word says."""
    try:
        a, b = evaluate(left, point), evaluate(right, point)
    except ZeroDivisionError:
        return False
    return {"==": a == b, "!=": a != b, "<": a < b, ">": a > b}[word]


def windows(
    base: Point, counts: Iterable[str], trace: Trace, *, around: Point | None = None
) -> dict[str, tuple[int, int]]:
    """Where each argument is drawn: small counts, and widths of a hundred or so.

    Of counts, those that are less than half of the largest stay below it: leading dense layers.

    With `around`, widths are drawn from their own values upwards, for modules that accept no others.
    """
    counted = set(counts)
    most = max((base[name] for name in counted if name in base and "expert" not in name), default=0)
    heads = {bare(divisor) for _, divisor in trace.divisions}
    found: dict[str, tuple[int, int]] = {}
    for name, value in base.items():
        if value <= 0:
            found[name] = (value, 3)
        elif name in counted and "expert" in name and value > 4:
            # Experts stand in every layer: many of both make a build slow, and say no more.
            found[name] = (2, 5)
        elif name in counted:
            found[name] = (1, 4) if value <= 4 or 2 * value <= most else (5, 9)
        elif around is not None:
            found[name] = (around[name], 2 * around[name] + 3)
        elif name in heads or value <= 4:
            # What divides a width stays small, so that the width has room.
            found[name] = (1, 12 if value > 4 else 5)
        elif value <= 24:
            found[name] = (1, 2 * value + 3)
        else:
            found[name] = (min(value, 24), 160)
    return found
