"""A series of numbers as an expression: what the trace suggests, or exact linear algebra.

A series holds a number for each of many points. The simplest expression that has all of them is
taken; points that were not in the series are for `check`, not for here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations

from sizer.core.poly import Monomial, Poly, symbol
from sizer.oracles.derive.expressions import Number, Point, complexity, constant, evaluate, floored, raised
from sizer.oracles.derive.rounding import rounded

Series = Sequence[tuple[Point, int]]

# Coefficients of real modules have small denominators; a fit by chance has others.
MAX_DENOMINATOR = 64
MAX_COLUMNS = 48
FEWEST = 4
MOST_ARGUMENTS = 6
# An argument with a larger value is a width.
MOST_LAYERS = 128
# The fewest values of a count that make a rhythm: two may be a switch.
RHYTHM = 3


class Fitter:
    """Fits series.

    `hints`: formulas that a trace has seen. `divisions`: what divides what. `moves`: pairs of
    points, and the arguments in which they differ; they say on which arguments a series depends.
    """

    def __init__(
        self,
        hints: Iterable[Poly],
        divisions: Iterable[tuple[Poly, Poly]],
        moves: Iterable[tuple[Point, Point]],
    ) -> None:
        self.hints = sorted(hints, key=complexity)
        self.moves = [
            (id(before), id(after), [name for name in after if before.get(name) != after[name]])
            for before, after in moves
        ]
        self.pairs = {
            (over, under)
            for dividend, divisor in divisions
            for over in dividend.letters
            for under in divisor.letters
        }
        self._values: dict[tuple[Poly, int], Number] = {}
        self._found: dict[tuple[tuple[int, int], ...], Poly | None] = {}

    def value(self, poly: Poly, point: Point) -> Number | None:
        """The value of an expression at a point, remembered."""
        key = poly, id(point)
        if key not in self._values:
            try:
                self._values[key] = evaluate(poly, point)
            except (ZeroDivisionError, OverflowError):
                self._values[key] = Fraction(1, 2)
        return self._values[key]

    def matches(self, poly: Poly, series: Series) -> bool:
        """Whether an expression has every value of a series."""
        return all(self.value(poly, point) == value for point, value in series)

    def relevant(self, series: Series) -> list[str]:
        """The arguments on which a series depends."""
        values = {id(point): value for point, value in series}
        found: dict[str, int] = {}
        for before, after, names in self.moves:
            if before in values and after in values and values[before] != values[after]:
                for name in names:
                    # An argument that had to move along comes last.
                    found[name] = min(found.get(name, len(names)), len(names))
        return sorted(found, key=lambda name: found[name])

    def size(self, series: Series) -> Poly | None:
        """The simplest expression for a dimension."""
        key = tuple((id(point), value) for point, value in series)
        if key not in self._found:
            self._found[key] = self._size(series, self.relevant(series))
        return self._found[key]

    def _size(self, series: Series, relevant: Sequence[str]) -> Poly | None:
        if len({value for _, value in series}) == 1:
            return constant(series[0][1])
        for name in relevant:
            if self.matches(symbol(name), series):
                return symbol(name)
        first_point, first = series[0]
        suggested = [h for h in self.hints if self.value(h, first_point) == first and self.matches(h, series)]
        smooth = [h for h in suggested if not complexity(h)[0]]
        if smooth:
            return smooth[0]
        short = self.linear(series, self.monomials(relevant, 2))
        if short is not None and (len(short.terms) <= 2 or not suggested):
            return short
        if suggested:
            return suggested[0]
        deep = self.linear(series, self.monomials(relevant, 3))
        if deep is not None:
            return deep
        return rounded(series, relevant, [h for h in self.hints if len(h.terms) == 1])

    def count(self, series: Series) -> Poly | None:
        """The simplest expression for how often something stands."""
        if len({value for _, value in series}) == 1:
            return constant(series[0][1])
        relevant = self.relevant(series)
        found = self.linear(series, self.monomials(relevant, 3))
        if found is None:
            found = self._every(series, relevant)
        # A count that steps may not have stepped in any move.
        return found if found is not None else self._every(series, _counting(series)[:MOST_ARGUMENTS])

    def _every(self, series: Series, relevant: Sequence[str]) -> Poly | None:
        """Every so many of an argument's repeats: `floor((L + 3)/4)`, times another count."""
        others = [constant(1), *(symbol(name) for name in relevant)]
        for name, part in _rhythms(relevant):
            if len({self.value(part, point) for point, _ in series}) < RHYTHM:
                continue
            for library in ([part, constant(1)], [part, symbol(name)], [part * o for o in others]):
                found = self.solve(series, library)
                if found is not None:
                    return found
        return None

    def monomials(self, relevant: Sequence[str], degree: int) -> list[Poly]:
        """Products of the relevant arguments, and their quotients where one divides the other."""
        names = list(relevant)[:MOST_ARGUMENTS]
        found: list[Poly] = [constant(1)]
        for size in range(1, degree + 1):
            for choice in combinations_with_replacement(names, size):
                product = constant(1)
                for name in choice:
                    product = product * symbol(name)
                found.append(product)
                found += [
                    product / symbol(under)
                    for under in names
                    if under not in choice and any((over, under) in self.pairs for over in choice)
                ]
        return found[:MAX_COLUMNS]

    def linear(self, series: Series, library: Sequence[Poly]) -> Poly | None:
        """A single product, or the sum of products that the values determine."""
        for column in library[1:]:
            found = self._ratio(series, column)
            if found is not None:
                return found
        return self.solve(series, library)

    def _ratio(self, series: Series, column: Poly) -> Poly | None:
        base = self.value(column, series[0][0])
        if not base:
            return None
        ratio = Fraction(series[0][1]) / base
        if not ratio or ratio.denominator > MAX_DENOMINATOR:
            return None
        found = column * (ratio.numerator if ratio.denominator == 1 else ratio)
        return found if self.matches(found, series) else None

    def solve(self, series: Series, library: Sequence[Poly]) -> Poly | None:
        """The combination of a library that has every value, where the series determines it."""
        rows = _distinct(series)
        if len(rows) < len(library) + FEWEST and len(library) > 3:
            library = [c for c in library if sum(p for m in c.terms for _, p in m if p > 0) <= 1]
        if len(rows) < len(library) + 1:
            return None
        columns = [[self.value(c, point) or 0 for c in library] for point, _ in rows]
        # Points that are alike to the library and have different values are the quickest refusal.
        known: dict[tuple[Number, ...], int] = {}
        if any(known.setdefault(tuple(c), v) != v for c, (_, v) in zip(columns, rows, strict=True)):
            return None
        matrix = [[*map(Fraction, c), Fraction(v)] for c, (_, v) in zip(columns, rows, strict=True)]
        solution = _solved(matrix, len(library))
        if solution is None or any(c.denominator > MAX_DENOMINATOR for c in solution):
            return None
        terms = constant(0)
        for column, coefficient in zip(library, solution, strict=True):
            if coefficient:
                terms = terms + column * (
                    coefficient.numerator if coefficient.denominator == 1 else coefficient
                )
        return terms if self.matches(terms, series) else None


def _rhythms(names: Sequence[str]) -> Iterator[tuple[str, Poly]]:
    """How often something comes among so many: every few of them, or every so many of an argument."""
    for name in names:
        for period in range(2, 13):
            for shift in range(period):
                yield name, floored((symbol(name) + shift) / period)
    for name, every in permutations(names, 2):
        yield name, floored(symbol(name) / symbol(every))
        yield name, raised(symbol(name) / symbol(every))
    for name, every, first in permutations(names, 3):
        yield name, raised((symbol(name) - symbol(first)) / symbol(every))


def _counting(series: Series) -> list[str]:
    """The arguments that have different values in a series, all of them such as a count has."""
    first = series[0][0]
    return [
        name
        for name in first
        if any(point[name] != first[name] for point, _ in series)
        and all(point[name] <= MOST_LAYERS for point, _ in series)
    ]


def _distinct(series: Series) -> list[tuple[Point, int]]:
    seen: dict[int, tuple[Point, int]] = {}
    for point, value in series:
        seen.setdefault(id(point), (point, value))
    return list(seen.values())


def _solved(matrix: list[list[Fraction]], width: int) -> list[Fraction] | None:
    """Gauss-Jordan over fractions; free columns are left out, contradictions have no solution."""
    pivots: list[int] = []
    row = 0
    for column in range(width):
        pivot = next((r for r in range(row, len(matrix)) if matrix[r][column]), None)
        if pivot is None:
            continue
        matrix[row], matrix[pivot] = matrix[pivot], matrix[row]
        head = matrix[row][column]
        matrix[row] = [entry / head for entry in matrix[row]]
        for other in range(len(matrix)):
            factor = matrix[other][column]
            if other != row and factor:
                matrix[other] = [a - factor * b for a, b in zip(matrix[other], matrix[row], strict=True)]
        pivots.append(column)
        row += 1
    if any(line[width] for line in matrix[row:]):
        return None
    solution = [Fraction(0)] * width
    for index, column in enumerate(pivots):
        solution[column] = matrix[index][width]
    return solution


def degrees(poly: Poly, names: Iterable[str]) -> dict[str, int]:
    """The highest power of each argument."""
    powers = [entry for monomial in poly.terms for entry in _letters(monomial)]
    return {name: max((abs(p) for letter, p in powers if letter == name), default=0) for name in names}


def _letters(monomial: Monomial) -> Iterable[tuple[str, int]]:
    from sizer.oracles.derive.expressions import Atom, arguments

    for letter, power in monomial:
        if isinstance(letter, Atom):
            for part in letter.parts:
                yield from ((name, abs(power)) for name in arguments(part))
        else:
            yield letter, power
