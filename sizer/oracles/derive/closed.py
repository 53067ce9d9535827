"""What a derivation finds: the closed form of a module, and how far it reaches."""

from __future__ import annotations

from random import Random

from sizer.core.poly import Poly
from sizer.oracles.derive.builds import Builder
from sizer.oracles.derive.check import Checked
from sizer.oracles.derive.expressions import arguments, constant
from sizer.oracles.derive.folding import Derived
from sizer.oracles.derive.points import Space
from sizer.oracles.derive.switches import Switch, Turn


class Fixed:
    """An argument that the formula does not vary: its value, and why."""

    def __init__(self, letter: str, value: int, reason: str, evidence: str = "") -> None:
        self.letter, self.value, self.reason, self.evidence = letter, value, reason, evidence


class Closed:
    """The closed form of a module.

    `tensors`: what it is made of. `values`: the arguments that occur, with their given values.
    `fixed`: arguments that stay as they are. `without_effect`: those that the module computes with
    and that changed nothing at small sizes, so that they may matter elsewhere. `rules`: what the
    arguments must keep. `unseen`: switches of which it is not known what they change.
    """

    def __init__(
        self,
        builder: Builder,
        tensors: list[Derived],
        fixed: list[Fixed],
        rules: list[str],
        checked: Checked,
        found: list[Switch],
        unseen: list[Turn],
        given_total: int,
        space: Space,
        without_effect: list[str],
    ) -> None:
        self.name = builder.target.name
        self.builder = builder
        self.tensors = tensors
        self.fixed = fixed
        self.rules = rules
        self.checked = checked
        self.switches = found
        self.unseen = unseen
        self.given_total = given_total
        self.arguments = builder.arguments
        self.values = builder.sizes
        self.space = space
        self.without_effect = without_effect

    def draw(self, random: Random, *, far: bool) -> dict[str, int]:
        """Random arguments that keep the rules; `far`: wide ones too."""
        free = [name for name in arguments(self.total) if name not in self.space.fixed]
        point = self.space.draw(random, free, far=far)
        return point if point is not None else self.values

    @property
    def total(self) -> Poly:
        """Parameters in all, each storage once."""
        return sum((t.each * t.times for t in self.tensors if t.tied_to is None), start=constant(0))
