"""What may stand between two numbers: signed amounts, each with a name, a formula and a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sizer.core.record import Record


class Term(Record):
    """One thing that a count may have or leave out.

    `amount` is added to the total. `formula` says how it comes about, and is worked out when it is
    shown. `touches`: bits of what it changes; two terms that touch the same exclude each other.
    `cost`: how unlikely it is beside others of the same amount; 0 is what people meet every day.
    """

    __slots__ = ("amount", "cost", "formula_of", "name", "touches", "why")

    def __init__(
        self,
        name: str,
        amount: int,
        formula_of: Callable[[], str] | str,
        why: str,
        touches: int = 0,
        cost: int = 1,
    ) -> None:
        self.name = name
        self.amount = amount
        self.formula_of = formula_of
        self.why = why
        self.touches = touches
        self.cost = cost

    @property
    def formula(self) -> str:
        """How the amount comes about."""
        return self.formula_of if isinstance(self.formula_of, str) else self.formula_of()


class Variant(Record):
    """A whole reading of a model, such as its active parameters, or its packed form.

    `base`: the terms that make it of our total, all of them or none. `pool`: those that may be added.
    `stored`: its amounts are bytes. `per_row`: what one row more of the vocabulary adds, the rows there
    are, and what they touch; zeros where it has none. `weight`: of how many terms its base is thought.
    `bundle`: what goes together in files, named for rounded figures, which one cannot take apart; `loose`:
    the same in parts, for exact ones.
    """

    __slots__ = ("base", "bundle", "loose", "per_row", "pool", "start", "stored", "weight")

    def __init__(
        self,
        start: int,
        base: tuple[Term, ...],
        pool: Iterable[Term],
        *,
        stored: bool = False,
        per_row: tuple[int, int, int] = (0, 0, 0),
        bundle: bool = False,
        loose: bool = False,
        weight: int | None = None,
    ) -> None:
        self.start = start
        self.base = base
        self.pool = [term for term in pool if term.amount]
        self.stored = stored
        self.per_row = per_row
        self.bundle = bundle
        self.loose = loose
        self.weight = len(base) if weight is None else weight

    @property
    def total(self) -> int:
        """The number it is, without anything of its pool."""
        return self.start + sum(term.amount for term in self.base)
