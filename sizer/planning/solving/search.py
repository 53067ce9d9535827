"""The search: every size but one is tried, and the polynomial is solved for that one by bisection.

What must be a multiple of what narrows each step; a part of the tree whose smallest model is much too
large is left out. A count of steps bounds the whole.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, lcm, log, prod
from typing import Any

from sizer.core.poly import Poly, as_poly, symbol
from sizer.errors import InvalidConfig, SizerError
from sizer.planning.forms import Lettered
from sizer.planning.solving.rules import Rules
from sizer.planning.solving.shape import Shape
from sizer.planning.solving.targets import Target
from sizer.planning.solving.terms import Terms, fixed_terms, rises

# Combinations of sizes that are looked at: some seconds.
MOST_STEPS = 200_000
# What is left out makes a search some times smaller, and no more.
HOPELESS = 50
# Answers that are kept for the ledger to count again.
KEPT = 300
# Steps to either side of a size that breaks a rule.
NEIGHBOURS = 64
INFINITE = 1e300
# Ratios of most published decoders: width over depth, of the MLP, of a head.
USUAL = {("d_model", "n_layers"): 90, ("d_ff", "d_model"): 3.5, ("d_model", "n_heads"): 110}


class TooLargeError(Exception):
    """The search would take too long."""


class Search:
    """The search for the sizes of a shape that reach the targets.

    `usual`: sizes in the multiples that people use. `only_exact`: what is near is no answer.
    """

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
        self.rules = Rules(shape, lettered, usual=usual)
        self._rounded = {link.field: link for link in shape.links.values() if not link.exact}
        depth = getattr(shape.model.config, "n_layers", 0)
        self._listed = lettered.at_depth(depth) if lettered.listed and shape.varies("n_layers") else {}
        self.polys = [self._reduced(target.poly) for target in targets]
        self.domains = {name: shape.domain(name, any_multiple=not usual) for name in shape.free}
        self.order = self._order()
        # Whole numbers are much quicker than fractions.
        self._scales = [lcm(*(c.denominator for c in poly.terms.values())) for poly in self.polys]
        self.polys = [poly * scale for poly, scale in zip(self.polys, self._scales, strict=True)]
        self._goals = [target.wanted * scale for target, scale in zip(targets, self._scales, strict=True)]
        self._wanted = [float(goal) for goal in self._goals]
        # Minus the deviation, minus how odd the shape is, minus its turn; and the sizes.
        self._heap: list[tuple[float, float, int, dict[str, int]]] = []
        self._offered = 0
        self._within = 1.0
        self._ends = False
        self._refused: SizerError | None = None

    # -- preparation ---------------------------------------------------------------------------

    def _reduced(self, poly: Poly) -> Poly:
        """A target over the letters of what is free, of what is rounded, and of lists of layers."""
        codes = self.lettered.codes
        values: dict[str, int | Poly] = {}
        for code, number in self.lettered.numbers.items():
            name = self.lettered.names.get(code, "")
            if not (name and self.shape.varies(name)) and code not in self._listed:
                known = self.shape.base(name) if name else None
                values[code] = number if known is None else known
        for link in self.shape.links.values():
            if link.exact:
                ratio: Any = link.ratio if link.ratio.denominator > 1 else link.ratio.numerator
                values[codes[link.field]] = values.get(codes[link.source], symbol(codes[link.source])) * ratio
        return as_poly(poly.subs(values))

    def _order(self) -> list[str]:
        """Free sizes in the order they are tried: depth first, the one with most values last."""
        letters = {name: self._letters(name) for name in self.shape.free}
        still = [n for n in self.shape.free if not any(p.letters & letters[n] for p in self.polys)]
        if still:
            names = " and ".join(target.name for target in self.targets)
            raise InvalidConfig(
                f"{names} {'does' if len(self.targets) == 1 else 'do'} not depend on {', '.join(still)}, so "
                "every value answers; fix it with --set, or let it follow (--d-head, --kv-ratio, --ff-ratio)"
            )
        decided = [name for name in self.shape.free if self.polys[0].letters & letters[name]]
        last = max(decided, key=lambda name: (name != "n_layers", len(self.domains[name])))
        rest = [name for name in self.shape.free if name != last]
        return [*sorted(rest, key=lambda name: (name != "n_layers", len(self.domains[name]))), last]

    def _letters(self, name: str) -> set[str]:
        """The letters that a free size decides in the reduced polynomials."""
        found = {self.lettered.codes[name]}
        found |= {self.lettered.codes[f] for f, link in self._rounded.items() if link.source == name}
        return found | set(self._listed) if name == "n_layers" else found

    def _decides(self, name: str, value: int) -> dict[str, int]:
        """The letters of a free size and of all that it decides."""
        values = {self.lettered.codes[name]: value}
        for field, link in self._rounded.items():
            if link.source == name:
                number = link.value(value, usual=self.usual)
                assert number is not None
                values[self.lettered.codes[field]] = number
        return values | self.lettered.at_depth(value) if name == "n_layers" and self._listed else values

    # -- the search ----------------------------------------------------------------------------

    def run(self) -> list[tuple[float, dict[str, int]]]:
        """The nearest answers, best first, each with its deviation; 0 is exact and nothing else is."""
        if prod(len(self.domains[name]) for name in self.order[:-1]) > HOPELESS * self.most_steps:
            raise TooLargeError
        self._try(0, {}, [dict(poly.terms) for poly in self.polys])
        if not self._heap and not self.only_exact:
            if self._refused is not None:
                raise self._refused
            # Nothing is anywhere near: then the smallest and the largest are the nearest.
            self._within, self._ends = INFINITE, True
            self._try(0, {}, [dict(poly.terms) for poly in self.polys])
        return [(-entry[0], entry[3]) for entry in sorted(self._heap, key=lambda e: e[:3], reverse=True)]

    def _try(self, at: int, sizes: dict[str, int], polys: list[Terms]) -> None:
        name = self.order[at]
        domain = self.rules.narrowed(name, self.domains[name], sizes)
        if self._ends and len(domain) > 2:
            domain = [domain[0], domain[-1]]
        if at == len(self.order) - 1:
            if domain:
                self._solve(name, domain, sizes, polys)
            return
        rising = all(map(rises, polys))
        for value in domain:
            self._step()
            here = {**sizes, name: value}
            if self.rules.completed(here) is None:
                continue
            try:
                values = self._decides(name, value)
            except SizerError as error:
                self._refused = error
                continue
            fixed = [fixed_terms(terms, values) for terms in polys]
            if all(map(rises, fixed)) and self._too_large(fixed, at + 1):
                if rising:
                    # So is all with more of this size.
                    break
                continue
            self._try(at + 1, here, fixed)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self.most_steps:
            raise TooLargeError

    def _too_large(self, polys: list[Terms], at: int) -> bool:
        """Whether a target is passed by far with the smallest of all that is left."""
        least: dict[str, int] = {}
        for name in self.order[at:]:
            least |= self._decides(name, self.domains[name][0])
        return any(
            fixed_terms(terms, least).get((), 0) > wanted * (1 + self._within)
            for terms, wanted in zip(polys, self._wanted, strict=True)
        )

    def _solve(self, name: str, domain: Sequence[int], sizes: dict[str, int], polys: list[Terms]) -> None:
        """The values of the last size on both sides of the target."""
        self._step()
        values = [self._function(name, terms) for terms in polys]
        if not rises(polys[0]):
            # Neither rising nor falling for sure: every value is looked at.
            for value in domain:
                self._step()
                self._offer({**sizes, name: value}, [f(value) for f in values])
            return
        # A size that reaches a whole number reaches it exactly; floats round above 2⁵³.
        place = bisect_left(domain, ceil(self._goals[0]), key=values[0])
        for start, stride in ((place, 1), (place - 1, -1)):
            for i in range(start, start + NEIGHBOURS * stride, stride):
                if not 0 <= i < len(domain):
                    break
                value = domain[i]
                try:
                    numbers = [f(value) for f in values]
                except SizerError as error:
                    self._refused = error
                    break
                if self._offer({**sizes, name: value}, numbers):
                    break

    def _function(self, name: str, terms: Terms) -> Callable[[int], Any]:
        """A target as a function of the last size."""
        code = self.lettered.codes[name]
        scale = lcm(*(c.denominator for c in terms.values()))
        letters = sorted({x for m in terms for x, _ in m} - {code})
        if any(power < 0 for m in terms for _, power in m):
            return lambda value: fixed_terms(terms, self._decides(name, value)).get((), 0)
        # By the powers of the size itself, and of each letter that it decides.
        flat = [
            (int(c * scale), dict(m).get(code, 0), [(letters.index(x), p) for x, p in m if x != code])
            for m, c in terms.items()
        ]

        of_link = {
            self.lettered.codes[field]: link.function(usual=self.usual)
            for field, link in self._rounded.items()
            if link.source == name
        }
        links = [of_link[x] for x in letters] if all(x in of_link for x in letters) else []

        def function(value: int) -> Any:
            total = 0
            if links:
                numbers = [link(value) for link in links]
            elif letters:
                decided = self._decides(name, value)
                numbers = [decided[x] for x in letters]
            for coefficient, power, others in flat:
                term = coefficient * value**power
                for place, p in others:
                    term *= numbers[place] ** p
                total += term
            return total if scale == 1 else Fraction(total, scale)

        return function

    def _offer(self, sizes: dict[str, int], numbers: Sequence[Any]) -> bool:
        """Keep an answer if it is one of the nearest; whether it keeps to the rules."""
        gap = 0.0
        for i, (target, number) in enumerate(zip(self.targets, numbers, strict=True)):
            mine = float(number) / self._wanted[i]
            mine = abs(mine**target.power - 1) + (1 if target.at_most and number > self._goals[i] else 0)
            if mine < 1e-9:
                # Floats do not tell whether it is exact.
                mine = float(target.deviation(Fraction(number, self._scales[i])))
            gap = max(gap, mine)
        worth = gap == 0 or (not self.only_exact and gap <= self._within)
        if not worth and self._heap and not self.only_exact:
            return True
        completed = self.rules.completed(sizes)
        if completed is None:
            return False
        if self.only_exact and gap:
            return True
        self._offered += 1
        entry = (-gap, -self._oddness(completed), -self._offered, completed)
        if len(self._heap) < KEPT:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)
            self._within = min(self._within, -self._heap[0][0])
        return True

    def _oddness(self, sizes: dict[str, int]) -> float:
        """How far a shape is from those of published models; it tells equal deviations apart."""
        found = 0.0
        for (over, under), usual in USUAL.items():
            pair = [sizes.get(n) or getattr(self.shape.model.config, n, None) for n in (over, under)]
            if all(isinstance(value, int) and value > 0 for value in pair):
                found += abs(log(pair[0] / pair[1] / usual))  # type: ignore[operator]
        return found
