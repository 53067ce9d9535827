"""Booleans and texts: which tensors they add or remove."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sizer.core.record import Record
from sizer.oracles.derive.bounds import TooMuch
from sizer.oracles.derive.builds import Refused
from sizer.oracles.derive.folding import Sample, folded
from sizer.oracles.derive.start import Start, signature

MAX_SWITCHES = 80


class Switch(Record):
    """What another value of an argument changes: patterns of the tensors that come and go.

    `delta`: parameters more than at the given value, at the point that was compared.
    """

    __slots__ = ("added", "argument", "changed", "other", "removed", "value")

    def __init__(
        self,
        argument: str,
        value: object,
        other: object,
        added: list[str],
        removed: list[str],
        changed: list[str],
    ) -> None:
        self.argument = argument
        self.value = value
        self.other = other
        self.added = added
        self.removed = removed
        self.changed = changed


class Turn(NamedTuple):
    """Another value of an argument: `why` it says nothing, where it was not built or is refused."""

    argument: str
    other: object
    why: str


def switches(begun: Start) -> tuple[list[Switch], list[Turn]]:
    """Each boolean turned over, each text as the words it was compared with; and those that were not seen."""
    builder, base = begun.builder, begun.space.base
    before = begun.at_base()
    found: list[Switch] = []
    unseen: list[Turn] = []
    wanted = list(_turned(begun))
    for letter, other in wanted[:MAX_SWITCHES]:
        argument = builder.arguments[letter]
        try:
            tensors = builder.tensors({**base, letter: other})
        except (Refused, TooMuch) as error:
            unseen.append(Turn(argument.spelled, other, str(error)))
            continue
        after = Sample(base, {t.name: t for t in tensors if t.kind == "param"})
        if signature(after) != signature(before):
            found.append(_compared(argument.spelled, argument.value, other, before, after))
    why = f"only {MAX_SWITCHES} are looked at"
    unseen += [Turn(builder.arguments[letter].spelled, other, why) for letter, other in wanted[MAX_SWITCHES:]]
    return found, unseen


def _turned(begun: Start) -> Iterator[tuple[str, object]]:
    """The other values of each argument."""
    for letter, argument in begun.builder.arguments.items():
        if isinstance(argument.value, bool):
            yield letter, not argument.value
        elif isinstance(argument.value, str):
            for word in begun.trace.texts.get(letter, {}):
                if word not in (argument.value, ""):
                    yield letter, word


def _compared(name: str, value: object, other: object, before: Sample, after: Sample) -> Switch:
    old, new = before.tensors, after.tensors
    return Switch(
        name,
        value,
        other,
        _patterns(n for n in new if n not in old),
        _patterns(n for n in old if n not in new),
        _patterns(
            n for n in new if n in old and (new[n].shape, new[n].tied_to) != (old[n].shape, old[n].tied_to)
        ),
    )


def _patterns(names: object) -> list[str]:
    return list(dict.fromkeys(folded(name)[0].replace("{}", "*") for name in names))  # type: ignore[attr-defined]
