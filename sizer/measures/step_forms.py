"""Closed forms of a step that hold for every batch, and the lengths they hold for.

A run over letters takes the ways of a run over numbers (`Tape.choose`). Two things about B and T
turn those: one sequence alone, whose labels are a view where those of several are a copy, and a T
that is one, or fills a window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sizer.core.poly import ONE_SEQUENCE, Poly, as_poly, symbol
from sizer.core.record import Record
from sizer.core.tree import Op
from sizer.measures.activations import activations_formula
from sizer.measures.memory import training_formula
from sizer.measures.step.simulate import Settings, step

if TYPE_CHECKING:
    from sizer.model import Model

OTHERS = "other letters: sizes like these; a single head, or as many KV heads as heads, takes other steps"


class StepForm(Record):
    """A closed form: what it counts, the range of B and of T that it holds for, and what it assumes.

    With values for its letters goes `[B=1]`: 1 for one sequence, else 0.
    """

    __slots__ = ("assumptions", "batches", "form", "lengths", "what")

    def __init__(
        self,
        form: Poly,
        what: str,
        batches: tuple[int, int | None],
        lengths: tuple[int, int | None],
        assumptions: list[str],
    ) -> None:
        self.form = form
        self.what = what
        self.batches = batches
        self.lengths = lengths
        self.assumptions = assumptions

    @property
    def holds(self) -> list[str]:
        """The conditions as inequalities."""
        return [_range("B", self.batches), _range("T", self.lengths)]


def activations_form(model: Model, settings: Settings) -> StepForm:
    """The bytes that a forward pass keeps for the backward pass.

    >>> import sizer
    >>> activations_form(sizer.load("gpt2-small"), Settings()).holds
    ['B >= 1', 'T >= 1']
    """
    form = _of_every_batch(lambda how: activations_formula(model, how), settings)
    return StepForm(form, "bytes kept for the backward pass", (1, None), _lengths(model, settings), [OTHERS])


def memory_form(model: Model, settings: Settings) -> StepForm:
    """The bytes that are alive at the peak; of one sequence and of more where that is the same moment."""
    here = training_formula(model, settings)[0].moment
    moments = [training_formula(model, how)[0].moment for how in _alone_and_not(settings)]
    form, batches = training_formula(model, settings)[1], (1, 1) if settings.batch_size == 1 else (2, None)
    if moments == [here, here]:
        form, batches = _of_every_batch(lambda how: training_formula(model, how)[1], settings), (1, None)
    assumptions = [OTHERS, "the sum of this moment; at other sizes another may hold more"]
    what = f"bytes at the peak, in the {here}"
    return StepForm(form, what, batches, _lengths(model, settings), assumptions)


def _alone_and_not(settings: Settings) -> tuple[Settings, Settings]:
    return settings.at(batch_size=1), settings.at(batch_size=max(2, int(settings.batch_size)))


def _of_every_batch(derive: Callable[[Settings], Poly], settings: Settings) -> Poly:
    one, more = (derive(how) for how in _alone_and_not(settings))
    return more + as_poly((one - more).subs({"B": 1})) * symbol(ONE_SEQUENCE)


def _lengths(model: Model, settings: Settings) -> tuple[int, int | None]:
    """The lengths around that of the run with which a step takes the same ways."""
    here = int(settings.seq_len)

    def ways(length: int) -> list[list[bool]]:
        return [step(model, how.at(seq_len=length)).choices for how in _alone_and_not(settings)]

    # The lengths from which on something may differ; None is beyond all of them.
    starts: list[int] = sorted({1, 2, *_windows(model)})
    taken = ways(here)
    below = [start for start in starts if start <= here]
    low = below.pop()
    while below and ways(below[-1]) == taken:
        low = below.pop()
    high = next((start for start in starts if start > here and ways(start) != taken), None)
    return low, high and high - 1


def _windows(model: Model) -> set[int]:
    sizes = [row.leaf.sizes for row in model.rows("transformers") if isinstance(row.leaf, Op)]
    found = {size for one in sizes for size in (one.get("window"), one.get("mask_window"))}
    return {size for size in found if isinstance(size, int)}


def _range(letter: str, bounds: tuple[int, int | None]) -> str:
    low, high = bounds
    if high is None:
        return f"{letter} >= {low}"
    return f"{letter} = {low}" if low == high else f"{low} <= {letter} <= {high}"
