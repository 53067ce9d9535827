"""Points that would show a wrong formula: beside the steps of its roundings, and beyond comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from sizer.core.poly import Poly
from sizer.oracles.derive.expressions import Atom, Point, arguments, atoms
from sizer.oracles.derive.folding import Derived
from sizer.oracles.derive.points import Space, divides, holds

# Points around which a step is looked for, and the most values that are tried for one beyond a comparison.
AROUND = 3
MOST = 500


def roundings(found: Iterable[Derived]) -> list[Atom]:
    """Those of all shapes and counts, each once."""
    polys = (poly for tensor in found for poly in (*tensor.shape, tensor.times))
    return list({str(atom): atom for poly in polys for atom in atoms(poly)}.values())


def rounded_arguments(found: Iterable[Derived]) -> set[str]:
    """The arguments inside of roundings and maxima."""
    return {name for atom in roundings(found) for part in atom.parts for name in arguments(part)}


def beside_steps(found: Iterable[Derived], space: Space, random: Random) -> Iterator[dict[str, int]]:
    """Pairs of points between which a rounding steps: a slope that is a little off has the step elsewhere.

    The wider, the more it is off, so half of the steps are looked for near the farthest value.
    """
    for atom in roundings(found):
        names = {name for part in atom.parts for name in arguments(part)}
        for name in sorted(names & space.far.keys()):
            farthest = space.far[name]
            for i in range(2 * AROUND):
                start = space.draw(random)
                if start is None:
                    continue
                if i % 2:
                    start[name] = random.randint(farthest * 3 // 4, farthest)
                step = _next_step(atom, start, name, farthest)
                for value in () if step is None else (step - 1, step):
                    point = {**start, name: value}
                    if keeps(space, point):
                        yield point


def _next_step(atom: Atom, point: Point, name: str, most: int) -> int | None:
    """The least value of an argument, above that of a point, at which a rounding has another value."""
    now = atom.value(point)
    low, high = point[name], most
    if low >= high or atom.value({**point, name: high}) == now:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if atom.value({**point, name: middle}) == now:
            low = middle
        else:
            high = middle
    return high


def beyond(rule: tuple[str, Poly, Poly], space: Space, random: Random) -> dict[str, int] | None:
    """A point where a comparison comes out otherwise than in the first build; nothing where none is found."""
    _, left, right = rule
    for name in sorted((arguments(left) | arguments(right)) & set(space.free())):
        start = space.draw(random)
        low, high = space.windows[name]
        # Every value of it: what comes out otherwise may do so at one in hundreds.
        for value in range(low, min(high, low + MOST) + 1) if start is not None else ():
            point = {**(start or {}), name: value}
            if not holds(*rule, point) and keeps(space, point):
                return point
    return None


def keeps(space: Space, point: Point) -> bool:
    """Whether a point keeps the rules of a space."""
    return all(divides(*rule, point) for rule in space.divisions) and all(
        holds(*rule, point) for rule in space.comparisons
    )
