"""Where a derivation begins: the point of small sizes that its builds are around."""

from __future__ import annotations

import re
from random import Random

from sizer.core.poly import Poly
from sizer.errors import BadInput, clip
from sizer.oracles.compare import Found
from sizer.oracles.derive.bounds import TooMuch
from sizer.oracles.derive.builds import Builder, Refused
from sizer.oracles.derive.expressions import Point, arguments
from sizer.oracles.derive.folding import Sample
from sizer.oracles.derive.points import Space, holds, windows
from sizer.oracles.derive.start import IDS, TRIES, Start, signature
from sizer.oracles.derive.trace import Record as Trace

# Arguments of this name say how often something stands, if the trace does not say it.
COUNTS = re.compile(r"(layers?|depths?|blocks?|experts?|stages?)(_\d+)?$|^n_layer")
# The most layers that are built to see a pattern.
WIDEST = 40


def begin(builder: Builder, random: Random) -> Start:
    """Build the target once as it is given, then at small sizes, and probe each argument there."""
    given = builder.sizes
    default, trace = _first(builder, given)
    counts = {n for poly in trace.counts for n in arguments(poly)} | {n for n in given if COUNTS.search(n)}
    begun = _small(builder, random, given, default, trace, counts)
    _drop_needless(begun)
    begun.probe()
    _recount(begun, counts)
    _as_given(begun)
    _from_afar(begun)
    return begun


def _as_given(begun: Start) -> None:
    """Put the arguments that change nothing back to their given values, where they may matter after all."""
    space, given = begun.space, begun.builder.sizes
    idle = [
        n
        for n in space.windows
        if n not in begun.relevant and n not in begun.stuck and space.base[n] != given[n]
    ]
    before = begun.at_base()
    for letters in (idle, *([n] for n in idle)) if idle else ():
        wanted = {**space.base, **{letter: given[letter] for letter in letters}}
        point = space.repaired(wanted, begun.random, set(begun.relevant) - space.fixed)
        after = begun.sample(point) if point is not None else None
        if point is None or after is None:
            continue
        space.base = point
        begun.settled = False
        if signature(after) != signature(before):
            begun.settle()
        if letters == idle:
            break


def _from_afar(begun: Start) -> None:
    """What changed nothing at small sizes is moved around its given value too: a rounding may step there."""
    for name in begun.without_effect():
        given = begun.builder.sizes[name]
        before = begun.space.windows[name]
        begun.space.windows[name] = (max(1, given // 2), 2 * given + 3)
        found = begun.moved(name)
        if begun.changing(found):
            begun.relevant.append(name)
            begun.settled = False
        else:
            begun.space.windows[name] = before
    if not begun.settled:
        begun.settle()


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
    base = begun.at_base()
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
        elif rule[0] in "<>":
            space.dropped.append(rule)


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
    given = begun.builder.sizes
    begun.space.windows |= {
        name: (low, min(given[name] + 4, WIDEST))
        for name, (low, high) in begun.space.windows.items()
        if name in begun.structural and given[name] > high
    }
