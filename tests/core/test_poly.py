"""Polynomials against sympy, which says the same and far more."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from sizer.core.poly import Poly, as_poly, exact_quotient, letter_key, symbol, term_text

LETTERS = ("D", "H", "K", "Dh", "L_full", "x")
numbers = st.integers(-6, 6) | st.fractions(-3, 3, max_denominator=4)
powers = st.integers(-3, 3)
monomials = st.dictionaries(st.sampled_from(LETTERS), powers.filter(bool), max_size=3)
terms = st.lists(st.tuples(monomials, numbers), max_size=4)
values = st.fixed_dictionaries(dict.fromkeys(LETTERS, st.integers(1, 7)))


def poly(parts: list[tuple[dict[str, int], Any]]) -> Poly:
    """A sum of products, made by arithmetic on single letters alone."""
    total = Poly({})
    for monomial, coefficient in parts:
        term = as_poly(coefficient)
        for letter, power in monomial.items():
            for _ in range(abs(power)):
                term = term * symbol(letter) if power > 0 else term / symbol(letter)
        total = total + term
    return total


def expr(parts: list[tuple[dict[str, int], Any]]) -> sympy.Expr:
    """The same sum in sympy."""
    return sympy.Add(
        *(
            sympy.Mul(sympy.Rational(c), *(sympy.Symbol(x) ** p for x, p in monomial.items()))
            for monomial, c in parts
        )
    )


def same(found: Poly, expected: sympy.Expr) -> bool:
    return sympy.expand(found.to_sympy() - expected) == 0


def evaluated(text: str, letters: dict[str, Any]) -> Any:
    """The value of a text of arithmetic, in fractions; no name but the letters occurs."""

    def of(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant):
            return Fraction(node.value)
        if isinstance(node, ast.Name):
            return Fraction(letters[node.id])
        if isinstance(node, ast.UnaryOp):
            assert isinstance(node.op, ast.USub)
            return -of(node.operand)
        assert isinstance(node, ast.BinOp)
        left, right = of(node.left), of(node.right)
        if isinstance(node.op, ast.Pow):
            return left ** int(right)
        return {
            ast.Add: left.__add__,
            ast.Sub: left.__sub__,
            ast.Mult: left.__mul__,
            ast.Div: left.__truediv__,
        }[type(node.op)](right)

    return of(ast.parse(text, mode="eval").body)


@given(terms, terms)
def test_sums_and_products_are_those_of_sympy(a: Any, b: Any) -> None:
    left, right = poly(a), poly(b)

    assert same(left, expr(a))
    assert same(left + right, expr(a) + expr(b))
    assert same(left - right, expr(a) - expr(b))
    assert same(left * right, expr(a) * expr(b))
    assert same(-left, -expr(a))
    assert all((left * right).terms.values()), "a term that is nothing is no term"


@given(terms, numbers)
def test_numbers_on_either_side(a: Any, number: Any) -> None:
    left, one = poly(a), sympy.Rational(number)

    assert same(left + number, expr(a) + one)
    assert same(number + left, expr(a) + one)
    assert same(left - number, expr(a) - one)
    assert same(number - left, one - expr(a))
    assert same(left * number, expr(a) * one)
    assert same(number * left, expr(a) * one)
    if number:
        assert same(left / number, expr(a) / one)


@given(terms, monomials, numbers.filter(bool))
def test_the_quotient_by_a_product_is_exact(a: Any, monomial: Any, number: Any) -> None:
    divisor = poly([(monomial, number)])

    assert same(poly(a) / divisor, expr(a) / expr([(monomial, number)]))
    assert same(7 / divisor, 7 / expr([(monomial, number)]))
    assert poly(a) / divisor * divisor == poly(a)


def test_a_sum_and_nothing_divide_nothing() -> None:
    D, H = symbol("D"), symbol("H")

    with pytest.raises(ValueError, match="not a single product"):
        D / (D + H)
    with pytest.raises(ValueError, match="not a single product"):
        1 / (D - D)
    with pytest.raises(ZeroDivisionError):
        D / 0


@given(terms, st.integers(0, 4))
def test_powers_are_products(a: Any, power: int) -> None:
    assert same(poly(a) ** power, expr(a) ** power)


@given(monomials, numbers.filter(bool), st.integers(-3, -1))
def test_a_negative_power_is_a_quotient(monomial: Any, number: Any, power: int) -> None:
    assert same(poly([(monomial, number)]) ** power, expr([(monomial, number)]) ** power)


@given(terms, terms)
def test_equal_is_what_differs_by_nothing(a: Any, b: Any) -> None:
    left, right = poly(a), poly(b)

    assert (left == right) == (sympy.expand(expr(a) - expr(b)) == 0)
    assert left == poly(list(reversed(a)))
    assert hash(left) == hash(poly(list(reversed(a))))


@given(numbers)
def test_a_polynomial_without_letters_is_its_number(number: Any) -> None:
    D = symbol("D")
    alone = D + number - D

    assert alone == number
    assert number == alone
    assert alone != number + 1
    assert hash(alone) == hash(number)
    assert as_poly(number) == alone
    assert as_poly(D) is D
    assert number != D
    assert D != "D"
    assert alone.letters == frozenset()


@pytest.mark.parametrize("other", [0.5, "1", None, [1]])
def test_only_exact_numbers_go_in(other: Any) -> None:
    D = symbol("D")
    for attempt in (
        lambda: D + other,
        lambda: other + D,
        lambda: D - other,
        lambda: other - D,
        lambda: D * other,
        lambda: D / other,
        lambda: other / D,
    ):
        with pytest.raises(TypeError):
            attempt()


@given(terms, values)
def test_the_value_is_that_of_sympy(a: Any, sizes: dict[str, int]) -> None:
    found = poly(a).value(sizes)
    expected = expr(a).subs(sizes)

    assert sympy.Rational(found) == expected
    assert isinstance(found, int) == (expected.q == 1), "a whole number is an int"
    floats = {letter: float(size) for letter, size in sizes.items()}
    assert poly(a).approximate(floats) == pytest.approx(float(expected), abs=1e-9)


@given(terms, terms, st.integers(1, 5))
def test_letters_are_replaced_by_sums_and_numbers(a: Any, b: Any, number: int) -> None:
    whole = [({x: abs(p) for x, p in monomial.items()}, c) for monomial, c in a]
    D, H = sympy.Symbol("D"), sympy.Symbol("H")

    found = poly(whole).subs({"D": poly(b), "H": number})

    expected = expr(whole).subs({D: expr(b), H: number}, simultaneous=True)
    assert same(as_poly(found), expected)


def test_a_letter_below_is_replaced_exactly() -> None:
    D, H = symbol("D"), symbol("H")

    assert (D / H).subs({"H": 12}) == D * Fraction(1, 12)
    assert (D / H).subs({"H": 3 * D}) == Fraction(1, 3)
    assert (D * D / (H * H)).subs({"D": 9, "H": 6}) == Fraction(9, 4)


def test_a_letter_without_a_value_is_named() -> None:
    with pytest.raises(ValueError, match=r"no value for H, x in D·?H"):
        (symbol("D") * symbol("H") * symbol("x")).value({"D": 3})


def test_the_largest_of_an_array() -> None:
    D = symbol("D")

    assert (2 * D * D).approximate({"D": np.array([3.0, 5.0, 4.0])}) == 50.0
    assert isinstance((2 * D).approximate({"D": np.array([3.0])}), float)


@given(terms)
def test_the_derivative_is_that_of_sympy(a: Any) -> None:
    for letter in LETTERS:
        assert same(poly(a).derivative(letter), sympy.diff(expr(a), sympy.Symbol(letter)))


@given(terms, values)
def test_the_text_has_the_same_value(a: Any, sizes: dict[str, int]) -> None:
    found = poly(a)
    expected = Fraction(found.value(sizes))

    assert evaluated(found.text(ascii_only=True), sizes) == expected
    # For people: superscripts, and letters side by side where each is one character.
    text = str(found)
    for digit, above in zip("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True):
        text = text.replace(above, f"^{digit}")
    assert evaluated(spelled(text), sizes) == expected


def spelled(text: str) -> str:
    """What people read, as Python: a product where nothing, or a dot, stands between factors."""
    factor = "|".join(sorted(LETTERS, key=len, reverse=True))
    pieces = re.findall(rf"\d+|{factor}|\^\d+|[-+·/() ]", text)
    assert "".join(pieces) == text
    out: list[str] = []
    for piece in pieces:
        is_factor = piece[0].isalnum() or piece == "("
        if is_factor and out and (out[-1][0].isalnum() or out[-1].startswith("**")):
            out.append("*")
        out.append("*" if piece == "·" else piece.replace("^", "**"))
    return "".join(out)


def test_the_letters_of_a_product_stand_in_their_order() -> None:
    # The order is that of the glossary: counts, tables, widths; a letter of no rank comes last.
    D, F, L, V, a = map(symbol, ("D", "F", "L", "V", "a"))

    assert str(D * L) == "LD"
    assert str(a * F * D * V * L) == "LVDFa"
    assert str(D + D * D + V * D + 3) == "VD + D² + D + 3"
    assert str(-2 * D) == "-2D"
    assert str(3 - D) == "-D + 3"
    assert str(D - 3) == "D - 3"
    assert str(D * D / 2) == "D²/2"
    assert str(D / (2 * F)) == "D/(2F)"
    assert str(1 / D) == "1/D"
    assert str(V / (D * L)) == "V/(LD)"
    assert term_text((("D", 2), ("L", -1)), 3) == "3D²/L"
    assert str(Poly({})) == "0"
    assert str(12 * symbol("K") * symbol("Dh")) == "12·K·Dh"
    assert repr(symbol("D") ** 12) == "D¹²"
    assert letter_key("L") < letter_key("D") < letter_key("a") < letter_key("b")


def test_a_quotient_of_numbers_is_whole_where_it_can_be() -> None:
    assert exact_quotient(12, 4) == 3
    assert isinstance(exact_quotient(12, 4), int)
    assert exact_quotient(1, 4) == Fraction(1, 4)
    assert exact_quotient(symbol("D"), 4) == symbol("D") * Fraction(1, 4)
    assert exact_quotient(4, symbol("D")) * symbol("D") == 4


def test_no_order_and_no_truth() -> None:
    D = symbol("D")
    for question in (
        lambda: D < 1,
        lambda: D <= 1,
        lambda: D > 1,
        lambda: D >= 1,
        lambda: bool(D),
    ):
        with pytest.raises(TypeError, match="may not branch on the size D"):
            question()
