"""The closed form of a module from the module itself, checked at points it has not seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import prod
from random import Random
from typing import Any

from sizer.core.poly import Poly
from sizer.errors import BadInput, clip
from sizer.oracles.compare import Found
from sizer.oracles.derive.builds import Builder, Refused, TooMuch
from sizer.oracles.derive.check import Checked, check, differing
from sizer.oracles.derive.expressions import Point, constant
from sizer.oracles.derive.fit import Fitter
from sizer.oracles.derive.groups import Derived, Inexpressible, Sample, groups
from sizer.oracles.derive.points import Space
from sizer.oracles.derive.start import Start, start
from sizer.oracles.derive.switches import Switch, switches
from sizer.oracles.derive.target import target as find

TIMEOUT = 120.0
CHECKS = 20
# Random points that a fit is made from, beside those where one argument moved.
DRAWN = 26
REPAIRS = 12
SEED = 20


class Fixed:
    """An argument that the formula does not vary: its value, and why."""

    def __init__(self, letter: str, value: int, reason: str, evidence: str = "") -> None:
        self.letter, self.value, self.reason, self.evidence = letter, value, reason, evidence


class Closed:
    """The closed form of a module.

    `tensors`: what it is made of. `values`: the arguments that occur, with their given values.
    `fixed`: arguments that stay as they are. `rules`: what the arguments must keep.
    """

    def __init__(
        self,
        builder: Builder,
        tensors: list[Derived],
        fixed: list[Fixed],
        rules: list[str],
        checked: Checked,
        found: list[Switch],
        given_total: int,
    ) -> None:
        self.name = builder.target.name
        self.builder = builder
        self.tensors = tensors
        self.fixed = fixed
        self.rules = rules
        self.checked = checked
        self.switches = found
        self.given_total = given_total
        self.arguments = builder.arguments
        self.values = builder.sizes

    @property
    def total(self) -> Poly:
        """Parameters in all, each storage once."""
        return sum((t.each * t.times for t in self.tensors if t.tied_to is None), start=constant(0))


def derive(
    name: str,
    given: Mapping[str, Any] | None = None,
    *,
    config_class: str | None = None,
    timeout: float = TIMEOUT,
    checks: int = CHECKS,
    seed: int = SEED,
) -> Closed:
    """The closed form of `package.module:Class` or `transformers:Class`, in its own arguments.

    `given`: values of arguments, the others keep their defaults. Raises a `SizerError` where there
    is none to be had.
    """
    if not 1 <= timeout <= 86_400:
        raise BadInput(f"--timeout {timeout:g} is no time for a derivation; give 1 to 86,400 seconds")
    if not 1 <= checks <= 1_000:
        raise BadInput(f"--checks {checks} is no number of checks; give 1 to 1,000")
    builder = Builder(find(name, given or {}, config_class), timeout=timeout)
    try:
        return _Derivation(builder, Random(seed)).run(checks)
    except TooMuch as error:
        raise BadInput(f"{clip(name)}: a build is too large: {error}; give smaller sizes with --config") from None


class _Derivation:
    def __init__(self, builder: Builder, random: Random) -> None:
        self.builder, self.random = builder, random
        self.begun: Start = start(builder, random)
        self.space: Space = self.begun.space
        self.fixed: list[Fixed] = []
        for letter, reason in self.begun.stuck.items():
            self.fix(letter, "it cannot vary", reason)
        self.moves: list[tuple[Point, Point]] = list(self.begun.moves)
        self.samples: list[Sample] = list(self.begun.samples)

    def run(self, checks: int) -> Closed:
        found = self.fitted()
        checked = check(found, self.fresh, checks)
        for _ in range(REPAIRS):
            if checked.wrong is None:
                break
            self.samples.append(checked.wrong)
            found = self.fitted()
            checked = check(found, self.fresh, checks)
        if checked.wrong is not None:
            raise BadInput(
                f"{clip(self.builder.target.name)}: no expression holds at fresh points: "
                f"{differing(found, checked.wrong)}; fix arguments with --config"
            )
        given = self.builder.sizes
        total = _total(self.begun.default)
        wrong = self.at_the_given_values(found)
        if wrong:
            raise BadInput(
                f"{clip(self.builder.target.name)}: the formula of small sizes is not that of the given ones: {wrong}"
            )
        rules = self.begun.explained(found)
        return Closed(
            self.builder, found, self.fixed, rules, checked.with_values(self.space, given), switches(self.begun), total
        )

    def at_the_given_values(self, found: list[Derived]) -> str:
        """What is wrong at the values that were given, if anything."""
        point = {**self.builder.sizes}
        for fixed in self.fixed:
            point[fixed.letter] = self.builder.sizes[fixed.letter]
        return differing(found, Sample(point, {t.name: t for t in self.begun.default}))

    def fitted(self) -> list[Derived]:
        """The tensors as expressions; arguments that enter in no way that is known are fixed."""
        self.draw(DRAWN)
        while True:
            fitter = Fitter(self.begun.hints(), self.space.divisions, self.moves)
            try:
                return groups(self.samples, fitter)
            except Inexpressible as error:
                self.give_up_one(error, fitter)
                self.draw(DRAWN)

    def give_up_one(self, error: Inexpressible, fitter: Fitter) -> None:
        """Fix the argument that a series cannot be expressed in, and keep the points that agree."""
        relevant = [name for name in fitter.relevant(error.series) if name not in self.space.fixed]
        if not relevant:
            relevant = [n for n in self.begun.relevant if n not in self.space.fixed]
        if not relevant:
            raise BadInput(
                f"{clip(self.builder.target.name)}: {error.name}: {error.what} follows no expression of its "
                f"arguments: {_shown(error, [])}"
            )
        letter = min(relevant, key=lambda name: self.begun.blame(name))
        self.fix(letter, "it enters in a way that has no expression here", _shown(error, relevant), error.name)

    def fix(self, letter: str, reason: str, evidence: str, tensor: str = "") -> None:
        value = self.builder.sizes[letter]
        where = f"{tensor}: {evidence}" if tensor else evidence
        self.fixed.append(Fixed(letter, value, reason, where))
        self.space.fixed.add(letter)
        kept = self.space.base.get(letter)
        if kept != value and self.try_base(letter, value):
            kept = value
        if not hasattr(self, "samples"):
            return
        self.samples = [s for s in self.samples if s.point[letter] == kept]
        alive = {id(s.point) for s in self.samples}
        self.moves = [m for m in self.moves if id(m[0]) in alive and id(m[1]) in alive]
        if not self.moves or kept == value:
            self.moves, again = self.begun.probed(self.space.free())
            self.samples += again

    def try_base(self, letter: str, value: int) -> bool:
        """Put the argument back to its given value in every point to come."""
        point = self.space.repaired({**self.space.base, letter: value}, self.random, set(self.space.free()))
        if point is None:
            return False
        try:
            self.builder.tensors(point)
        except (Refused, TooMuch):
            return False
        self.space.base = point
        return True

    def draw(self, wanted: int) -> None:
        """More random points, until there are enough beside the moves."""
        drawn = sum(1 for s in self.samples if len(s.point) and s not in self.begun.samples)
        refused = 0
        while drawn < wanted:
            sample = self.fresh()
            if sample is None:
                refused += 1
                if refused > 4 * wanted:
                    raise BadInput(
                        f"{clip(self.builder.target.name)}: it accepts too few combinations of its arguments: "
                        f"{self.begun.last_refusal}; fix some with --config"
                    )
                continue
            self.samples.append(sample)
            drawn += 1

    def fresh(self) -> Sample | None:
        """A random point and its tensors; nothing where the module refuses it."""
        point = self.space.draw(self.random, [n for n in self.begun.relevant if n not in self.space.fixed])
        return None if point is None else self.begun.sample(point)


def _total(tensors: Iterable[Found]) -> int:
    return sum(prod(t.shape) for t in tensors if t.kind == "param" and t.tied_to is None)


def _shown(error: Inexpressible, relevant: list[str]) -> str:
    """Some values of a series: `10 at n=1, 30 at n=2`."""
    shown: dict[int, str] = {}
    for point, value in error.series:
        at = ", ".join(f"{name}={point[name]}" for name in relevant[:3])
        shown.setdefault(value, f"{value} at {at}" if at else str(value))
    return f"{error.what} is {'; '.join(list(shown.values())[:4])}"


__all__ = ["Closed", "Fixed", "Fraction", "derive"]
