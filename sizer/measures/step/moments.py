"""The moments of a step at which the most is alive, also those of layers that are not run themselves."""

from __future__ import annotations

from collections.abc import Iterable

from sizer.core.record import Record


class Moment(Record):
    """A point of the step: the phase, the op that has just run, and the bytes alive then.

    `moved`: of a layer that another stands for, the marks of the tape at which the two begin; what is
    alive is that of the other layer, and the difference of the two.
    """

    __slots__ = ("index", "module", "moved", "n_bytes", "op", "phase")

    def __init__(
        self,
        phase: str,
        op: str,
        module: str,
        n_bytes: int,
        index: int,
        moved: tuple[int, int] | None = None,
    ) -> None:
        self.phase = phase
        self.op = op
        self.module = module
        self.n_bytes = n_bytes
        self.index = index
        self.moved = moved


class Mark(Record):
    """What is alive at the beginning of a layer; `beside`, without the gradients of parameters."""

    __slots__ = ("beside", "n_bytes", "place")

    def __init__(self, place: int, n_bytes: int, beside: int) -> None:
        self.place = place
        self.n_bytes = n_bytes
        self.beside = beside


class Window:
    """A part of the step, and the most that is alive in it.

    The part is a layer on its way forward or backward, whose `path` and beginning are known, or what
    is outside of layers. `beside`: the most without the gradients of parameters.
    """

    __slots__ = ("alike", "beside", "index", "mark", "module", "more", "n_bytes", "op", "path", "phase")

    def __init__(self, phase: str, path: str = "", mark: Mark | None = None) -> None:
        self.phase = phase
        self.path = path
        self.mark = mark
        self.n_bytes = self.beside = self.index = -1
        self.op = self.module = ""
        # Layers that this one stands for: their paths, and where they begin.
        self.alike: list[tuple[str, Mark]] = []
        # Bytes that those layers hold besides: what all share, and this one was the last to use.
        self.more = 0

    def rest(self, more: int) -> Window:
        """The part that follows, in which the layers that are like this one hold more than it does."""
        rest = Window(self.phase, self.path, self.mark)
        rest.alike, rest.more = self.alike, self.more + more
        return rest

    def moments(self) -> Iterable[Moment]:
        """The largest moment of the part, and those of the layers that are like it."""
        if self.index < 0:
            return
        yield Moment(self.phase, self.op, self.module, self.n_bytes, self.index)
        for path, mark in self.alike:
            assert self.mark is not None
            more = mark.n_bytes - self.mark.n_bytes + self.more
            module = path + self.module.removeprefix(self.path)
            moved = self.mark.place, mark.place
            yield Moment(self.phase, self.op, module, self.n_bytes + more, self.index, moved)

    def most_beside(self) -> int:
        """The most that is alive without the gradients, here and in the layers that are like it."""
        if self.mark is None:
            return self.beside
        others = (mark.beside - self.mark.beside + self.more for _, mark in self.alike)
        return self.beside + max(0, *others, 0)


def peaks(windows: Iterable[Window]) -> dict[str, Moment]:
    """The largest moment of each phase, the first of equal ones."""
    found: dict[str, Moment] = {}
    for window in windows:
        for moment in window.moments():
            best = found.get(moment.phase)
            if best is None or (moment.n_bytes, -moment.index) > (best.n_bytes, -best.index):
                found[moment.phase] = moment
    return found
