"""Some points of a grid: the values of its axes, its measures, and why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from sizer.core.dims import is_array
from sizer.planning.sweeping.grid import Box, boxes


class Errors:
    """Why there is no answer, by point: a number for each, 0 where there is one, and the messages."""

    def __init__(self) -> None:
        self.codes: Any = 0
        self.messages = [""]

    def code(self, message: str) -> int:
        """The number of a message."""
        if message == self.messages[-1]:
            return len(self.messages) - 1
        self.messages.append(message)
        return len(self.messages) - 1

    def add(self, codes: Any) -> None:
        """Note more points; what a point was told first stays."""
        import numpy

        self.codes = numpy.where(self.codes != 0, self.codes, codes)

    @property
    def valid(self) -> Any:
        """Where there is an answer."""
        return self.codes == 0


class Chunk:
    """Some points of a grid, in order: the values of its axes, its measures, and errors.

    Arrays vary along the axes they depend on; `column` and `records` stretch them to all points.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        axes: Mapping[str, Any],
        measures: Mapping[str, Any],
        errors: Errors,
        constants: Mapping[str, str] | None = None,
    ) -> None:
        self.shape = shape
        self.axes = dict(axes)
        self.measures = dict(measures)
        self.errors = errors
        # Columns that are the same in every row, such as the name of the model.
        self.constants = dict(constants or {})

    def __len__(self) -> int:
        return prod(self.shape)

    def column(self, name: str) -> Any:
        """One axis or measure at every point, as a numpy array; a measure without an answer is 0."""
        import numpy

        value = self.axes[name] if name in self.axes else self.measures[name]
        return numpy.broadcast_to(value, self.shape).ravel()

    def error_codes(self) -> Any:
        """For each point the number of its message in `errors.messages`; 0 where it has an answer."""
        import numpy

        return numpy.broadcast_to(self.errors.codes, self.shape).ravel()

    @property
    def wrong(self) -> int:
        """How many points have no answer."""
        return int((self.error_codes() != 0).sum()) if len(self.errors.messages) > 1 else 0

    def records(self) -> Iterator[dict[str, Any]]:
        """Each point as a dictionary; `error` is the reason where there is no answer, and else `None`."""
        axes = {name: self.column(name).tolist() for name in self.axes}
        measures = {name: self.column(name).tolist() for name in self.measures}
        for i, code in enumerate(self.error_codes().tolist()):
            yield {
                **self.constants,
                **{name: values[i] for name, values in axes.items()},
                **{name: None if code else values[i] for name, values in measures.items()},
                "error": self.errors.messages[code] if code else None,
            }

    def parts(self, points: int) -> Iterator[Chunk]:
        """The same points in smaller chunks; arrays that are one and the same stay so."""
        if len(self) <= points:
            yield self
            return
        for box in boxes(self.shape, points):
            cut: dict[int, Any] = {}

            def of(value: Any, box: Box = box, cut: dict[int, Any] = cut) -> Any:
                if id(value) not in cut:
                    cut[id(value)] = _within(value, box)
                return cut[id(value)]

            errors = Errors()
            errors.codes, errors.messages = of(self.errors.codes), self.errors.messages
            yield Chunk(
                tuple(end - first for first, end in box),
                {name: of(value) for name, value in self.axes.items()},
                {name: of(value) for name, value in self.measures.items()},
                errors,
                self.constants,
            )


def _within(value: Any, box: Box) -> Any:
    """The part of an array that is in a box; axes that it does not vary along stay as they are."""
    if not is_array(value) or not value.ndim:
        return value
    along = box[len(box) - value.ndim :]
    return value[
        tuple(slice(*ends) if n > 1 else slice(None) for ends, n in zip(along, value.shape, strict=True))
    ]
