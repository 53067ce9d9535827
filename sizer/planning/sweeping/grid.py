"""A polynomial at every point of a grid, exactly, and the boxes that a grid is cut into.

Each letter is a number, or an array that varies along the axes it depends on and has one entry along
the others, so that what depends on one axis is worked out once, and not at every point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from sizer.core.dims import is_array
from sizer.core.poly import Monomial, Poly

# Below 2⁶³, where numpy's integers silently wrap.
INT64_MOST = 2**63 - 1

# One stretch of each axis: (first, end).
Box = tuple[tuple[int, int], ...]


class NotWholeError(Exception):
    """A quotient that is not whole at some point; the ledger has to answer."""


def boxes(lengths: Sequence[int], points: int) -> Iterator[Box]:
    """A grid in order, the last axis fastest, in boxes of at most that many points.

    >>> list(boxes((2, 3), 2))
    [((0, 1), (0, 2)), ((0, 1), (2, 3)), ((1, 2), (0, 2)), ((1, 2), (2, 3))]
    """
    at = len(lengths)
    whole = 1
    while at and whole * lengths[at - 1] <= points:
        at -= 1
        whole *= lengths[at]
    rest = tuple((0, length) for length in lengths[at:])
    if at == 0:
        yield rest
        return
    width = max(1, points // whole)
    for outer in _counting(lengths[: at - 1]):
        fixed = tuple((i, i + 1) for i in outer)
        for first in range(0, lengths[at - 1], width):
            yield (*fixed, (first, min(first + width, lengths[at - 1])), *rest)


def _counting(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every index of a grid, in order; `itertools.product` would list each axis first."""
    if not lengths:
        yield ()
        return
    for i in range(lengths[0]):
        for rest in _counting(lengths[1:]):
            yield (i, *rest)


def evaluate(poly: Poly, letters: Mapping[str, Any], valid: Any = True) -> Any:
    """The value of a polynomial, as an array or a number; Python's integers where 64 bits do not do.

    `valid`: where quotients must be whole; elsewhere they are rounded down, for nobody to read.

    >>> import numpy
    >>> D, L = numpy.array([[2], [3]]), numpy.array([[10**9, 10**18]])
    >>> from sizer.core.poly import symbol
    >>> evaluate(12 * symbol("D") ** 2 * symbol("L"), {"D": D, "L": L}).tolist()
    [[48000000000, 48000000000000000000], [108000000000, 108000000000000000000]]
    """
    total: Any = None
    for below, terms in _by_divisor(poly).items():
        value = _sum(terms, _wide_enough(terms, letters))
        if below:
            under = _product(below, letters)
            if _any(under == 0) or _any((value % under != 0) & valid):
                raise NotWholeError
            value = value // under
        total = value if total is None else _added(total, value)
    return 0 if total is None else total


# A product of powers, and its factor.
Terms = dict[Monomial, int]


def _by_divisor(poly: Poly) -> dict[Monomial, Terms]:
    """The terms by what they are divided by, a number among it under the letter "1"."""
    found: dict[Monomial, Terms] = {}
    for monomial, factor in poly.terms.items():
        above = tuple((x, p) for x, p in monomial if p > 0)
        below = tuple((x, -p) for x, p in monomial if p < 0)
        if factor.denominator != 1:
            below = (*below, (str(factor.denominator), 1))
        found.setdefault(below, {})[above] = factor.numerator
    return found


def _product(monomial: Monomial, letters: Mapping[str, Any]) -> Any:
    value: Any = 1
    for x, power in monomial:
        value = value * (int(x) if x.isdigit() else letters[x]) ** power
    return value


def _wide_enough(terms: Terms, letters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The letters, as Python's integers where a partial sum might pass 64 bits."""
    used = {x for monomial in terms for x, _ in monomial}
    most = {x: max(1, int(letters[x].max()) if is_array(letters[x]) else letters[x]) for x in used}
    bound = sum(abs(factor) * prod(most[x] ** p for x, p in m) for m, factor in terms.items())
    if bound <= INT64_MOST:
        return letters
    return {x: letters[x].astype(object) if is_array(letters[x]) else letters[x] for x in used}


def _sum(terms: Terms, letters: Mapping[str, Any]) -> Any:
    """A sum of products: what varies along the last axis is taken out of the sum of the rest."""
    depth = {x: _last_axis(letters[x]) for monomial in terms for x, _ in monomial}
    last = max(depth.values(), default=-1)
    if last < 0:
        return sum(factor * _product(monomial, letters) for monomial, factor in terms.items())
    groups: dict[Monomial, Terms] = {}
    for monomial, factor in terms.items():
        varying = tuple((x, p) for x, p in monomial if depth[x] == last)
        rest = tuple((x, p) for x, p in monomial if depth[x] != last)
        groups.setdefault(varying, {})[rest] = factor
    total: Any = 0
    for varying, rest_terms in groups.items():
        part = _sum(rest_terms, letters)
        total = total + (part * _product(varying, letters) if varying else part)
    return total


def _last_axis(value: Any) -> int:
    if not is_array(value):
        return -1
    return max((i for i, length in enumerate(value.shape) if length > 1), default=-1)


def _added(total: Any, part: Any) -> Any:
    """The sum of parts, each within its own bound, that together may pass 64 bits."""
    if _most(total) + _most(part) > INT64_MOST:
        total = total.astype(object) if is_array(total) else total
        part = part.astype(object) if is_array(part) else part
    return total + part


def _most(value: Any) -> int:
    return int(abs(value).max()) if is_array(value) else abs(int(value))


def _any(value: Any) -> bool:
    return bool(value.any()) if is_array(value) else bool(value)
