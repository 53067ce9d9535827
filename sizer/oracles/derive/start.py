"""Where a derivation begins: a point of small sizes, and what each argument does there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from sizer.core.poly import Poly
from sizer.errors import BadInput, clip
from sizer.oracles.compare import Found
from sizer.oracles.derive.builds import Builder, Refused, TooMuch
from sizer.oracles.derive.expressions import Point, arguments
from sizer.oracles.derive.groups import Derived, Sample
from sizer.oracles.derive.points import Space, bare, divides, holds, windows
from sizer.oracles.derive.trace import Record as Trace

# Arguments of this name say how often something stands, if the trace does not say it.
COUNTS = re.compile(r"(layers?|depths?|blocks?|experts?|stages?)(_\d+)?$|^n_layer")
# Names of arguments that are no sizes of a module: ids of tokens.
IDS = re.compile(r"_(token_)?ids?$|_token_index$")
TRIES = 24
PROBES = 2
# The most layers that are built to see a pattern.
WIDEST = 40


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

    def probed(self, names: Iterable[str]) -> tuple[list[tuple[Point, Point]], list[Sample]]:
        """Each argument moved alone, where the rules allow it, from the base point."""
        base = self.sample(self.space.base)
        assert base is not None
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
        base = self.sample(self.space.base)
        assert base is not None
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

    def idle(self, base: Sample) -> set[str]:
        """Arguments that do nothing, told by moving them all at once: those that no size was made of."""
        used = {n for poly in self.trace.sizes if bare(poly) == "" for n in arguments(poly)}
        used |= {n for poly in self.trace.counts for n in arguments(poly)}
        for rule in (*self.trace.divisions, *self.trace.remainders, *(c[1:] for c in self.trace.comparisons)):
            used |= arguments(rule[0]) | arguments(rule[1])
        sizes = {size for tensor in base.tensors.values() for size in tensor.shape}
        point = self.space.base
        names = [n for n in self.space.free() if n not in used and point[n] not in sizes and point[n] > 0]
        for _ in range(PROBES):
            moved = self.space.draw(self.random, names) if len(names) > 1 else None
            sample = self.sample(moved) if moved is not None else None
            if sample is None or signature(sample) != signature(base):
                return set()
        return set(names)

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


def start(builder: Builder, random: Random) -> Start:
    """Build the target once as it is given, then at small sizes, and probe each argument there."""
    given = builder.sizes
    default, trace = _first(builder, given)
    counts = {n for poly in trace.counts for n in arguments(poly)} | {n for n in given if COUNTS.search(n)}
    begun = _small(builder, random, given, default, trace, counts)
    _drop_needless(begun)
    begun.probe()
    _recount(begun, counts)
    _as_given(begun)
    return begun


def _as_given(begun: Start) -> None:
    """Put the arguments that change nothing back to their given values, where they may matter after all."""
    space, given = begun.space, begun.builder.sizes
    idle = [
        n
        for n in space.windows
        if n not in begun.relevant and n not in begun.stuck and space.base[n] != given[n]
    ]
    before = begun.sample(space.base)
    for letters in (idle, *([n] for n in idle)) if idle else ():
        wanted = {**space.base, **{letter: given[letter] for letter in letters}}
        point = space.repaired(wanted, begun.random, set(begun.relevant) - space.fixed)
        after = begun.sample(point) if point is not None else None
        if point is None or after is None:
            continue
        space.base = point
        begun.settled = False
        if before is None or signature(after) != signature(before):
            begun.settle()
        if letters == idle:
            break


def _first(builder: Builder, given: Point) -> tuple[list[Found], Trace]:
    name = builder.target.name
    try:
        try:
            return builder.traced(given)
        except Refused:
            return builder.tensors(given), Trace()
    except Refused as error:
        raise BadInput(
            f"{clip(name)} cannot be built on the meta device: {error}; give other values with --config, and "
            "keep values of tensors (.item(), numpy) out of __init__"
        ) from None


def _small(
    builder: Builder, random: Random, given: Point, default: list[Found], trace: Trace, counts: set[str]
) -> Start:
    """A base point of small sizes, or near the given ones where the module accepts no smaller."""
    for around, pinned in ((None, False), (None, True), (given, False), (given, True)):
        space = Space(given, windows(given, counts, trace, around=around), trace, pinned=pinned)
        names = [n for n in space.free() if given[n] > 0 and not IDS.search(n)]
        for attempt in range(TRIES // 2):
            # First the wide ones and counts alone, which make a build slow; then all.
            chosen = [n for n in names if n in counts or given[n] > 24] if attempt < TRIES // 4 else names
            point = space.draw(random, chosen)
            if point is None:
                continue
            try:
                _, again = builder.traced(point)
            except (Refused, TooMuch):
                continue
            space.base = point
            merged = Space(point, space.windows, again)
            return Start(builder, random, default, merged, again)
    space = Space(given, windows(given, counts, trace, around=given), trace)
    return Start(builder, random, default, space, trace)


def _drop_needless(begun: Start) -> None:
    """Comparisons that may turn out the other way without changing which tensors there are."""
    space = begun.space
    base = begun.sample(space.base)
    if base is None:
        raise BadInput(f"{clip(begun.builder.target.name)}: {begun.last_refusal}")
    for rule in list(space.comparisons):
        _, left, right = rule
        names = (arguments(left) | arguments(right)) & set(space.free())
        space.comparisons.remove(rule)
        if not names:
            continue
        outcomes: list[frozenset[str] | None] = []
        seen: set[tuple[int, ...]] = set()
        for _ in range(TRIES):
            point = space.draw(begun.random, names)
            key = tuple(point[name] for name in sorted(names)) if point else ()
            if point is None or holds(*rule, point) or key in seen:
                continue
            seen.add(key)
            sample = begun.sample(point)
            outcomes.append(None if sample is None else frozenset(sample.tensors))
            if len(outcomes) == 2:
                break
        # Other names each time: the argument counts something, and is not a switch.
        counting = rule[0] == "==" and None not in outcomes and len(set(outcomes)) == 2
        if any(names_ != frozenset(base.tensors) for names_ in outcomes) and not counting:
            space.comparisons.append(rule)
        elif rule[0] in "<>" and _differs_where_equal(begun, base, left, right):
            space.comparisons.append(("!=", left, right))


def _differs_where_equal(begun: Start, base: Sample, left: Poly, right: Poly) -> bool:
    """Whether other tensors stand where two sizes are equal, such as no shortcut between equal widths."""
    space = begun.space
    space.comparisons.append(("==", left, right))
    point = space.draw(begun.random, (arguments(left) | arguments(right)) & set(space.free()))
    space.comparisons.pop()
    sample = begun.sample(point) if point is not None else None
    return sample is not None and sample.tensors.keys() != base.tensors.keys()


def _recount(begun: Start, counts: set[str]) -> None:
    """Windows again, now that it is known which arguments count."""
    given = begun.builder.sizes
    for name in begun.structural - counts:
        low, high = (1, 4) if given[name] <= 4 else (5, 9)
        begun.space.windows[name] = (min(low, max(given[name], 0)), high)


def widened(begun: Start) -> None:
    """Wider windows for counts, so that a pattern that repeats every so many layers shows."""
    for name in begun.structural:
        low, high = begun.space.windows[name]
        if begun.builder.sizes[name] > high:
            begun.space.windows[name] = (low, min(begun.builder.sizes[name] + 4, WIDEST))
