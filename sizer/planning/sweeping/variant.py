"""A model with its switches set: its measures over a box of a grid of sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from random import Random
from typing import Any

from sizer.core.dims import MAX_LAYERS, is_array
from sizer.core.poly import as_poly
from sizer.errors import SizerError
from sizer.model import Model
from sizer.planning.forms import LENGTHS, SETTINGS, Form, Lettered, closed, pointwise, run_letters
from sizer.planning.sweeping.axes import Axis
from sizer.planning.sweeping.chunk import Errors
from sizer.planning.sweeping.grid import NotWholeError, evaluate

# Points at which the closed forms are compared with the ledger before they answer for a grid.
CHECKED = 32
# At most as many are worked out by the ledger at once.
FEW = 4


class Variant:
    """A model whose switches are set, and the closed forms of its measures over the other axes."""

    def __init__(
        self, model: Model, axes: Sequence[Axis], what: Sequence[str], settings: Mapping[str, Any]
    ) -> None:
        self.model = model
        self.axes = axes
        self.settings = {**SETTINGS, **settings}
        self.what = what
        self.fields = [axis.name for axis in axes if axis.name not in LENGTHS]
        # A few points are not worth a closed form.
        self.trusted = prod(len(axis) for axis in axes) > FEW
        if not self.trusted:
            self.forms: dict[str, Form | None] = dict.fromkeys(what)
            return
        self.lettered = Lettered(model, self.fields)
        given = {**self.settings, **{axis.name: 1 for axis in axes if axis.name in LENGTHS}}
        self.forms = {name: closed(self.lettered, name, given) for name in what}
        self.trusted = self._agrees()

    # -- by closed form ------------------------------------------------------------------------

    def measure(self, values: Sequence[Any]) -> tuple[dict[str, Any], Errors]:
        """The measures where the axes have these values: arrays that vary along one axis each."""
        errors = Errors()
        found: dict[str, Any] = {}
        by_ledger = [name for name in self.what if self.forms[name] is None or not self.trusted]
        if len(by_ledger) < len(self.what):
            letters = self._letters(values, errors)
            known: dict[tuple[Any, int], Any] = {}
            for name in self.what:
                form = self.forms[name]
                if name in by_ledger or form is None:
                    continue
                # Without experts, active parameters are all parameters.
                key = (form.poly, form.divisor)
                if key in known:
                    found[name] = known[key]
                    continue
                try:
                    value = evaluate(form.poly, letters, errors.valid)
                except (NotWholeError, KeyError):
                    by_ledger.append(name)
                    continue
                known[key] = found[name] = value if form.divisor == 1 else -(-value // form.divisor)
        if by_ledger:
            found |= self._by_ledger(values, by_ledger, errors)
        return {name: found[name] for name in self.what}, errors

    def _letters(self, values: Sequence[Any], errors: Errors) -> dict[str, Any]:
        letters: dict[str, Any] = dict(self.lettered.numbers)
        settings = dict(self.settings)
        for axis, value in zip(self.axes, values, strict=True):
            if axis.name in LENGTHS:
                settings[axis.name] = value
            else:
                letters[self.lettered.codes[axis.name]] = value
                if axis.name == "n_layers" and self.lettered.listed:
                    letters |= self._depths(value, errors)
        for one in self.lettered.conditions:
            over = evaluate(as_poly(one.dividend), letters, errors.valid)
            under = evaluate(as_poly(one.divisor), letters, errors.valid)
            wrong = over % under != 0
            if (is_array(wrong) and not wrong.any()) or (not is_array(wrong) and not wrong):
                continue
            import numpy

            codes = numpy.zeros(numpy.shape(wrong), int)
            overs, unders = (numpy.broadcast_to(x, codes.shape) for x in (over, under))
            for at in zip(*numpy.nonzero(wrong), strict=True):
                message = str(one.error(int(overs[at]), int(unders[at])))
                codes[at] = errors.code(message)
            errors.add(codes)
        return letters | run_letters(self.lettered, letters, settings)

    def _depths(self, depths: Any, errors: Errors) -> dict[str, Any]:
        """The letters of lists with an entry a layer, for each number of layers."""
        import numpy

        codes = numpy.zeros(depths.size, int)
        counts: dict[str, list[int]] = {}
        for i, depth in enumerate(depths.ravel().tolist()):
            try:
                if depth > MAX_LAYERS:
                    raise SizerError(
                        f"n_layers = {depth} is beyond {MAX_LAYERS:,}, with a kind for each layer"
                    )
                found = self.lettered.at_depth(depth)
            except SizerError as error:
                codes[i] = errors.code(self._told(error))
                found = self.lettered.at_depth(self.model.config.n_layers)  # type: ignore[attr-defined]
            for code, number in found.items():
                counts.setdefault(code, []).append(number)
        if codes.any():
            errors.add(codes.reshape(depths.shape))
        return {code: numpy.array(numbers).reshape(depths.shape) for code, numbers in counts.items()}

    # -- by the ledger, point by point ----------------------------------------------------------

    def at(self, point: Mapping[str, int], what: Sequence[str]) -> dict[str, int]:
        """The measures at one point, by the ledger."""
        sizes = {name: value for name, value in point.items() if name not in LENGTHS}
        settings = {**self.settings, **{k: v for k, v in point.items() if k in LENGTHS}}
        model = self.model.with_values(**sizes) if sizes else self.model
        return {name: pointwise(model, name, settings) for name in what}

    def _by_ledger(self, values: Sequence[Any], what: Sequence[str], errors: Errors) -> dict[str, Any]:
        import numpy

        shape = numpy.broadcast_shapes(*(numpy.shape(value) for value in values))
        size = prod(shape)
        known = numpy.broadcast_to(errors.codes, shape).ravel()
        found = {name: [0] * size for name in what}
        codes = numpy.zeros(size, int)
        flat = [numpy.broadcast_to(value, shape).ravel().tolist() for value in values]
        for i, numbers in enumerate(zip(*flat, strict=True) if flat else [()]):
            if known[i]:
                continue
            try:
                here = self.at(dict(zip((a.name for a in self.axes), numbers, strict=True)), what)
            except SizerError as error:
                codes[i] = errors.code(self._told(error))
                continue
            for name, number in here.items():
                found[name][i] = number
        if codes.any():
            errors.add(codes.reshape(shape))
        return {name: _array(numbers).reshape(shape) for name, numbers in found.items()}

    def _told(self, error: SizerError) -> str:
        return str(error).removeprefix(f"{self.model.name}: ")

    # -- whether the two agree -----------------------------------------------------------------

    def _agrees(self) -> bool:
        """Whether closed forms and ledger say the same at the corners of the grid and at some points."""
        import numpy

        forms = [name for name in self.what if self.forms[name] is not None]
        if not forms:
            return False
        for numbers in _sample([axis.values for axis in self.axes]):
            point = dict(zip((axis.name for axis in self.axes), numbers, strict=True))
            try:
                expected: dict[str, int] | None = self.at(point, forms)
            except SizerError:
                expected = None
            here = Variant.__new__(Variant)
            here.__dict__ = {**self.__dict__, "what": forms}
            arrays = [numpy.array([number]) for number in numbers]
            found, errors = here.measure(arrays)
            valid = bool(numpy.all(errors.valid))
            if valid != (expected is not None):
                return False
            if expected is not None and any(_one(found[name]) != expected[name] for name in forms):
                return False
        return True


def _sample(values: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """The corners of a grid, and some points between."""
    ends = [(0, len(one) - 1) if len(one) > 1 else (0,) for one in values]
    chosen = set(islice(product(*ends), CHECKED // 2))
    dice = Random(0)
    for _ in range(CHECKED // 2):
        chosen.add(tuple(dice.randrange(len(one)) for one in values))
    for point in sorted(chosen):
        yield tuple(one[i] for one, i in zip(values, point, strict=True))


def _one(value: Any) -> int:
    return int(value.ravel()[0]) if is_array(value) else int(value)


def _array(numbers: Sequence[int]) -> Any:
    """Numbers as an array: of 64 bits where they all fit."""
    import numpy

    big = any(number >= 2**63 for number in numbers)
    return numpy.array(numbers, dtype=object if big else numpy.int64)
