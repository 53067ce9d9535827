"""Every entry of a `sizer.toml` against what its model comes to now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sizer.checking import lock
from sizer.checking.entries import Entry
from sizer.checking.files import Watched
from sizer.checking.lock import Change, Locked
from sizer.checking.measured import Measured, measure
from sizer.core.record import Record
from sizer.errors import BadInput, SizerError, UnknownName


class Difference(Record):
    """A number that is not the one expected, or a limit that does not hold (then `limit` is its text)."""

    __slots__ = ("expected", "found", "limit", "line", "quantity")

    def __init__(self, quantity: str, expected: int | None, found: int, line: int, limit: str = "") -> None:
        self.quantity = quantity
        self.expected = expected
        self.found = found
        self.line = line
        self.limit = limit

    @property
    def delta(self) -> int | None:
        """How much more there is than expected."""
        return None if self.expected is None else self.found - self.expected


class Result(Record):
    """What became of one entry.

    `differences`: numbers and limits that are wrong. `components`, `tensors`: what changed since the
    lock was written, where it lists the model (`locked`). `error`: why it could not be checked.
    `compared`: how many numbers were.
    """

    __slots__ = ("compared", "components", "differences", "entry", "error", "locked", "measured", "tensors")

    def __init__(
        self,
        entry: Entry,
        measured: Measured | None = None,
        differences: tuple[Difference, ...] = (),
        components: tuple[Difference, ...] = (),
        tensors: tuple[Change, ...] = (),
        compared: int = 0,
        error: str = "",
        locked: bool = False,
    ) -> None:
        self.entry = entry
        self.measured = measured
        self.differences = differences
        self.components = components
        self.tensors = tensors
        self.compared = compared
        self.error = error
        self.locked = locked

    @property
    def ok(self) -> bool:
        """Whether all of it is as expected."""
        return not (self.error or self.differences or self.tensors)


def chosen(watched: Watched, names: Iterable[str] = ()) -> list[Entry]:
    """The entries of those names, or all."""
    wanted = list(names)
    if not wanted:
        return watched.entries
    known = {entry.name: entry for entry in watched.entries}
    for name in wanted:
        if name not in known:
            raise UnknownName("model", name, known, hint=f"in {watched.path}")
    return [known[name] for name in wanted]


def check(watched: Watched, entries: Iterable[Entry], locks: Mapping[str, Locked]) -> list[Result]:
    """The result of each entry."""
    return [check_one(watched, entry, locks.get(entry.name)) for entry in entries]


def check_one(watched: Watched, entry: Entry, before: Locked | None = None) -> Result:
    """The result of one entry; what keeps it from being checked is its `error`."""
    try:
        found = measure(entry, watched.folder)
        differences = [
            Difference(quantity, number, found.value(quantity), watched.line_of(entry, quantity))
            for quantity, number in entry.expected.items()
            if found.value(quantity) != number
        ]
        for limit in entry.limits:
            value = found.value(limit.quantity)
            if not limit.holds(value):
                line = watched.line_of(entry, "limits")
                differences.append(Difference(limit.quantity, None, value, line, limit.text))
        components, tensors = _since(before, found, entry) if before else ((), ())
    except SizerError as error:
        message = str(error)
        prefix = f"{entry.name}: "
        return Result(entry, error=message if message.startswith(prefix) else prefix + message)
    compared = len(entry.expected) + len(entry.limits)
    return Result(entry, found, tuple(differences), components, tensors, compared, locked=before is not None)


def _since(
    before: Locked, found: Measured, entry: Entry
) -> tuple[tuple[Difference, ...], tuple[Change, ...]]:
    names = {**before.components, **found.components}
    pairs = {name: (before.components.get(name, 0), found.components.get(name, 0)) for name in names}
    components = tuple(
        Difference(f"components.{name}", was, now, entry.line)
        for name, (was, now) in pairs.items()
        if was != now and f"components.{name}" not in entry.expected
    )
    return components, tuple(lock.changes(before.tensors, found.tensors))


def nothing_expected(entry: Entry) -> BadInput | None:
    """The error of an entry that says nothing to hold, which `--update` fills in."""
    if entry.expected or entry.limits:
        return None
    return BadInput(f"{entry.name}: nothing is expected of it yet; sizer check --update writes its params")
