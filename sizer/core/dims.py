"""What a size may be: an exact integer, a symbol, or a numpy array of integers.

A builder only adds and multiplies sizes. Quotients are taken here, once, when a config is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from sizer.core.record import Record
from sizer.errors import InvalidConfig

# An `int`, a `Poly`, a `sympy.Expr` or a `numpy.ndarray`: whatever adds and multiplies exactly.
# The one deliberate `Any` of the package: no common type of the four has their arithmetic.
Dim: TypeAlias = Any

# No model has a dimension near this; it bounds the arithmetic that hostile input can cause.
MAX_SIZE = 10**15
# No model has as many layers; a list may be made with an entry for each.
MAX_LAYERS = 100_000


def is_array(size: Dim) -> bool:
    """Whether a size is a numpy array, one entry a model of a sweep."""
    return hasattr(size, "dtype")


def divide(dividend: Dim, divisor: Dim, *, names: str, fix: str = "") -> Dim:
    """The exact quotient of two sizes; integers that do not divide are an error.

    `names` says what is divided by what ("d_model / n_heads"), for the message.

    >>> divide(768, 12, names="d_model / n_heads")
    64
    """
    if isinstance(dividend, int) and isinstance(divisor, int):
        if dividend % divisor:
            raise _not_a_multiple(dividend, divisor, names, fix)
        return dividend // divisor
    if is_array(dividend) or is_array(divisor):
        if (dividend % divisor).any():
            raise InvalidConfig(f"{names}: some of the sizes given do not divide")
        return dividend // divisor
    recorded = _quotients.get()
    if recorded is not None:
        recorded.append(Quotient(dividend, divisor, names, fix))
    return dividend / divisor


class Quotient(Record):
    """A quotient of symbols, which must be whole once they are numbers."""

    __slots__ = ("dividend", "divisor", "fix", "names")

    def __init__(self, dividend: Dim, divisor: Dim, names: str, fix: str) -> None:
        self.dividend = dividend
        self.divisor = divisor
        self.names = names
        self.fix = fix

    def error(self, dividend: int, divisor: int) -> InvalidConfig:
        """What is wrong where these are its numbers and do not divide."""
        return _not_a_multiple(dividend, divisor, self.names, self.fix)


_quotients: ContextVar[list[Quotient] | None] = ContextVar("quotients", default=None)


@contextmanager
def quotients() -> Iterator[list[Quotient]]:
    """The quotients of symbols that are taken meanwhile.

    >>> from sizer.core.poly import symbol
    >>> with quotients() as found:
    ...     width = divide(symbol("D"), symbol("H"), names="d_model / n_heads")
    >>> found[0].dividend, found[0].divisor
    (D, H)
    """
    found: list[Quotient] = []
    token = _quotients.set(found)
    try:
        yield found
    finally:
        _quotients.reset(token)


def round_up(size: Dim, multiple: int) -> Dim:
    """The next multiple; a symbol cannot be rounded and is named by the caller instead."""
    return -(-size // multiple) * multiple


def _not_a_multiple(dividend: int, divisor: int, names: str, fix: str) -> InvalidConfig:
    over, under = (part.strip() for part in names.split("/"))
    below = dividend // divisor * divisor
    near = f"{below} or {below + divisor}" if below else f"{divisor}"
    return InvalidConfig(
        f"{over} = {dividend} is not a multiple of {under} = {divisor}; "
        f"use {over} = {near}{fix and f', or {fix}'}"
    )
