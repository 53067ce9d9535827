"""The search: every size but one is tried, and the polynomial is solved for that one by bisection.

What is a multiple of what narrows each step; a part of the tree whose smallest model is twice too
large, or whose largest is half too small, is left out. A count of steps bounds the whole.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Any

from sizer.core.poly import Monomial, Poly, as_poly, symbol
from sizer.errors import InvalidConfig, SizerError
from sizer.planning.forms import Lettered
from sizer.planning.shape import Link, Shape
from sizer.planning.targets import Target

# Combinations of sizes that are looked at: some seconds.
MOST_STEPS = 300_000
# Answers that are kept for the ledger to count again.
KEPT = 400
# Steps to either side of a size that the architecture refuses.
NEIGHBOURS = 64

Terms = dict[Monomial, Any]


class TooLargeError(Exception):
    """The search would take too long."""


class Found(dict[str, int]):
    """The sizes of an answer: those that are free and those that follow."""


class Search:
    """The search for the sizes of a shape that reach the targets."""

    def __init__(
        self,
        shape: Shape,
        lettered: Lettered,
        targets: Sequence[Target],
        *,
        usual: bool = True,
        most_steps: int = MOST_STEPS,
        only_exact: bool = False,
    ) -> None:
        self.shape = shape
        self.lettered = lettered
        self.targets = targets
        self.usual = usual
        self.only_exact = only_exact
        self.most_steps = most_steps
        self.steps = 0
        self.codes = lettered.codes
        self.links = list(shape.links.values())
        self.rounded = {link.field: link for link in self.links if not link.exact}
        self.polys = [self._reduced(target.poly) for target in targets]
        self.domains = {name: shape.domain(name, any_multiple=not usual) for name in shape.free}
        self.order = self._order()
        self._conditions = [as_poly(one.dividend / one.divisor) for one in lettered.conditions]
        self._heap: list[tuple[Fraction, int, Found]] = []
        self._seen = 0

    # -- preparation ---------------------------------------------------------------------------

    def _reduced(self, poly: Poly) -> Poly:
        """A target over the letters of what is free, of what is rounded, and of lists of layers."""
        values: dict[str, int | Poly] = {}
        depth = self.shape.varies("n_layers")
        lists = self.lettered.at_depth(self.shape.model.config.n_layers) if self.lettered.listed else {}  # type: ignore[attr-defined]
        for code, number in self.lettered.numbers.items():
            name = self.lettered.names.get(code, "")
            if self.shape.varies(name) or (depth and code in lists):
                continue
            known = self.shape.base(name) if name else None
            values[code] = number if known is None else known
        for link in self.links:
            if link.exact:
                ratio: Any = link.ratio if link.ratio.denominator > 1 else link.ratio.numerator
                source = values.get(self.codes[link.source], symbol(self.codes[link.source]))
                values[self.codes[link.field]] = source * ratio
        return as_poly(poly.subs(values))

    def _order(self) -> list[str]:
        """Free sizes in the order they are tried: depth first, the one to solve for last."""
        moving = [name for name in self.shape.free if self._moves(name)]
        still = [name for name in self.shape.free if name not in moving]
        if still:
            names = " and ".join(target.name for target in self.targets)
            raise InvalidConfig(
                f"{names} {'does' if len(self.targets) == 1 else 'do'} not depend on {', '.join(still)}, so "
                "every value answers; fix it with --set"
            )
        first = self.polys[0]
        candidates = [name for name in moving if self._dependent(first, name)] or moving
        last = max(
            candidates,
            key=lambda name: (self._rises(first, name), name != "n_layers", len(self.domains[name])),
        )
        rest = sorted(
            (name for name in moving if name != last),
            key=lambda name: (name != "n_layers", len(self.domains[name])),
        )
        return [*rest, last]

    def _letters(self, name: str) -> set[str]:
        """The letters that a free size decides in the reduced polynomials."""
        found = {self.codes[name]}
        found |= {self.codes[f] for f, link in self.rounded.items() if self._root(link) == name}
        if name == "n_layers" and self.lettered.listed:
            found |= set(self.lettered.at_depth(self.shape.model.config.n_layers))  # type: ignore[attr-defined]
        return found

    def _root(self, link: Link) -> str:
        source = link.source
        while source in self.shape.links:
            source = self.shape.links[source].source
        return source

    def _dependent(self, poly: Poly, name: str) -> bool:
        return bool(poly.letters & self._letters(name))

    def _moves(self, name: str) -> bool:
        return any(self._dependent(poly, name) for poly in self.polys)

    def _rises(self, poly: Poly, name: str) -> bool:
        """Whether a polynomial surely rises with a size."""
        mine = self._letters(name)
        return all(
            coefficient > 0 and power > 0
            for monomial, coefficient in poly.terms.items()
            for x, power in monomial
            if x in mine
        )

    # -- the search ----------------------------------------------------------------------------

    def run(self) -> list[tuple[Fraction, Found]]:
        """The nearest answers, best first, each with its deviation."""
        rising = [all(self._rises(poly, name) for poly in self.polys) for name in self.order]
        self._try(0, {}, [dict(poly.terms) for poly in self.polys], rising)
        best = sorted(((-negative, -number, found) for negative, number, found in self._heap))
        return [(deviation, found) for deviation, _, found in best]

    def _try(self, at: int, sizes: dict[str, int], polys: list[Terms], rising: list[bool]) -> None:
        name = self.order[at]
        domain = self._domain(name, sizes)
        if at == len(self.order) - 1:
            self._solve(name, domain, sizes, polys)
            return
        for value in domain:
            self._step()
            here = {**sizes, name: value}
            try:
                fixed = [self._fix(terms, name, value) for terms in polys]
            except SizerError as error:
                self._refused = error
                continue
            if not self._satisfied(here):
                continue
            if all(rising[at + 1 :]):
                if self._beyond(fixed, at + 1, 0, 2, here):
                    # All that rises with this size is too large from here on.
                    if rising[at]:
                        break
                    continue
                if self._beyond(fixed, at + 1, -1, 2, here):
                    continue
            self._try(at + 1, here, fixed, rising)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self.most_steps:
            raise TooLargeError

    def _beyond(
        self, polys: list[Terms], at: int, end: int, factor: int, sizes: Mapping[str, int]
    ) -> bool:
        """Whether some target is out of reach when all that is left is smallest, or largest."""
        for target, terms in zip(self.targets, polys, strict=True):
            left = terms
            for name in self.order[at:]:
                domain = self.domains[name]
                left = self._fix(left, name, domain[end])
            value = left.get((), 0)
            wanted = target.wanted
            if end == 0 and value > wanted * factor:
                return True
            if end == -1 and not target.at_most and value * factor < wanted:
                return True
        return False

    def _domain(self, name: str, sizes: Mapping[str, int]) -> Sequence[int]:
        """The values of a size, given those before it: multiples, bounds of the aspect."""
        domain = self.domains[name]
        step = self._step_of(name, sizes)
        if step > 1:
            domain = _multiples(domain, step)
        aspect = self.shape.aspect
        if aspect is not None and name in ("d_model", "n_layers"):
            other = sizes.get("n_layers" if name == "d_model" else "d_model")
            if other is not None:
                if name == "d_model":
                    low, high = aspect[0] * other, aspect[1] * other
                else:
                    low, high = other / aspect[1], other / aspect[0]
                domain = domain[_index(domain, low) : _index(domain, high, after=True)]
        return domain

    def _step_of(self, name: str, sizes: Mapping[str, int]) -> int:
        """What a size must be a multiple of, so that the quotients of the architecture are whole."""
        step = 1
        code = self.codes[name]
        for quotient in self._conditions:
            if code not in quotient.letters or len(quotient.terms) != 1:
                continue
            ((monomial, coefficient),) = quotient.terms.items()
            if dict(monomial)[code] != 1:
                continue
            factor: Any = Fraction(coefficient)
            for x, power in monomial:
                if x == code:
                    continue
                value = self._value(self.lettered.names.get(x, ""), x, sizes)
                if value is None or value == 0:
                    break
                factor = factor * Fraction(value) ** power
            else:
                step = lcm(step, factor.denominator)
        return step

    def _value(self, name: str, code: str, sizes: Mapping[str, int]) -> int | None:
        if name in sizes:
            return sizes[name]
        if self.shape.varies(name):
            return None
        known = self.shape.base(name) if name else None
        return self.lettered.numbers.get(code) if known is None else known

    def _fix(self, terms: Terms, name: str, value: int) -> Terms:
        """Terms with a size given, and all that it decides."""
        values: dict[str, Any] = {self.codes[name]: value}
        for field, link in self.rounded.items():
            if link.source == name:
                values[self.codes[field]] = link.value(value, usual=self.usual)
        if name == "n_layers" and self.lettered.listed:
            values |= self.lettered.at_depth(value)
        fixed: Terms = {}
        for monomial, coefficient in terms.items():
            rest = []
            for x, power in monomial:
                number = values.get(x)
                if number is None:
                    rest.append((x, power))
                elif power > 0:
                    coefficient = coefficient * number**power
                else:
                    coefficient = coefficient * Fraction(number) ** power
            key = tuple(rest)
            fixed[key] = fixed.get(key, 0) + coefficient
        return fixed

    def _solve(
        self, name: str, domain: Sequence[int], sizes: dict[str, int], polys: list[Terms]
    ) -> None:
        """The values of the last size on both sides of the target."""
        self._step()
        if not domain:
            return
        terms, wanted = polys[0], self.targets[0].wanted
        if not self._rises(Poly(terms), name):
            # Neither rising nor falling for sure: every value is looked at.
            for value in domain:
                self._step()
                self._offer({**sizes, name: value}, polys, name)
            return
        low, high = 0, len(domain)
        while low < high:
            middle = (low + high) // 2
            if self._fix(terms, name, domain[middle]).get((), 0) < wanted:
                low = middle + 1
            else:
                high = middle
        for start, stride in ((low, 1), (low - 1, -1)):
            for i in range(NEIGHBOURS):
                place = start + stride * i
                if not 0 <= place < len(domain):
                    break
                if self._offer({**sizes, name: domain[place]}, polys, name):
                    break

    def _offer(self, sizes: dict[str, int], polys: list[Terms], name: str) -> bool:
        """Keep an answer if it is one of the nearest; whether it is an answer at all."""
        if not self._satisfied(sizes):
            return False
        deviations = [
            target.deviation(self._fix(terms, name, sizes[name]).get((), 0))
            for target, terms in zip(self.targets, polys, strict=True)
        ]
        deviation = max(deviations)
        if self.only_exact and deviation:
            return True
        self._seen += 1
        entry = (-deviation, -self._seen, Found(self.completed(sizes) or {}))
        if len(self._heap) < KEPT:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)
        return True

    def completed(self, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """Sizes with what follows from them, or nothing where one of those is not whole."""
        found = dict(sizes)
        for link in self.links:
            if link.source not in found:
                continue
            value = link.value(found[link.source], usual=self.usual)
            if value is None:
                return None
            found[link.field] = value
        return found

    def _satisfied(self, sizes: Mapping[str, int]) -> bool:
        """Whether sizes, as far as they are known, keep to every rule."""
        found = self.completed(sizes)
        if found is None:
            return False
        for name in self.links_bounded():
            if name in found and not self._within(name, found[name]):
                return False
        for quotient in self._conditions:
            values = {}
            for code in quotient.letters:
                value = self._value(self.lettered.names.get(code, ""), code, found)
                if value is None:
                    break
                values[code] = value
            else:
                if quotient.value(values).denominator != 1:
                    return False
        aspect = self.shape.aspect
        if aspect is not None:
            width = self._value("d_model", "", found)
            depth = self._value("n_layers", "", found)
            if width is not None and depth is not None and not aspect[0] <= Fraction(width, depth) <= aspect[1]:
                return False
        return True

    def links_bounded(self) -> Iterator[str]:
        """Sizes that follow and yet have bounds of their own."""
        return (name for name in self.shape.where if name in self.shape.links)

    def _within(self, name: str, value: int) -> bool:
        from sizer.planning.axes import axis_of

        if not hasattr(self, "_bounds"):
            self._bounds: dict[str, Any] = {}
        if name not in self._bounds:
            values = axis_of(name, self.shape.where[name]).values
            self._bounds[name] = values if isinstance(values, range) else set(values)
        return value in self._bounds[name]


def _multiples(domain: Sequence[int], step: int) -> Sequence[int]:
    """Those of the rising numbers that a step divides."""
    if isinstance(domain, range) and domain and domain.start % domain.step == 0:
        both = lcm(domain.step, step)
        return range(-(-domain.start // both) * both, domain.stop, both)
    return [value for value in domain if value % step == 0]


def _index(domain: Sequence[int], bound: Any, *, after: bool = False) -> int:
    """The place of the first value that is not below a bound; with `after`, that is above it."""
    low, high = 0, len(domain)
    while low < high:
        middle = (low + high) // 2
        if domain[middle] < bound or (after and domain[middle] == bound):
            low = middle + 1
        else:
            high = middle
    return low
