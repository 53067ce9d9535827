"""Widths that were rounded where no trace could see it: from the numbers alone.

A width `g·⌈c·q/g⌉` is a multiple of `g` everywhere, so `g` is the greatest common divisor of the
values; each value then bounds `c`, and the simplest fraction within all bounds is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor, gcd

from sizer.core.poly import Poly, symbol
from sizer.oracles.derive.expressions import Point, constant, evaluate, floored, raised

FEWEST = 8
# An end of an interval that does not belong to it is moved in by this much.
INSIDE = Fraction(1, 10**9)


def rounded(
    series: Sequence[tuple[Point, int]], relevant: Sequence[str], hints: Sequence[Poly]
) -> Poly | None:
    """`g·⌈c·q/g⌉` or `g·⌊c·q/g⌋`, where q is an argument or a product that was seen."""
    if len(series) < FEWEST or any(value < 0 for _, value in series):
        return None
    granule = gcd(*(value for _, value in series)) or 1
    for quantity in [*(symbol(name) for name in relevant), *hints]:
        sizes = [Fraction(evaluate(quantity, point)) for point, _ in series]
        if any(size <= 0 for size in sizes):
            continue
        pairs = list(zip(sizes, (Fraction(value) for _, value in series), strict=True))
        for rule, below, above in ((raised, granule, 0), (floored, 0, granule)):
            # Rounded up, it is more than the value less a granule; down, less than one granule more.
            low = max((value - below) / size for size, value in pairs) + (INSIDE if below else 0)
            high = min((value + above) / size for size, value in pairs) - (INSIDE if above else 0)
            if low > high or low < 0:
                continue
            return constant(granule) * rule(quantity * simplest(low, high) / granule)
    return None


def simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction of the smallest denominator between two, the ends included.

    >>> simplest(Fraction(26, 10), Fraction(267, 100))
    Fraction(8, 3)
    """
    whole = ceil(low)
    if whole <= high:
        return Fraction(whole)
    part = floor(low)
    return part + 1 / simplest(1 / (high - part), 1 / (low - part))
