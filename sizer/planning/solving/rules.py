"""What sizes must keep to: quotients that are whole, sizes that follow, bounds, the aspect."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Any

from sizer.core.dims import Quotient as Named
from sizer.core.poly import Poly, as_poly
from sizer.planning.forms import Lettered
from sizer.planning.solving.shape import Shape
from sizer.planning.sweeping.axes import axis_of


class Quotient:
    """A product over a product that must be whole, by the names of its sizes."""

    def __init__(self, poly: Poly, lettered: Lettered, shape: Shape) -> None:
        ((monomial, coefficient),) = poly.terms.items()
        self.over, self.under = coefficient.numerator, coefficient.denominator
        # Sizes that stay are part of the two numbers.
        self.powers: dict[str, int] = {}
        for code, power in monomial:
            name = lettered.names.get(code, "")
            if shape.varies(name):
                self.powers[name] = power
                continue
            known = shape.base(name) if name else None
            number = lettered.numbers[code] if known is None else known
            if power > 0:
                self.over *= number**power
            else:
                self.under *= number**-power

    def parts(self, sizes: Mapping[str, int], apart: str = "") -> tuple[int, int] | None:
        """Dividend and divisor, without the size `apart`; nothing while a size is not known."""
        over, under = self.over, self.under
        for name, power in self.powers.items():
            if name == apart:
                continue
            value = sizes.get(name)
            if value is None:
                return None
            if power > 0:
                over *= value**power
            else:
                under *= value**-power
        return over, under


class Rules:
    """The rules of a shape, for sizes of which some may not be known yet."""

    def __init__(self, shape: Shape, lettered: Lettered, *, usual: bool) -> None:
        self.shape = shape
        self.usual = usual
        self.links = list(shape.links.values())
        polys = [(as_poly(one.dividend / one.divisor), one) for one in lettered.conditions]
        self.quotients = [
            _possible(Quotient(poly, lettered, shape), one) for poly, one in polys if len(poly.terms) == 1
        ]
        self.bounds: dict[str, Any] = {}
        for name in shape.where:
            if name in shape.links:
                values = axis_of(name, shape.where[name]).values
                self.bounds[name] = values if isinstance(values, range) else frozenset(values)
        self._width = None if shape.varies("d_model") else shape.base("d_model")
        self._depth = None if shape.varies("n_layers") else shape.base("n_layers")

    def completed(self, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """Sizes with what follows from them, or nothing where they keep not to every rule."""
        found = dict(sizes)
        for link in self.links:
            source = found.get(link.source)
            if source is not None:
                value = link.value(source, usual=self.usual)
                # The domain of the source holds only what it follows from.
                assert value is not None
                found[link.field] = value
        for name, values in self.bounds.items():
            if name in found and found[name] not in values:
                return None
        for quotient in self.quotients:
            parts = quotient.parts(found)
            if parts is not None and (not parts[1] or parts[0] % parts[1]):
                return None
        return found

    def narrowed(self, name: str, domain: Sequence[int], sizes: Mapping[str, int]) -> Sequence[int]:
        """The values of a size that keep to the rules, as far as the sizes before it say."""
        step = 1
        for quotient in self.quotients:
            if quotient.powers.get(name) == 1:
                parts = quotient.parts(sizes, apart=name)
                if parts is not None and parts[1]:
                    step = lcm(step, Fraction(*parts).denominator)
        if step > 1:
            domain = multiples(domain, step)
        if self.shape.aspect is None:
            return domain
        low, high = self.shape.aspect
        width, depth = sizes.get("d_model", self._width), sizes.get("n_layers", self._depth)
        if name == "d_model" and depth is not None:
            low, high = low * depth, high * depth
        elif name == "n_layers" and width is not None:
            low, high = width / high, width / low
        else:
            return domain
        return domain[bisect_left(domain, low) : bisect_right(domain, high)]


def _possible(quotient: Quotient, named: Named) -> Quotient:
    """The quotient; where nothing of it varies and it is not whole, no size is an answer."""
    if not quotient.powers and quotient.over % quotient.under:
        raise named.error(quotient.over, quotient.under)
    return quotient


def multiples(domain: Sequence[int], step: int) -> Sequence[int]:
    """Those of the rising numbers that a step divides.

    >>> multiples(range(64, 1000, 64), 96)
    range(192, 1000, 192)
    """
    if isinstance(domain, range) and domain and domain.start % domain.step == 0:
        both = lcm(domain.step, step)
        return range(-(-domain.start // both) * both, domain.stop, both)
    return [value for value in domain if value % step == 0]
