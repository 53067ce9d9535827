"""The terms of a polynomial while its letters are given one after the other."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

from sizer.core.poly import Monomial

Terms: TypeAlias = dict[Monomial, Any]


def fixed_terms(terms: Terms, values: dict[str, int]) -> Terms:
    """Terms with some letters given.

    >>> fixed_terms({(("D", 2), ("L", 1)): 12, (("L", 1),): 1}, {"L": 2})
    {(('D', 2),): 24, (): 2}
    """
    fixed: Terms = {}
    for monomial, coefficient in terms.items():
        rest: list[tuple[str, int]] = []
        for pair in monomial:
            number = values.get(pair[0])
            if number is None:
                rest.append(pair)
            elif pair[1] > 0:
                coefficient = coefficient * number ** pair[1]
            else:
                coefficient = coefficient * Fraction(number) ** pair[1]
        key = tuple(rest)
        fixed[key] = fixed.get(key, 0) + coefficient
    return fixed


def rises(terms: Terms) -> bool:
    """Whether a polynomial surely rises with each of its letters."""
    return all(c >= 0 and all(p > 0 for _, p in m) for m, c in terms.items() if m)
