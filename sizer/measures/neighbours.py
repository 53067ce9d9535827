"""Which tensors follow each other when all of a model's are gone through, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from sizer.core.walk import Frame

# A tensor's number, the name of its row, and the repeated modules that it stands in.
Place = tuple[int, str, tuple[Frame, ...]]


def neighbours(places: Sequence[Place]) -> list[tuple[int, int]]:
    """The numbers of each tensor and of the one before it, each such pair once; -1 before the first.

    >>> block = (Frame(3, range(3), 3, 3),)
    >>> neighbours([(0, "wte", ()), (1, "h.{}.up", block), (2, "h.{}.down", block)])
    [(0, -1), (1, 0), (2, 1), (1, 2)]
    """
    found: dict[tuple[int, int], None] = {}
    _follow(places, 0, -1, found)
    return list(found)


def _follow(places: Sequence[Place], depth: int, before: int, found: dict[tuple[int, int], None]) -> int:
    """Note the pairs of tensors that stand under so many repeated modules; the last of them."""
    for path, inside in groupby(places, key=lambda place: _path(place, depth)):
        group = list(inside)
        if path is None:
            for number, *_ in group:
                found[number, before] = None
                before = number
            continue
        seen: dict[tuple[int, int], int] = {}
        for kind, layer in _layers(group, depth):
            # Of layers that are alike and come after the same tensor, one tells of all.
            if (kind, before) not in seen:
                seen[kind, before] = _follow(layer, depth + 1, before, found)
            before = seen[kind, before]
    return before


def _path(place: Place, depth: int) -> str | None:
    _, name, frames = place
    return None if len(frames) <= depth else "{}".join(name.split("{}")[: depth + 1])


def _layers(group: list[Place], depth: int) -> Iterator[tuple[int, list[Place]]]:
    """The layers of a repeated module in order: a number for those that are alike, and their tensors."""
    where = [_indices(frames[depth]) for _, _, frames in group]
    # Few modules stand in some layers only, so few sets of layers differ.
    sets = {id(indices): indices for indices in where}
    if all(indices == where[0] for indices in sets.values()):
        # One kind of layer: two of them show every pair.
        yield from [(0, group)] * min(len(where[0]), 2)
        return
    kinds: dict[tuple[int, ...], tuple[int, list[Place]]] = {}
    members = {key: frozenset(indices) for key, indices in sets.items()}
    for layer in sorted(frozenset().union(*members.values())):
        own = tuple([key for key, layers in members.items() if layer in layers])
        if own not in kinds:
            inside = [place for place, indices in zip(group, where, strict=True) if id(indices) in own]
            kinds[own] = len(kinds), inside
        yield kinds[own]


def _indices(frame: Frame) -> Sequence[int]:
    indices = frame.indices or ()
    return indices[:1] if frame.shared else indices
