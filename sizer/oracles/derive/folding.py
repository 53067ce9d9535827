"""Names of tensors without their indices, and what is known of the tensors that share one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from sizer.core.poly import Poly
from sizer.core.record import Record
from sizer.oracles.compare import Found
from sizer.oracles.derive.expressions import Point, constant

NUMBER = re.compile(r"\d+")
# Members of one pattern with more different shapes than this follow no rule that is looked for.
MAX_SHAPES = 64


class Sample(NamedTuple):
    """A point and the tensors of the module that was built there."""

    point: Point
    tensors: Mapping[str, Found]


class Derived(Record):
    """Tensors of one pattern and one shape.

    `levels`: how many indices there are in each `{}` of the name; `times`: how many tensors that
    makes. `tied_to`: the pattern whose storage they share, and then nothing of it is counted.
    """

    __slots__ = ("levels", "members", "name", "shape", "tied_to", "times")

    def __init__(
        self,
        name: str,
        shape: tuple[Poly, ...],
        times: Poly,
        levels: tuple[Poly, ...],
        tied_to: str | None,
        members: tuple[str, ...],
    ) -> None:
        self.name = name
        self.shape = shape
        self.times = times
        self.levels = levels
        self.tied_to = tied_to
        self.members = members

    @property
    def each(self) -> Poly:
        """Elements of one of them."""
        return prod(self.shape, start=constant(1))


def folded(name: str) -> tuple[str, tuple[int, ...]]:
    """A name with its indices taken out.

    >>> folded("h.3.mlp.weight")
    ('h.{}.mlp.weight', (3,))
    """
    parts = name.split(".")
    indices = tuple(int(part) for part in parts if part.isdecimal())
    return ".".join("{}" if part.isdecimal() else part for part in parts), indices


def deeply_folded(name: str) -> str:
    """A name without any number in it: those inside of words too.

    >>> deeply_folded("rnn.weight_ih_l1_reverse")
    'rnn.weight_ih_l{}_reverse'
    """
    return NUMBER.sub("{}", name)


def numbers(name: str) -> tuple[int, ...]:
    """The numbers that `deeply_folded` takes out."""
    return tuple(map(int, NUMBER.findall(name)))


def literal(lists: list[list[str]]) -> tuple[str, list[int]]:
    """The name with the numbers that never change written out, and the places of those that do."""
    every = [name for mine in lists for name in mine]
    indices = [numbers(name) for name in every]
    varying = [place for place in range(len(indices[0])) if len({entry[place] for entry in indices}) > 1]
    first, *pieces = NUMBER.split(every[0])
    filled = ("{}" if place in varying else str(index) for place, index in enumerate(indices[0]))
    return first + "".join(index + piece for index, piece in zip(filled, pieces, strict=True)), varying
