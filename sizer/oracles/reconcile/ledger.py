"""The rows of a model as amounts: what a count has or leaves out, each tensor in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sizer.core.dims import Dim
from sizer.core.poly import as_poly
from sizer.core.tree import Buffer, Param
from sizer.core.walk import Row, numel, walk
from sizer.errors import BadInput
from sizer.model import Model
from sizer.oracles.reconcile.term import Term


class Ledger:
    """The rows of a model, and of each how many elements it adds to the number asked about.

    `active`: the elements that one token visits, not all that are stored.
    """

    def __init__(self, model: Model, *, active: bool = False) -> None:
        self.model = model
        self.active = active
        self.rows = model.rows()
        self.own = [
            i for i, row in enumerate(self.rows) if isinstance(row.leaf, Param) and row.leaf.tied_to is None
        ]
        self.amounts = [self.amount(row) for row in self.rows]
        self.total = sum(self.amounts[i] for i in self.own)
        if not isinstance(self.total, int):
            raise BadInput(f"{model.name}: a sweep has many numbers; reconcile one model at a time")
        self._letters: list[Row] | None = None

    def amount(self, row: Row) -> Dim:
        """Elements of all copies of a row, or of those that a token visits."""
        leaf = row.leaf
        if not isinstance(leaf, Param | Buffer):
            return 0
        elements: Dim = numel(leaf.axes)
        if not self.active or isinstance(leaf, Buffer):
            return elements * row.copies
        return (elements if leaf.active is None else leaf.active) * row.active

    def having(self, test: Callable[[Row], bool]) -> list[int]:
        """The parameters with storage of their own that pass a test."""
        return [i for i in self.own if test(self.rows[i])]

    def mask(self, picks: Iterable[int]) -> int:
        """One bit for each row."""
        found = 0
        for i in picks:
            found |= 1 << i
        return found

    def formula(self, picks: Iterable[int], factor: int = 1) -> Callable[[], str]:
        """The sum of some rows in letters, worked out when it is asked for."""
        chosen = tuple(picks)
        return lambda: as_poly(factor * self._in_letters(chosen)).text()

    def difference(self, other: Ledger) -> Callable[[], str]:
        """This number less another's, in letters."""
        return lambda: as_poly(self._in_letters(self.own) - other._in_letters(other.own)).text()

    def _in_letters(self, picks: Iterable[int]) -> Dim:
        if self._letters is None:
            letters = walk(self.model.symbolic_tree())
            # A part whose tree depends on its sizes (Emu3's image tokenizer) has numbers alone.
            self._letters = letters if len(letters) == len(self.rows) else self.rows
        total: Dim = 0
        for i in picks:
            total = total + self.amount(self._letters[i])
        return total

    def without(self, name: str, picks: Iterable[int], why: str, cost: int = 1) -> Term:
        """A term that leaves some rows out."""
        chosen = tuple(picks)
        amount = -sum(self.amounts[i] for i in chosen)
        return Term(name, amount, self.formula(chosen, -1), why, self.mask(chosen), cost)

    def plus(self, name: str, picks: Iterable[int], why: str, cost: int = 1) -> Term:
        """A term that counts rows which are not in the total."""
        chosen = tuple(picks)
        amount = sum(self.amounts[i] for i in chosen)
        return Term(name, amount, self.formula(chosen), why, self.mask(chosen), cost)

    def bit(self, name: str) -> int:
        """A bit that terms share which exclude each other without sharing a row."""
        return 1 << (len(self.rows) + _BITS.index(name))

    def vocabulary(self) -> tuple[list[int], int, int]:
        """Own rows with an axis of the vocabulary, the elements of one entry, and how many there are."""
        tables, each, size = [], 0, 0
        for i in self.own:
            for axis in self.rows[i].leaf.axes:  # type: ignore[union-attr]
                if axis.name == "vocab" and axis.size:
                    # Tables of another vocabulary (a second language) stand apart.
                    if size and axis.size != size:
                        break
                    size = axis.size
                    tables.append(i)
                    each += self.amounts[i] // size
                    break
        return tables, each, size


_BITS = ("scales", "vocabulary", "width", "rotary", "biases")
