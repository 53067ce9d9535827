"""Numbers that remember how they were made.

A module is built with `Whole` numbers for its arguments. They are integers, and every sum, product
and rounding of them is written down with its formula, as are the comparisons and divisions that
say which arguments belong together. What comes of it are suggestions: a size may leave Python and
lose its formula, and then `fit` finds it from the numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor
from typing import Any

from sizer.core.poly import Poly, symbol
from sizer.oracles.derive.expressions import (
    MAX_POWER,
    arguments,
    constant,
    floor_quotient,
    floored,
    is_whole,
    nearest,
    power,
    quotient,
    raised,
    rational,
    remainder,
)

# A module that computes more different sizes than this repeats itself in ways that are no sizes.
MAX_SEEN = 20_000
MAX_TERMS = 40


class Record:
    """What a build did with its arguments.

    `sizes`: each whole number that was computed, by its formula. `divisions`: what divides what,
    without a rest, and `remainders` the same by a number. `comparisons`: two
    formulas, and whether they are equal or which is less.
    `counts`: formulas that said how often something is done. `texts`: for a text argument, the
    words that it was compared with.
    """

    def __init__(self) -> None:
        self.sizes: dict[Poly, int] = {}
        self.divisions: dict[tuple[Poly, Poly], None] = {}
        self.remainders: dict[tuple[Poly, Poly], None] = {}
        self.comparisons: dict[tuple[str, Poly, Poly], None] = {}
        self.counts: dict[Poly, None] = {}
        self.texts: dict[str, dict[str, None]] = {}

    def whole(self, value: int, poly: Poly | None) -> int:
        """The number with its formula, where it has one that is worth keeping."""
        if poly is None or len(poly.terms) > MAX_TERMS or not arguments(poly):
            return int(value)
        if len(self.sizes) < MAX_SEEN:
            self.sizes.setdefault(poly, int(value))
        return Whole(value, poly, self)

    def argument(self, name: str, value: int) -> int:
        """An argument of the module."""
        return self.whole(value, symbol(name))

    def divides(self, dividend: Poly, divisor: Poly) -> None:
        """Note that one formula is a multiple of another."""
        if arguments(dividend) and dividend != divisor:
            (self.divisions if arguments(divisor) else self.remainders)[dividend, divisor] = None


class Number:
    """What whole numbers and fractions with a formula share."""

    poly: Poly
    record: Record
    plain: Any


def formula(value: Any) -> Poly | None:
    """The formula of a number: its own, or the number itself."""
    if isinstance(value, Number):
        return value.poly
    if isinstance(value, bool):
        return constant(int(value))
    if isinstance(value, int):
        return constant(value)
    if isinstance(value, float) and abs(value) < 1e15:
        return constant(rational(value))
    return None


def _made(value: Any, poly: Poly | None, record: Record) -> Any:
    if isinstance(value, int):
        return record.whole(value, poly)
    if isinstance(value, float) and poly is not None and arguments(poly) and len(poly.terms) <= MAX_TERMS:
        return Part(value, poly, record)
    return value


def _operation(name: str, rule: Callable[[Poly, Poly], Poly | None], *, swapped: bool) -> Any:
    def method(self: Any, other: Any) -> Any:
        base: Any = int if isinstance(self, Whole) else float
        if not isinstance(other, int | float):
            return NotImplemented
        plain = getattr(base, name)(base(self), other)
        if plain is NotImplemented:
            plain = getattr(float, name)(float(self), float(other))
        theirs = formula(other)
        if theirs is None:
            return plain
        left, right = (theirs, self.poly) if swapped else (self.poly, theirs)
        return _made(plain, rule(left, right), self.record)

    return method


def _divided(kind: str, *, swapped: bool) -> Any:
    """`//` and `%`: exact where they are so in this build, and then the rest is taken to be none."""

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, int) or not isinstance(self, Whole):
            return (
                getattr(float, kind)(float(self), other) if isinstance(other, int | float) else NotImplemented
            )
        left, right = (int(other), int(self)) if swapped else (int(self), int(other))
        above, below = formula(other), self.poly
        if not swapped:
            above, below = below, above
        assert above is not None
        assert below is not None
        even = left % right == 0
        if even:
            self.record.divides(above, below)
        exact = even and bool(arguments(below)) and bool(arguments(above))
        if kind.endswith("mod__"):
            return self.record.whole(left % right, constant(0) if exact else remainder(above, below))
        poly = quotient(above, below) if exact else None
        return self.record.whole(left // right, floor_quotient(above, below) if poly is None else poly)

    return method


def _compared(kind: str) -> Any:
    def method(self: Any, other: Any) -> Any:
        base: Any = int if isinstance(self, Whole) else float
        answer = getattr(base, kind)(base(self), other)
        if isinstance(other, Number) and isinstance(answer, bool) and self.poly != other.poly:
            mine, theirs = self.plain, other.plain
            word = "==" if mine == theirs else "<" if mine < theirs else ">"
            self.record.comparisons[word, self.poly, other.poly] = None
        elif kind in ("__eq__", "__ne__") and type(other) is int and isinstance(self, Whole):
            word = "==" if int(self) == other else "!="
            if len(self.poly.terms) == 1:
                self.record.comparisons[word, self.poly, constant(other)] = None
        return answer

    return method


def _power(self: Any, exponent: Any, modulo: Any = None) -> Any:
    base = int if isinstance(self, int) else float
    plain = base(self) ** exponent
    if type(exponent) is int and 0 <= exponent <= MAX_POWER:
        return _made(plain, self.poly**exponent, self.record)
    return plain


def _raised_to(self: Any, base: Any, modulo: Any = None) -> Any:
    plain = base**self.plain
    return _made(plain, power(base, self.poly), self.record) if type(base) is int and base > 1 else plain


_SHARED: dict[str, Any] = {
    "__add__": _operation("__add__", lambda a, b: a + b, swapped=False),
    "__radd__": _operation("__radd__", lambda a, b: a + b, swapped=True),
    "__sub__": _operation("__sub__", lambda a, b: a - b, swapped=False),
    "__rsub__": _operation("__rsub__", lambda a, b: a - b, swapped=True),
    "__mul__": _operation("__mul__", lambda a, b: a * b, swapped=False),
    "__rmul__": _operation("__rmul__", lambda a, b: a * b, swapped=True),
    "__truediv__": _operation("__truediv__", quotient, swapped=False),
    "__rtruediv__": _operation("__rtruediv__", quotient, swapped=True),
    "__floordiv__": _divided("__floordiv__", swapped=False),
    "__rfloordiv__": _divided("__rfloordiv__", swapped=True),
    "__mod__": _divided("__mod__", swapped=False),
    "__rmod__": _divided("__rmod__", swapped=True),
    "__pow__": _power,
    "__rpow__": _raised_to,
    **{f"__{kind}__": _compared(f"__{kind}__") for kind in ("eq", "ne", "lt", "le", "gt", "ge")},
    "__neg__": lambda self: _made(-self.plain, -self.poly, self.record),
    "__pos__": lambda self: self,
    "__copy__": lambda self: self,
    "__deepcopy__": lambda self, memo: self,
    "__reduce__": lambda self: (type(self.plain), (self.plain,)),
}


class Whole(int, Number):
    """A whole number with its formula."""

    def __new__(cls, value: int, poly: Poly, record: Record) -> Whole:
        """The number; it is an `int` in all it does."""
        self = int.__new__(cls, value)
        self.poly, self.record = poly, record
        return self

    @property
    def plain(self) -> int:
        """The number without its formula."""
        return int(self)

    __hash__ = int.__hash__
    __trunc__ = __floor__ = __ceil__ = lambda self: self

    def __round__(self, digits: Any = None) -> Whole:
        return self


class Part(float, Number):
    """A fraction with its formula."""

    def __new__(cls, value: float, poly: Poly, record: Record) -> Part:
        """The number; it is a `float` in all it does."""
        self = float.__new__(cls, value)
        self.poly, self.record = poly, record
        return self

    @property
    def plain(self) -> float:
        """The number without its formula."""
        return float(self)

    __hash__ = float.__hash__

    def rounded(self, value: int, rule: Callable[[Poly], Poly]) -> int:
        """A rounding of it, which is exact where this build's is and an argument divides."""
        poly = self.poly
        if float(self) == value and not is_whole(poly) and any(p < 0 for m in poly.terms for _, p in m):
            below = {(x, -p) for m in poly.terms for x, p in m if p < 0}
            divisor = Poly({tuple(sorted(below)): 1})
            self.record.divides(poly * divisor, divisor)
            return self.record.whole(value, poly)
        return self.record.whole(value, rule(poly))

    def __trunc__(self) -> int:
        value = int(float(self))
        return self.rounded(value, floored if value >= 0 else raised)

    def __floor__(self) -> int:
        return self.rounded(floor(float(self)), floored)

    def __ceil__(self) -> int:
        return self.rounded(ceil(float(self)), raised)

    def __round__(self, digits: Any = None) -> Any:
        if digits is not None:
            return round(float(self), digits)
        return self.rounded(round(float(self)), nearest)


for _name, _method in _SHARED.items():
    setattr(Whole, _name, _method)
    setattr(Part, _name, _method)
