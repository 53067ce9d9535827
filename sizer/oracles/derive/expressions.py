"""Expressions over the arguments of a module: polynomials, with roundings as letters of their own.

A rounding, such as `ceiling(8*d/768)`, is an `Atom`: a letter that knows its value.
Its name is what sympy reads, so that a formula with it is read by sympy too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import ceil, floor
from typing import TypeAlias

from sizer.core.poly import Poly, as_poly, symbol

Number: TypeAlias = int | Fraction
Point: TypeAlias = Mapping[str, int]

# Whoever builds a module with larger exponents has written no size.
MAX_POWER = 8


class Atom(str):
    """A letter of a polynomial that stands for a rounding or a maximum of other polynomials."""

    __slots__ = ("parts", "rule")
    parts: tuple[Poly, ...]
    rule: Callable[..., Number]

    @classmethod
    def make(cls, text: str, rule: Callable[..., Number], *parts: Poly) -> Atom:
        """The atom of that text, whose value is the rule's answer to the parts' values."""
        atom = cls(text)
        atom.parts, atom.rule = parts, rule
        return atom

    def value(self, point: Point) -> Number:
        """Its value at a point."""
        return self.rule(*(evaluate(part, point) for part in self.parts))


def evaluate(poly: Poly, point: Point) -> Number:
    """The value of an expression where every argument has one.

    >>> evaluate(floored(symbol("d") / 2), {"d": 7})
    3
    """
    total: Number = 0
    for monomial, coefficient in poly.terms.items():
        term: Number = coefficient
        for letter, power in monomial:
            value = letter.value(point) if isinstance(letter, Atom) else point[letter]
            term = term * (value**power if power > 0 else 1 / Fraction(value) ** -power)
        total = total + term
    return total.numerator if total.denominator == 1 else total


def arguments(poly: Poly) -> frozenset[str]:
    """The arguments that occur in an expression, inside of roundings too."""
    found: set[str] = set()
    for letter in poly.letters:
        if isinstance(letter, Atom):
            found.update(*(arguments(part) for part in letter.parts))
        else:
            found.add(letter)
    return frozenset(found)


def atoms(poly: Poly) -> list[Atom]:
    """The roundings in an expression."""
    return [letter for letter in poly.letters if isinstance(letter, Atom)]


def is_whole(poly: Poly) -> bool:
    """Whether an expression is a whole number wherever its arguments are."""
    return all(c.denominator == 1 and all(p > 0 for _, p in m) for m, c in poly.terms.items())


def floored(poly: Poly) -> Poly:
    """The expression rounded down; rounding up is said as such.

    >>> floored((symbol("d") + 255) / 256), floored(-symbol("d") / 2)
    (ceiling(d/256), -ceiling(d/2))
    """
    if is_whole(poly):
        return poly
    leading = max(poly.sorted_terms()[:1], default=((), 0))[1]
    if leading < 0:
        return -raised(-poly)
    denominator = max((c.denominator for c in poly.terms.values()), default=1)
    constant = poly.terms.get((), 0)
    up = poly - constant
    if constant and constant == Fraction(denominator - 1, denominator) and is_whole(up * denominator):
        return raised(up)
    return symbol(Atom.make(f"floor({poly.text(ascii_only=True)})", floor, poly))


def raised(poly: Poly) -> Poly:
    """The expression rounded up."""
    if is_whole(poly):
        return poly
    return symbol(Atom.make(f"ceiling({poly.text(ascii_only=True)})", ceil, poly))


def nearest(poly: Poly) -> Poly:
    """The nearest whole number; of two, the even one, as Python rounds.

    >>> [evaluate(nearest(symbol("d") / 2), {"d": d}) for d in (1, 2, 3, 5)]
    [0, 1, 2, 2]
    """
    half = Fraction(1, 2)
    up = floored(poly + half)
    if all(c.denominator % 2 for c in poly.terms.values()):
        return up
    # Whole where the number lies between two and the lower one is even.
    tie = (poly - half) * half
    return up + raised(tie) - floored(tie) - 1


def quotient(dividend: Poly, divisor: Poly) -> Poly | None:
    """The exact quotient, where the divisor is a single product."""
    return dividend / divisor if len(divisor.terms) == 1 else None


def floor_quotient(dividend: Poly, divisor: Poly) -> Poly:
    """`dividend // divisor`, rounded down; `(x + m - 1) // m` is x/m rounded up."""
    up = dividend - divisor + 1
    if len(up.terms) < len(dividend.terms) and len(divisor.terms) == 1 and is_whole(up):
        return raised(up / divisor)
    exact = quotient(dividend, divisor)
    if exact is not None:
        return floored(exact)
    text = f"floor(({dividend.text(ascii_only=True)})/({divisor.text(ascii_only=True)}))"
    return symbol(Atom.make(text, lambda a, b: a // b, dividend, divisor))


def remainder(dividend: Poly, divisor: Poly) -> Poly:
    """`dividend % divisor`."""
    text = f"Mod({dividend.text(ascii_only=True)}, {divisor.text(ascii_only=True)})"
    return symbol(Atom.make(text, lambda a, b: a % b, dividend, divisor))


def extreme(rule: Callable[..., Number], parts: Iterable[Poly]) -> Poly:
    """The largest or smallest of some expressions."""
    sides = sorted(parts, key=lambda part: part.text(ascii_only=True))
    name = "Max" if rule is max else "Min"
    text = f"{name}({', '.join(side.text(ascii_only=True) for side in sides)})"
    return symbol(Atom.make(text, rule, *sides))


def power(base: int, exponent: Poly) -> Poly:
    """A number to the power of an expression."""
    text = exponent.text(ascii_only=True)
    name = f"({base}**{text})" if text.isidentifier() else f"({base}**({text}))"
    return symbol(Atom.make(name, lambda e: Fraction(base) ** int(e), exponent))


def rational(value: float) -> Fraction:
    """A float as the fraction that its writer meant: 2.6666666666666665 is 8/3.

    >>> rational(8 / 3)
    Fraction(8, 3)
    """
    exact = Fraction(value)
    near = exact.limit_denominator(4096)
    return near if abs(near - exact) <= abs(exact) * Fraction(1, 10**14) else exact


def complexity(poly: Poly) -> tuple[int, int, int]:
    """How much there is to read: roundings, terms, characters. The simplest of several is believed."""
    return len(atoms(poly)), len(poly.terms), len(poly.text(ascii_only=True))


def constant(value: Number) -> Poly:
    """A number as an expression."""
    return as_poly(value)
