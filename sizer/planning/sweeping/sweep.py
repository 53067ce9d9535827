"""A grid over sizes, switches and settings of a model: its measures at every point, exactly.

The grid is cut into boxes of some ten thousand points, in order, so that memory stays flat however
many points there are. What has a closed form is worked out for a whole box at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec
from math import prod
from typing import Any

from sizer.core.config import check_size, size_names
from sizer.errors import InvalidConfig, MissingExtra, SizerError, UnknownKey, UnknownName, clip
from sizer.measures.passes import check_positive
from sizer.model import Model
from sizer.planning.forms import CACHE, COUNTS, FLOPS, LENGTHS, SETTINGS
from sizer.planning.sweeping.axes import Axis, axis_of
from sizer.planning.sweeping.grid import Box, boxes
from sizer.planning.sweeping.variant import Errors, Variant
from sizer.sources.values import canonical, validated

# Worked out point by point, in milliseconds each.
SLOW = ("memory", "memory_train", "memory_infer")
MEASURES = (*COUNTS, *FLOPS, *CACHE, "weights", *SLOW)
# What each is, for people.
UNITS = {
    **dict.fromkeys(COUNTS, "parameters"),
    **dict.fromkeys(FLOPS, "FLOPs"),
    **dict.fromkeys(CACHE, "bytes"),
    **dict.fromkeys(("weights", *SLOW), "bytes"),
}
CHUNK = 65_536
# Of slow measures, so that a chunk takes no more than a part of a second.
CHUNK_SLOW = 64
MAX_POINTS = 10**9
# Each value of a switch is a model of its own, which is read and checked.
MAX_SWITCHES = 10_000


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


class Sweep:
    """A grid that is ready to be worked out, box by box, here or in another process."""

    def __init__(
        self,
        model: Model,
        axes: Mapping[str, Any],
        what: Sequence[str] = ("params",),
        *,
        settings: Mapping[str, Any] | None = None,
        max_points: int = MAX_POINTS,
        chunk: int = CHUNK,
    ) -> None:
        if find_spec("numpy") is None:
            raise MissingExtra("sweep", "a sweep")
        self.model = model
        self.what = measures(what)
        self.settings = dict(settings or {})
        for name in self.settings:
            if name not in SETTINGS:
                raise UnknownName("setting", name, SETTINGS, hint=f"known are {', '.join(SETTINGS)}")
        self.axes = [self._axis(axis_of(*pair)) for pair in self._named(axes).items()]
        self.lengths = tuple(len(axis) for axis in self.axes)
        self.size = prod(self.lengths)
        if self.size > max_points:
            factors = " × ".join(f"{len(axis):,}" for axis in self.axes)
            raise InvalidConfig(
                f"a grid of {factors} = {self.size:,} points is more than {max_points:,}; "
                "take larger steps, or allow it with --max-points"
            )
        sizes = set(size_names(type(model.config)))
        self.switches = [
            i for i, a in enumerate(self.axes) if not (a.numeric and (a.name in LENGTHS or a.name in sizes))
        ]
        if prod(self.lengths[i] for i in self.switches) > MAX_SWITCHES:
            raise InvalidConfig(f"more than {MAX_SWITCHES:,} values of switches; sweep over fewer")
        self.chunk_points = at_once(self.what, chunk)
        self._variants: dict[tuple[int, ...], Variant | SizerError] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Another process makes its own.
        return {**self.__dict__, "_variants": {}}

    @property
    def names(self) -> list[str]:
        """The columns, without that of errors."""
        return [*(axis.name for axis in self.axes), *self.what]

    def boxes(self) -> Iterator[Box]:
        """The boxes, in the order of the points."""
        return boxes(self.lengths, self.chunk_points)

    def chunk(self, box: Box) -> Chunk:
        """The points of one box."""
        import numpy

        shape = tuple(end - first for first, end in box)
        values = [_values(axis, i, box) for i, axis in enumerate(self.axes)]
        columns = {axis.name: value for axis, value in zip(self.axes, values, strict=True)}
        sizes = [value for i, value in enumerate(values) if i not in self.switches]
        errors = Errors()
        if not self.switches:
            found, errors = self._measure((), sizes)
            return Chunk(shape, columns, found, errors)
        # Switches are set one after the other, each time for the part of the box that has them so.
        codes: Any = numpy.zeros(shape, int)
        whole: dict[str, Any] = {}
        counts = [range(*box[i]) for i in self.switches]
        for chosen in numpy.ndindex(*map(len, counts)):
            indices = tuple(c[i] for c, i in zip(counts, chosen, strict=True))
            part: list[Any] = [slice(None)] * len(shape)
            for axis, i in zip(self.switches, chosen, strict=True):
                part[axis] = slice(i, i + 1)
            found, mine = self._measure(indices, sizes)
            numbered = numpy.array([errors.code(text) if text else 0 for text in mine.messages])
            codes[tuple(part)] = numbered[mine.codes]
            for name, value in found.items():
                if numpy.asarray(value).dtype == object and whole.get(name) is not None:
                    whole[name] = whole[name].astype(object)
                kind = numpy.asarray(value).dtype
                whole.setdefault(name, numpy.zeros(shape, kind))[tuple(part)] = value
        errors.codes = codes
        zero: Any = numpy.zeros(shape, int)
        return Chunk(shape, columns, {name: whole.get(name, zero) for name in self.what}, errors)

    def chunks(self) -> Iterator[Chunk]:
        """All points, in order."""
        return map(self.chunk, self.boxes())

    def variant(self, indices: tuple[int, ...]) -> Variant | SizerError:
        """The model with its switches set to these of their values, or why there is none."""
        if indices not in self._variants:
            if len(self._variants) > 256:
                self._variants.clear()
            self._variants[indices] = self._variant(indices)
        return self._variants[indices]

    def _variant(self, indices: tuple[int, ...]) -> Variant | SizerError:
        chosen = {
            self.axes[axis].name: self.axes[axis].values[i]
            for axis, i in zip(self.switches, indices, strict=True)
        }
        switches = {name: value for name, value in chosen.items() if name not in SETTINGS}
        others = {name: value for name, value in chosen.items() if name in SETTINGS}
        sizes = [axis for i, axis in enumerate(self.axes) if i not in self.switches]
        try:
            model = self.model.with_values(**switches) if switches else self.model
            return Variant(model, sizes, self.what, {**self.settings, **others})
        except SizerError as error:
            return error

    def _measure(self, indices: tuple[int, ...], sizes: Sequence[Any]) -> tuple[dict[str, Any], Errors]:
        variant = self.variant(indices)
        if isinstance(variant, Variant):
            return variant.measure(sizes)
        if not self.switches:
            raise variant
        errors = Errors()
        errors.codes = errors.code(str(variant).removeprefix(f"{self.model.name}: "))
        return {}, errors

    def _named(self, axes: Mapping[str, Any]) -> dict[str, Any]:
        """The axes under our names; one that is named twice, or is nothing's name, is an error."""
        config = type(self.model.config)
        found: dict[str, Any] = {}
        for key, value in axes.items():
            try:
                name = key if key in SETTINGS else canonical(key, config)
            except UnknownKey:
                from sizer.errors import nearest

                known = [*SETTINGS, *(field.name for field in fields(config))]
                near = nearest(key, known)
                guess = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known)}"
                raise UnknownKey(
                    f"{self.model.name} has no size or setting named {clip(repr(key))}; {guess}"
                ) from None
            if name in found:
                raise InvalidConfig(f"{name} is given twice, once as {clip(repr(key))}")
            found[name] = value
        return found

    def _axis(self, axis: Axis) -> Axis:
        """The axis, its smallest and largest values checked."""
        values = axis.values
        if axis.numeric:
            least, most = (values[0], values[-1]) if isinstance(values, range) else (min(values), max(values))
            if axis.name in LENGTHS:
                check_positive(**{axis.name: least})
                return axis
            config = type(self.model.config)
            for value in (least, most):
                check_size(axis.name, value, least=0 if axis.name in config.may_be_zero else 1)
        elif axis.name not in SETTINGS:
            known = {name: v for name, v in self.model.given.items() if name != axis.name}
            values = [
                validated({**known, axis.name: value}, type(self.model.config))[axis.name] for value in values
            ]
        return Axis(axis.name, values)


def sweep(
    model: Model, axes: Mapping[str, Any], what: Sequence[str] = ("params",), **options: Any
) -> Iterator[Chunk]:
    """The measures of a model over a grid, in chunks; the last axis changes fastest.

    An axis is a list, a `range`, or a text as `512:4096:512` (4096 included) or `512:8192:*2`.
    Options: `settings` of the run, `max_points`, `chunk` (points at a time).

    >>> import sizer
    >>> chunks = sweep(sizer.load("gpt2-small"), {"n_layers": "12,24", "d_model": [768, 770]})
    >>> for row in next(chunks).records():
    ...     print(row["n_layers"], row["d_model"], row["params"], row["error"])
    12 768 124439808 None
    12 770 None d_model = 770 is not a multiple of n_heads = 12; use d_model = 768 or 780
    24 768 209494272 None
    24 770 None d_model = 770 is not a multiple of n_heads = 12; use d_model = 768 or 780
    """
    return Sweep(model, axes, what, **options).chunks()


def at_once(what: Sequence[str], chunk: int) -> int:
    """How many points a chunk has, which is what one worker is given."""
    return min(chunk, CHUNK_SLOW) if set(SLOW) & set(what) else chunk


def measures(what: Sequence[str]) -> list[str]:
    """The measures that are asked for, each known and none twice."""
    if not what:
        raise InvalidConfig(f"nothing to measure; name one or more of {', '.join(MEASURES)}")
    for name in what:
        if name not in MEASURES:
            raise UnknownName("measure", name, MEASURES, hint=f"known are {', '.join(MEASURES)}")
    return list(dict.fromkeys(what))


def _values(axis: Axis, place: int, box: Box) -> Any:
    """The values of an axis in a box, as an array that varies along its place."""
    import numpy

    first, end = box[place]
    values = axis.values[first:end]
    if isinstance(values, range):
        array: Any = numpy.arange(values.start, values.stop, values.step, dtype=numpy.int64)
    elif axis.numeric:
        array = numpy.array(values, dtype=numpy.int64)
    else:
        array = numpy.empty(len(values), dtype=object)
        array[:] = values
    return array.reshape([-1 if i == place else 1 for i in range(len(box))])
