"""What each argument does, around a base point of small sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from sizer.core.poly import Poly
from sizer.errors import BadInput, clip
from sizer.oracles.compare import Found
from sizer.oracles.derive.bounds import TooMuch
from sizer.oracles.derive.builds import Builder, Refused
from sizer.oracles.derive.expressions import Point, arguments
from sizer.oracles.derive.folding import Derived, Sample
from sizer.oracles.derive.points import Space, bare, divides
from sizer.oracles.derive.trace import Record as Trace

# Names of arguments that are no sizes of a module: ids of tokens.
IDS = re.compile(r"_(token_)?ids?$|_token_index$")
TRIES = 24
PROBES = 2


class Start:
    """The base point, its space, and the builds around it.

    `relevant`: the arguments that change a shape or a count. `structural`: those that change which
    tensors there are. `stuck`: those that can have no other value, with what the module says.
    `moves`: pairs of points between which arguments moved.
    """

    def __init__(
        self, builder: Builder, random: Random, default: list[Found], space: Space, trace: Trace
    ) -> None:
        self.builder, self.random = builder, random
        self.default = default
        self.space, self.trace = space, trace
        self.last_refusal = ""
        self.stuck: dict[str, str] = {}
        self.relevant: list[str] = []
        self.structural: set[str] = set()
        self.samples: list[Sample] = []
        self.moves: list[tuple[Point, Point]] = []
        # Whether the samples are of the base point as it is now.
        self.settled = True

    def settle(self) -> None:
        """Probe again around a base point that has moved."""
        self.moves, self.samples = self.probed([n for n in self.relevant if n not in self.space.fixed])
        self.settled = True

    def hints(self) -> list[Poly]:
        """Formulas that the build computed."""
        return list(self.trace.sizes)

    def sample(self, point: Mapping[str, int]) -> Sample | None:
        """The tensors at a point; nothing where the module refuses it."""
        try:
            found = self.builder.tensors(point)
        except (Refused, TooMuch) as error:
            self.last_refusal = str(error)
            self.space.learn(point, accepted=False)
            return None
        self.space.learn(point, accepted=True)
        return Sample(dict(point), {t.name: t for t in found if t.kind == "param"})

    def at_base(self) -> Sample:
        """The tensors at the base point, which was accepted; it may be refused a second time."""
        found = self.sample(self.space.base)
        if found is None:
            raise BadInput(f"{clip(self.builder.target.name)} is not built twice alike: {self.last_refusal}")
        return found

    def probed(self, names: Iterable[str]) -> tuple[list[tuple[Point, Point]], list[Sample]]:
        """Each argument moved alone, where the rules allow it, from the base point."""
        base = self.at_base()
        moves: list[tuple[Point, Point]] = []
        samples = [base]
        for name in names:
            # A pattern over many layers shows in few of their counts.
            wide = self.space.windows[name][1] > 9 and name in self.structural
            for moved in self.moved(name, 3 * PROBES if wide else PROBES):
                moves.append((base.point, moved.point))
                samples.append(moved)
        return moves, samples

    def moved(self, name: str, wanted: int = PROBES) -> list[Sample]:
        """Builds with another value of one argument."""
        found: list[Sample] = []
        seen = {self.space.base[name]}
        for attempt in range(TRIES):
            point = self.space.draw(self.random, [name], keep=True)
            if point is None or point[name] in seen:
                continue
            others = sum(point[other] != self.space.base[other] for other in point)
            if others > 1 and attempt < TRIES // 2:
                continue
            seen.add(point[name])
            sample = self.sample(point)
            if sample is not None:
                found.append(sample)
            if len(found) == wanted or len(seen) > 2 * wanted + 2:
                break
        return found

    def probe(self) -> None:
        """Find out what each argument does."""
        base = self.at_base()
        self.samples = [base]
        self.space.fixed.update(name for name in self.space.free() if IDS.search(name))
        idle = self.idle(base)
        for name in list(self.space.free()):
            if name in idle:
                continue
            self.last_refusal = ""
            found = self.moved(name)
            if not found:
                self.space.fixed.add(name)
                if self.space.base[name] > 0:
                    self.stuck[name] = self.last_refusal or "no other value keeps the rules between arguments"
                continue
            changed = False
            for sample in found:
                if signature(sample) == signature(base):
                    continue
                changed = True
                self.samples.append(sample)
                self.moves.append((base.point, sample.point))
                alone = sum(sample.point[n] != base.point[n] for n in sample.point) == 1
                if alone and sample.tensors.keys() != base.tensors.keys():
                    self.structural.add(name)
            if changed:
                self.relevant.append(name)

    def changing(self, moved: Iterable[Sample]) -> bool:
        """Whether there are other tensors or shapes than at the base point."""
        base = self.at_base()
        return any(signature(sample) != signature(base) for sample in moved)

    def idle(self, base: Sample) -> set[str]:
        """Arguments that do nothing, told by moving them all at once: those that no size was made of."""
        used = self.used()
        sizes = {size for tensor in base.tensors.values() for size in tensor.shape}
        point = self.space.base
        names = [n for n in self.space.free() if n not in used and point[n] not in sizes and point[n] > 0]
        for _ in range(PROBES):
            moved = self.space.draw(self.random, names) if len(names) > 1 else None
            sample = self.sample(moved) if moved is not None else None
            if sample is None or signature(sample) != signature(base):
                return set()
        return set(names)

    def used(self) -> set[str]:
        """Arguments that the build computed with, compared or counted by."""
        pairs = [*self.trace.divisions, *self.trace.remainders, *(c[1:] for c in self.trace.comparisons)]
        polys = [poly for poly in self.trace.sizes if not bare(poly)] + list(self.trace.counts)
        return {n for poly in (*polys, *(side for pair in pairs for side in pair)) for n in arguments(poly)}

    def without_effect(self) -> list[str]:
        """Arguments that the build computed with, and that changed nothing where they were moved."""
        known = {*self.relevant, *self.stuck, *self.space.fixed}
        return [n for n in self.space.windows if n in self.used() - known and self.builder.sizes[n] > 0]

    def blame(self, name: str) -> tuple[bool, bool, int]:
        """Which of several arguments is fixed first: structural ones that no range counts, small ones."""
        return name not in self.structural, self.counted(name), self.builder.sizes[name]

    def counted(self, name: str) -> bool:
        """Whether the module says with it how often something is made."""
        return any(name in arguments(poly) for poly in self.trace.counts)

    def explained(self, found: Iterable[Derived]) -> list[str]:
        """The rules between arguments that occur in a formula, as sentences."""
        occurring = set[str]()
        for tensor in found:
            for poly in (*tensor.shape, tensor.times):
                occurring |= arguments(poly)
        lines: dict[str, None] = {}
        for dividend, divisor in self.space.divisions:
            names = arguments(dividend) | arguments(divisor)
            if names & occurring and names <= set(self.space.free()) | occurring:
                how = self.refuses(dividend, divisor)
                lines[f"{divisor.text(ascii_only=True)} divides {dividend.text(ascii_only=True)}: {how}"] = (
                    None
                )
        for word, left, right in self.space.comparisons:
            if (arguments(left) | arguments(right)) & occurring:
                lines[
                    f"{left.text(ascii_only=True)} {word} {right.text(ascii_only=True)}: "
                    "other tensors elsewhere"
                ] = None
        return list(lines)

    def refuses(self, dividend: Poly, divisor: Poly) -> str:
        """Whether the module refuses what does not divide, or rounds it."""
        for name in sorted(arguments(dividend) - arguments(divisor)) or sorted(arguments(divisor)):
            for step in (1, 2, 3):
                point = {**self.space.base, name: self.space.base[name] + step}
                if divides(dividend, divisor, point):
                    continue
                try:
                    self.builder.tensors(point)
                except Refused:
                    return "the module refuses others"
                return "the module rounds others"
        return "assumed"


def signature(sample: Sample) -> dict[str, Any]:
    """What changes when an argument matters: names and shapes."""
    return {name: (tensor.shape, tensor.tied_to) for name, tensor in sample.tensors.items()}
