"""The closed form of a module from the module itself, checked at points it has not seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from math import prod
from random import Random
from typing import Any

from sizer.errors import BadInput, clip
from sizer.oracles.compare import Found
from sizer.oracles.derive.begin import begin, widened
from sizer.oracles.derive.bounds import TooMuch
from sizer.oracles.derive.builds import Builder
from sizer.oracles.derive.check import Checked, check, differing
from sizer.oracles.derive.closed import Closed, Fixed
from sizer.oracles.derive.edges import beside_steps, beyond, rounded_arguments
from sizer.oracles.derive.expressions import Point
from sizer.oracles.derive.fit import Fitter
from sizer.oracles.derive.folding import Derived, Sample
from sizer.oracles.derive.groups import Inexpressible, groups
from sizer.oracles.derive.points import Space, holds
from sizer.oracles.derive.start import Start
from sizer.oracles.derive.switches import switches
from sizer.oracles.derive.target import target as find

TIMEOUT = 120.0
CHECKS = 20
# Random points that a fit is made from, beside those where one argument moved: at first, and at most.
FEW, DRAWN = 10, 26
REPAIRS = 12
# Fewer points than this are no evidence that a series has an expression.
ENOUGH = 3
# The widest that an argument is drawn, whatever its given value is.
FARTHEST = 1 << 16
SEED = 20


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
        raise BadInput(
            f"{clip(name)}: a build is too large: {error}; give smaller sizes with --config"
        ) from None


class _Derivation:
    def __init__(self, builder: Builder, random: Random) -> None:
        self.builder, self.random = builder, random
        self.begun: Start = begin(builder, random)
        self.space: Space = self.begun.space
        self.fixed: list[Fixed] = []
        self.drawn, self.wanted = 0, FEW
        # Every other fresh point is a far one.
        self.far = cycle((False, True))
        self.moves: list[tuple[Point, Point]] = list(self.begun.moves)
        self.samples: list[Sample] = list(self.begun.samples)
        given = builder.sizes
        for letter, reason in self.begun.stuck.items():
            self.fixed.append(Fixed(letter, given[letter], "it cannot vary", reason))
        if any(self.space.base[letter] != given[letter] for letter in self.begun.stuck):
            self.put_back(self.begun.stuck)

    def run(self, checks: int) -> Closed:
        found, checked = self.checked(checks)
        wrong = self.at_the_given_values(found)
        if wrong:
            # What every so many layers have shows only over many layers, and a rounding over wide widths.
            widened(self.begun)
            self.look_far([n for n in self.begun.relevant if n not in self.begun.structural])
            given = self.given_sample()
            if all(given.point[f.letter] == self.space.base[f.letter] for f in self.fixed):
                self.samples.append(given)
            self.moves, again = self.begun.probed(
                [n for n in self.begun.relevant if n not in self.space.fixed]
            )
            self.samples += again
            self.drawn = 0
            found, checked = self.checked(checks)
            wrong = self.at_the_given_values(found)
        for counted in (False, True):
            # The pattern of the given layers is not that of fewer: those arguments stay as given.
            letters = [n for n in self.space.free() if n in self.begun.structural]
            letters = [n for n in letters if self.begun.counted(n) == counted]
            if wrong and letters:
                self.fix(letters, "few of it are not like the given ones", wrong)
                found, checked = self.checked(checks)
                wrong = self.at_the_given_values(found)
        name = clip(self.builder.target.name)
        if wrong:
            raise BadInput(f"{name}: the formula of small sizes is not that of the given ones: {wrong}")
        return Closed(
            self.builder,
            found,
            self.fixed,
            self.begun.explained(found),
            checked.with_values(self.space, self.builder.sizes),
            *switches(self.begun),
            _total(self.begun.default),
            self.space,
            self.begun.without_effect(),
        )

    def checked(self, checks: int) -> tuple[list[Derived], Checked]:
        """A formula that holds at that many fresh points; those where one does not hold teach the next."""
        name = clip(self.builder.target.name)
        for _ in range(REPAIRS):
            found = self.fitted()
            self.look_far(rounded_arguments(found))
            checked = check(found, self.fresh, checks)
            if checked.wrong is None and checked.points < checks:
                raise BadInput(
                    f"{name}: it accepts too few combinations of its arguments: {self.begun.last_refusal}"
                )
            wrong = checked.wrong or self.wrong_at_an_edge(found)
            if wrong is None:
                return found, checked
            self.samples.append(wrong)
            self.wanted = DRAWN
        raise BadInput(
            f"{name}: no expression holds at fresh points: {differing(found, self.samples[-1])}; "
            "fix arguments with --config"
        )

    def wrong_at_an_edge(self, found: list[Derived]) -> Sample | None:
        """A point that random ones rarely meet and where the formula is wrong; nothing where there is none.

        Where it is wrong beyond a comparison of the module, that the comparison holds becomes a rule.
        """
        for rule in list(self.space.dropped):
            point = beyond(rule, self.space, self.random)
            sample = self.begun.sample(point) if point is not None else None
            if sample is not None and differing(found, sample):
                self.space.dropped.remove(rule)
                self.space.comparisons.append(rule)
                self.samples = [s for s in self.samples if holds(*rule, s.point)]
        for point in beside_steps(found, self.space, self.random):
            sample = self.begun.sample(point)
            if sample is not None and differing(found, sample):
                return sample
        return None

    def look_far(self, names: Iterable[str]) -> None:
        """Draw widths up to twice their given values, since small ones see few steps of a rounding."""
        given = self.builder.sizes
        self.space.far.update(
            {n: min(2 * given[n], FARTHEST) for n in names if n not in self.begun.structural}
        )

    def given_sample(self) -> Sample:
        """The module as it was given."""
        return Sample(self.builder.sizes, {t.name: t for t in self.begun.default if t.kind == "param"})

    def at_the_given_values(self, found: list[Derived]) -> str:
        """What is wrong at the values that were given, if anything."""
        return differing(found, self.given_sample())

    def fitted(self) -> list[Derived]:
        """The tensors as expressions; arguments that enter in no way that is known are fixed."""
        while True:
            self.draw(self.wanted)
            fitter = Fitter(self.begun.hints(), self.space.divisions, self.moves)
            try:
                return groups(self.samples, fitter)
            except Inexpressible as error:
                if self.wanted < DRAWN:
                    self.wanted = DRAWN
                elif not self.begun.settled:
                    self.begun.settle()
                    self.moves, self.samples = list(self.begun.moves), list(self.begun.samples)
                    self.drawn = 0
                else:
                    self.give_up_one(error, fitter)

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
        if not any(self.is_expressible_without([n], error, fitter) for n in relevant):
            # What no move showed may hide behind a width, such as the depth of an earlier stage.
            others = [n for n in self.begun.relevant if n not in self.space.fixed and n not in relevant]
            guilty = [n for n in others if self.is_expressible_without([n], error, fitter)]
            if not guilty and self.is_expressible_without(others, error, fitter):
                guilty = others
            relevant = guilty or relevant
        letter = min(relevant, key=lambda name: self.begun.blame(name))
        seen = f"{error.name}: {_shown(error, relevant)}"
        self.fix([letter], "it enters in a way that has no expression here", seen)

    def is_expressible_without(self, names: Sequence[str], error: Inexpressible, fitter: Fitter) -> bool:
        """Whether a series has an expression among the points where these arguments stay put."""
        base = self.space.base
        still = [(p, v) for p, v in error.series if all(p[name] == base[name] for name in names)]
        fit = fitter.count if error.counts else fitter.size
        return ENOUGH < len(still) < len(error.series) and fit(still) is not None

    def fix(self, letters: list[str], reason: str, evidence: str) -> None:
        """Let arguments stay as they were given, in all points from now on."""
        self.fixed += [Fixed(letter, self.builder.sizes[letter], reason, evidence) for letter in letters]
        self.space.fixed.update(letters)
        self.put_back(letters)

    def put_back(self, letters: Iterable[str]) -> None:
        """Begin again where these arguments have the values that were given."""
        given = self.builder.sizes
        wanted = {**self.space.base, **{letter: given[letter] for letter in letters}}
        point = self.space.repaired(wanted, self.random, set(self.space.free()))
        if point is not None and self.begun.sample(point) is not None:
            self.space.base = point
        base = self.space.base
        self.samples = [
            s for s in self.samples if all(s.point[f.letter] == base[f.letter] for f in self.fixed)
        ]
        self.moves, again = self.begun.probed([n for n in self.begun.relevant if n not in self.space.fixed])
        self.drawn = len(self.samples)
        self.samples += again

    def draw(self, wanted: int) -> None:
        """More random points, until there are enough beside the moves."""
        refused = 0
        while self.drawn < wanted:
            sample = self.fresh()
            if sample is None:
                refused += 1
                if refused > 6 * wanted:
                    raise BadInput(
                        f"{clip(self.builder.target.name)}: it accepts too few combinations of arguments: "
                        f"{self.begun.last_refusal}; fix some with --config"
                    )
                continue
            self.samples.append(sample)
            self.drawn += 1

    def fresh(self) -> Sample | None:
        """A random point and its tensors; nothing where the module refuses it."""
        free = [n for n in self.begun.relevant if n not in self.space.fixed]
        point = self.space.draw(self.random, free, far=next(self.far))
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
