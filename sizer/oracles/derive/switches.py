"""Booleans, texts and absent arguments: which tensors they add or remove."""

from __future__ import annotations

from sizer.core.record import Record
from sizer.oracles.derive.bounds import TooMuch
from sizer.oracles.derive.builds import Refused
from sizer.oracles.derive.folding import Sample, folded
from sizer.oracles.derive.start import Start, signature

MAX_SWITCHES = 80
MAX_WORDS = 6


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


def switches(begun: Start) -> list[Switch]:
    """Each boolean turned over, each text as the words it was compared with."""
    builder, base = begun.builder, begun.space.base
    before = begun.at_base()
    found: list[Switch] = []
    tried = 0
    for letter, argument in builder.arguments.items():
        if isinstance(argument.value, bool):
            others: list[object] = [not argument.value]
        elif isinstance(argument.value, str):
            words = begun.trace.texts.get(letter, {})
            others = [*[word for word in words if word not in (argument.value, "")][:MAX_WORDS]]
        else:
            continue
        for other in others:
            tried += 1
            if tried > MAX_SWITCHES:
                return found
            try:
                tensors = builder.tensors({**base, letter: other})
            except (Refused, TooMuch):
                continue
            after = Sample(base, {t.name: t for t in tensors if t.kind == "param"})
            if signature(after) != signature(before):
                found.append(_compared(argument.spelled, argument.value, other, before, after))
    return found


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
