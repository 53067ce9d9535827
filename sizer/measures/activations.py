"""What a forward pass keeps for the backward pass, tensor by tensor.

Every op is run on tensors that have shapes and no values (`sizer.measures.step`), so what it keeps
is what PyTorch's own op keeps: its input, its output, or neither. A storage that several ops keep
counts once. Parameters are listed and count nothing: they are there anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.poly import Poly, as_poly
from sizer.core.record import Record
from sizer.measures.step.simulate import Settings, step
from sizer.measures.step.tensors import Saved

if TYPE_CHECKING:
    from sizer.model import Model


class Ledger(Record):
    """The tensors that are kept, and their bytes in all, each storage once.

    An entry with `layers` stands for as many equal ones, one a layer.
    """

    __slots__ = ("entries", "total")

    def __init__(self, entries: list[Saved], total: Dim) -> None:
        self.entries = entries
        self.total = total

    @property
    def n_tensors(self) -> Dim:
        """How many tensors are kept, parameters and views included."""
        return sum((entry.layers for entry in self.entries), start=0)


def activations(model: Model, settings: Settings) -> Ledger:
    """The ledger of a forward pass.

    >>> import sizer
    >>> model = sizer.load("gpt2-small")
    >>> activations(model, Settings(batch_size=1, seq_len=1024, precision="fp32", attention="eager")).total
    1873317900
    """
    return _ledger(step(model, settings, backward=False).saved)


def activations_formula(model: Model, settings: Settings) -> Poly:
    """The bytes kept, over letters: those of the sizes, B sequences and T tokens each.

    It is of a run like this one; `step_forms` makes one of every batch.
    """
    numbers = step(model, settings, backward=False)
    letters = step(model, settings, backward=False, letters_of=numbers)
    return as_poly(_ledger(letters.saved).total)


def _ledger(saved: list[Saved]) -> Ledger:
    kept = [entry for entry in saved if not isinstance(entry.layers, int) or entry.layers]
    return Ledger(kept, sum((entry.new * entry.layers for entry in kept), start=0))
