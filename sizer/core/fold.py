"""Names that differ in their indices alone, folded into one pattern, and spread out again."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator
from itertools import product
from math import prod
from typing import TypeVar

from sizer.errors import BadInput, clip

Key = TypeVar("Key", bound=Hashable)
# More names than any published model has tensors.
MOST_NAMES = 2_000_000
_SET = re.compile(r"\{(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\}")


def fold(named: Iterable[tuple[str, Key]]) -> list[tuple[str, Key]]:
    """One pattern for all names that differ in their numbers alone and have the same key.

    >>> fold([("h.0.ln", 8), ("h.1.ln", 8), ("h.2.ln", 8), ("wte", 64)])
    [('h.{0-2}.ln', 8), ('wte', 64)]
    """
    groups: dict[tuple[str, Key], list[tuple[int, ...]]] = {}
    for name, key in named:
        steps = name.split(".")
        # A brace of a name's own would look like a place.
        places = [i for i, step in enumerate(steps) if _is_index(step)] if "{" not in name else []
        indices = tuple(int(steps[i]) for i in places)
        for i in places:
            steps[i] = "{}"
        groups.setdefault((".".join(steps), key), []).append(indices)
    return [
        (filled(template, [ranges(numbers) for numbers in box]) if box else template, key)
        for (template, key), indices in groups.items()
        for box in _boxes(indices)
    ]


def filled(template: str, texts: Iterable[str]) -> str:
    """A template with a text for each `{}`.

    >>> filled("h.{}.ln", ["{0-2}"])
    'h.{0-2}.ln'
    """
    parts = template.split("{}")
    return parts[0] + "".join(text + part for text, part in zip(texts, parts[1:], strict=False))


def ranges(numbers: Collection[int]) -> str:
    """A set of indices as text; one alone is itself.

    >>> ranges([0, 1, 2, 5]), ranges([7])
    ('{0-2,5}', '7')
    """
    if len(numbers) == 1:
        return str(next(iter(numbers)))
    if isinstance(numbers, range) and numbers.step == 1:
        return f"{{{numbers[0]}-{numbers[-1]}}}"
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return "{" + ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) + "}"


def copies(pattern: str) -> int:
    """How many names a pattern stands for.

    >>> copies("layers.{0-3}.experts.{0-7}.w"), copies("wte")
    (32, 1)
    """
    if "{" not in pattern:
        return 1
    return prod(sum(len(run) for run in _runs(found)) for found in _SET.findall(pattern))


def spread(pattern: str) -> Iterator[str]:
    """The names that a pattern stands for.

    >>> list(spread("h.{0-1,3}.ln"))
    ['h.0.ln', 'h.1.ln', 'h.3.ln']
    """
    if copies(pattern) > MOST_NAMES:
        raise BadInput(f"{clip(pattern)} stands for over {MOST_NAMES:,} names")
    sets = [[i for run in _runs(found) for i in run] for found in _SET.findall(pattern)]
    template = _SET.sub("{}", pattern)
    for indices in product(*sets):
        yield filled(template, map(str, indices))


def _runs(text: str) -> list[range]:
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        # A bound is no longer than the longest number of layers anybody writes.
        if len(part) > 24:
            raise BadInput(f"{clip(text)} is no set of indices")
        found.append(range(int(first), int(last or first) + 1))
    return found


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdigit() and (step == "0" or step[0] != "0") and len(step) < 12


def _boxes(indices: Iterable[tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Tuples of indices as products of sets, each tuple in one of them."""
    tails: dict[int, list[tuple[int, ...]]] = {}
    for index in indices:
        if not index:
            yield ()
            return
        tails.setdefault(index[0], []).append(index[1:])
    same: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for first, rest in tails.items():
        same.setdefault(tuple(rest), []).append(first)
    for rest_of, firsts in same.items():
        for box in _boxes(rest_of):
            yield (tuple(firsts), *box)
