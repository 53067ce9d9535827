"""A polynomial with exact coefficients: the symbol that flows through a builder.

Sympy says the same and far more, and takes 250 ms to import.
A count must show its formula in a few milliseconds, so the hot path carries this instead;
`Poly.to_sympy` hands over to sympy wherever its power is wanted.
Exponents may be negative, so that the width of a head, `D/H`, stays exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fractions import Fraction

    import sympy

    Number = int | Fraction

# A monomial: the letters with their exponents, sorted by letter. D²·L is (("D", 2), ("L", 1)).
Monomial = tuple[tuple[str, int], ...]

# The order of letters in a product, and of terms of one degree in a sum: counts, tables, widths.
_LETTERS = ("L", "Ld", "E", "Es", "k", "V", "C", "T", "B", "D", "Rq", "Rk", "H", "K", "Dh", "F", "Fe")
_RANK = {letter: rank for rank, letter in enumerate(_LETTERS)}
# A condition as a letter: 1 where it holds, else 0. In arithmetic, where 0⁰ is 1, it is a power of 0.
ONE_SEQUENCE = "[B=1]"
_ARITHMETIC = {ONE_SEQUENCE: "0**(B - 1)"}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Poly:
    """A sum of monomials.

    >>> D, H = symbol("D"), symbol("H")
    >>> 12 * D * D + 10 * D
    12D² + 10D
    >>> H * (D / H) == D
    True
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, Number]) -> None:
        self.terms = terms

    # -- arithmetic ---------------------------------------------------------------------------

    def __add__(self, other: Poly | Number) -> Poly:
        if not isinstance(other, Poly):
            if not _is_number(other):
                return NotImplemented
            other = as_poly(other)
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            total = terms.get(monomial, 0) + coefficient
            if total:
                terms[monomial] = total
            else:
                terms.pop(monomial, None)
        return Poly(terms)

    __radd__ = __add__

    def __neg__(self) -> Poly:
        return Poly({monomial: -coefficient for monomial, coefficient in self.terms.items()})

    def __sub__(self, other: Poly | Number) -> Poly:
        return self + -other

    def __rsub__(self, other: Number) -> Poly:
        return -self + other

    def __mul__(self, other: Poly | Number) -> Poly:
        if not isinstance(other, Poly):
            if not _is_number(other):
                return NotImplemented
            return Poly({m: c * other for m, c in self.terms.items()} if other else {})
        terms: dict[Monomial, Number] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                monomial = _product(left, right)
                terms[monomial] = terms.get(monomial, 0) + a * b
        return Poly({monomial: c for monomial, c in terms.items() if c})

    __rmul__ = __mul__

    def __truediv__(self, other: Poly | int) -> Poly:
        """Exact quotient by a number or by a single monomial; a sum has no exact quotient here."""
        if not isinstance(other, Poly):
            if not _is_number(other):
                return NotImplemented
            other = Poly({(): other})
        terms = other.terms
        if len(terms) != 1:
            raise ValueError(f"cannot divide {self} by {other}: it is not a single product")
        ((monomial, coefficient),) = terms.items()
        inverse = tuple((letter, -power) for letter, power in monomial)
        return self * Poly({inverse: 1 if coefficient == 1 else exact_quotient(1, coefficient)})

    def __rtruediv__(self, other: int) -> Poly:
        return as_poly(other) / self if _is_number(other) else NotImplemented

    def __pow__(self, power: int) -> Poly:
        if power < 0:
            return 1 / self**-power
        result = Poly({(): 1})
        for _ in range(power):
            result = result * self
        return result

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Poly):
            return self.terms == other.terms
        return _is_number(other) and self.terms == ({(): other} if other else {})

    def __hash__(self) -> int:
        if not self.letters:
            return hash(self.terms.get((), 0))  # what it equals
        return hash(frozenset(self.terms.items()))

    def __bool__(self) -> bool:
        raise TypeError(f"a builder may not branch on the size {self}")

    __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: self.__bool__()

    # -- use ----------------------------------------------------------------------------------

    @property
    def letters(self) -> frozenset[str]:
        """The letters that occur."""
        return frozenset(letter for monomial in self.terms for letter, _ in monomial)

    def subs(self, values: Mapping[str, int | Poly]) -> Poly | Number:
        """Replace letters by numbers or polynomials; a number comes back when no letter is left.

        >>> (12 * symbol("D") ** 2).subs({"D": 768})
        7077888
        """
        total: Poly | Number = 0
        for monomial, coefficient in self.terms.items():
            term: Poly | Number = coefficient
            for letter, power in monomial:
                value = values.get(letter)
                if value is None:
                    value = symbol(letter)
                for _ in range(abs(power)):
                    term = term * value if power > 0 else exact_quotient(term, value)
            total = total + term
        if isinstance(total, Poly):
            return total
        return _reduced(total)

    def value(self, values: Mapping[str, int]) -> Number:
        """The number a polynomial is when every letter has a value.

        >>> (symbol("D") / symbol("H")).value({"D": 768, "H": 12})
        64
        """
        number = self.subs(values)
        if isinstance(number, Poly):
            raise ValueError(f"no value for {', '.join(sorted(number.letters))} in {self}")
        return number

    def approximate(self, values: Mapping[str, Any]) -> float:
        """The largest value in floating point, over numbers or arrays of numbers."""
        total: Any = 0.0
        for monomial, coefficient in self.terms.items():
            term: Any = float(coefficient)
            for letter, power in monomial:
                term = term * values[letter] ** power
            total = total + term
        return float(total.max() if hasattr(total, "max") else total)

    def derivative(self, letter: str) -> Poly:
        """The partial derivative.

        >>> (12 * symbol("D") ** 2 + 10 * symbol("D")).derivative("D")
        24D + 10
        """
        terms: dict[Monomial, Number] = {}
        for monomial, coefficient in self.terms.items():
            power = dict(monomial).get(letter, 0)
            if power:
                terms[_product(monomial, ((letter, -1),))] = coefficient * power
        return Poly(terms)

    def sorted_terms(self) -> list[tuple[Monomial, Number]]:
        """Terms by falling degree, then in the order of letters."""
        return sorted(self.terms.items(), key=lambda term: _term_key(term[0]))

    def to_sympy(self) -> sympy.Expr:
        """The same as a sympy expression, over plain symbols, so that `.subs({"D": 768})` works."""
        import sympy

        return sympy.Add(
            *(
                sympy.Mul(
                    sympy.Rational(coefficient),
                    *(sympy.Symbol(x) ** p for x, p in monomial),
                )
                for monomial, coefficient in self.terms.items()
            )
        )

    def text(self, *, ascii_only: bool = False) -> str:
        """`12D² + 10D`; with a longer letter `2·K·Dh`; with `ascii_only`, `12*D**2 + 10*D`."""
        if not self.terms:
            return "0"
        pieces: list[str] = []
        for monomial, coefficient in self.sorted_terms():
            negative = coefficient < 0
            sign = ("-" if negative else "") if not pieces else (" - " if negative else " + ")
            pieces.append(
                sign + term_text(monomial, -coefficient if negative else coefficient, ascii_only=ascii_only)
            )
        return "".join(pieces)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


def symbol(letter: str) -> Poly:
    """The polynomial that is one letter."""
    return Poly({((letter, 1),): 1})


def as_poly(value: Poly | Number) -> Poly:
    """A number as a polynomial; a polynomial as it is."""
    return value if isinstance(value, Poly) else Poly({(): value} if value else {})


def exact_quotient(dividend: Any, divisor: Any) -> Any:
    """The quotient without rounding, for numbers and polynomials alike."""
    if isinstance(dividend, Poly) or isinstance(divisor, Poly):
        return dividend / divisor
    from fractions import Fraction

    return _reduced(Fraction(dividend) / divisor)


def letter_key(letter: str) -> tuple[int, str]:
    """Sort key that puts letters in the order they are printed."""
    return _RANK.get(letter, len(_RANK)), letter


def term_text(monomial: Monomial, coefficient: Number, *, ascii_only: bool = False) -> str:
    """One product as text; the coefficient must be positive."""
    above = [(x, p) for x, p in sorted(monomial, key=lambda f: letter_key(f[0])) if p > 0]
    below = [(x, -p) for x, p in sorted(monomial, key=lambda f: letter_key(f[0])) if p < 0]
    numerator, denominator = coefficient.numerator, coefficient.denominator
    glue = "*" if ascii_only else "·" if any(len(letter) > 1 for letter, _ in monomial) else ""

    def factors(number: int, powers: list[tuple[str, int]]) -> list[str]:
        texts = [] if number == 1 and powers else [str(number)]
        return texts + [_power(letter, power, ascii_only) for letter, power in powers]

    text = glue.join(factors(numerator, above))
    if not below and denominator == 1:
        return text
    parts = factors(denominator, below)
    return f"{text}/({glue.join(parts)})" if len(parts) > 1 else f"{text}/{parts[0]}"


def _power(letter: str, power: int, ascii_only: bool) -> str:
    if ascii_only:
        letter = _ARITHMETIC.get(letter, letter)
    if power == 1:
        return letter
    return f"{letter}**{power}" if ascii_only else letter + str(power).translate(_SUPERSCRIPT)


def _term_key(monomial: Monomial) -> tuple[int, list[tuple[int, str, int]]]:
    degree = sum(power for _, power in monomial)
    return -degree, sorted((*letter_key(letter), -power) for letter, power in monomial)


def _product(left: Monomial, right: Monomial) -> Monomial:
    if not left:
        return right
    if not right:
        return left
    powers = dict(left)
    for letter, power in right:
        powers[letter] = powers.get(letter, 0) + power
    return tuple(sorted((letter, power) for letter, power in powers.items() if power))


def _is_number(value: object) -> bool:
    # `numbers.Rational` would say this, and costs an import: an int, or a Fraction.
    return isinstance(value, int) or type(value).__name__ == "Fraction"


def _reduced(value: Number) -> Number:
    return value.numerator if value.denominator == 1 else value
