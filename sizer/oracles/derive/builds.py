"""Builds of a target on the meta device: bounded in time and in size, and remembered."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from sizer.core.record import Record
from sizer.errors import BadInput, clip
from sizer.oracles.compare import Found
from sizer.oracles.derive.bounds import TooMuch, bounded, quiet
from sizer.oracles.derive.expressions import Point, constant, rational
from sizer.oracles.derive.folding import folded
from sizer.oracles.derive.target import MAX_ARGUMENTS, Path, Target
from sizer.oracles.derive.trace import Part, Whole
from sizer.oracles.derive.trace import Record as Trace
from sizer.oracles.derive.watch import Word, watching

MAX_BUILDS = 3_000
LONGEST_LIST = 64

# Modules of torch whose own sums and ranges over our arguments are worth watching.
_OF_TRANSFORMERS = ("transformers.modeling_rope_utils",)
_OF_TORCH = ("torch.nn.modules.rnn", "torch.nn.modules.transformer", "torch.nn.modules.conv")


class Refused(Exception):
    """The target does not accept these arguments."""


class Argument(Record):
    """An argument of a target: where it stands, the letter that names it, and its value."""

    __slots__ = ("letter", "path", "value")

    def __init__(self, letter: str, path: Path, value: Any) -> None:
        self.letter = letter
        self.path = path
        self.value = value

    @property
    def spelled(self) -> str:
        """The argument as a user writes it: `text_config.hidden_size`, `widths[0]`."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
        return text


class Builder:
    """Builds a target at points: a point gives the whole-number arguments their values."""

    def __init__(self, target: Target, *, timeout: float) -> None:
        self.target = target
        self.deadline = time.monotonic() + timeout
        self.timeout = timeout
        self.builds = 0
        leaves = list(_leaves(target.values, ()))
        if len(leaves) > MAX_ARGUMENTS:
            raise BadInput(
                f"{clip(target.name)} has {len(leaves):,} arguments; over {MAX_ARGUMENTS:,} are too many"
            )
        self.arguments = {
            letter: Argument(letter, path, value) for letter, (path, value) in _lettered(leaves).items()
        }
        self._known: dict[tuple[tuple[str, Any], ...], list[Found] | str] = {}

    @property
    def sizes(self) -> dict[str, int]:
        """The whole-number arguments with their values."""
        return {a.letter: a.value for a in self.arguments.values() if type(a.value) is int}

    def tensors(self, point: Mapping[str, Any]) -> list[Found]:
        """The tensors at a point; arguments that it does not name keep their values."""
        key = tuple(sorted(point.items(), key=lambda entry: entry[0]))
        if key not in self._known:
            try:
                self._known[key] = self._build(point, None)
            except Refused as refusal:
                self._known[key] = str(refusal)
        found = self._known[key]
        if isinstance(found, str):
            raise Refused(found)
        return found

    def traced(self, point: Point) -> tuple[list[Found], Trace]:
        """The tensors at a point, and what the build did with its arguments."""
        trace = Trace()
        package = self.target.package.partition(".")[0]

        def wanted(name: str) -> bool:
            if package == "transformers":
                own = name.startswith("transformers.models.")
                return (
                    own and (".modeling_" in name or ".configuration_" in name)
                ) or name in _OF_TRANSFORMERS
            return name == package or name.startswith(package + ".") or name in _OF_TORCH

        with watching(wanted):
            return self._build(point, trace), trace

    def _build(self, point: Mapping[str, Any], trace: Trace | None) -> list[Found]:
        self.check_time()
        self.builds += 1
        if self.builds > MAX_BUILDS:
            raise BadInput(
                f"{clip(self.target.name)}: over {MAX_BUILDS:,} builds say no formula; fix more arguments"
            )
        return _tensors(self._module(point, trace), self.target.name)

    def kinds(self) -> dict[str, str]:
        """The class of each module, by its name without indices, as the target was given."""
        module = self._module({}, None)
        return {folded(name)[0]: type(part).__name__ for name, part in module.named_modules()}

    def filled(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all arguments at a point, as the target's `make` takes them."""
        values: dict[str, Any] = _copied(self.target.values)
        for letter, value in point.items():
            _set(values, self.arguments[letter].path, value)
        return values

    def _module(self, point: Mapping[str, Any], trace: Trace | None) -> Any:
        values = _copied(self.target.values)
        for letter, argument in self.arguments.items():
            value = point.get(letter, argument.value)
            if trace is not None and type(value) is int:
                value = trace.argument(letter, value)
            elif trace is not None and type(value) is float and isfinite(value):
                # Python asks a plain number on the left for the product, and the formula would be lost.
                value = Part(value, constant(rational(value)), trace)
            elif trace is not None and type(value) is str:
                value = Word.make(value, letter, trace)
            elif letter not in point:
                continue
            _set(values, argument.path, value)
        left = max(1.0, self.deadline - time.monotonic())
        with bounded(left), quiet():
            try:
                return self.target.make(values)
            except TooMuch:
                raise
            except (Exception, SystemExit) as error:
                raise Refused(f"{type(error).__name__}: {clip(error, most=160)}") from None

    def check_time(self) -> None:
        """Stop where the time is used up."""
        if time.monotonic() > self.deadline:
            raise BadInput(
                f"{clip(self.target.name)}: no formula after {self.timeout:.0f} s, {self.builds:,} builds; "
                "give more time with --timeout, or smaller sizes with --config"
            )


def _tensors(module: Any, name: str) -> list[Found]:
    import torch

    if not isinstance(module, torch.nn.Module):
        kind = next(k for k in type(module).__mro__ if k not in (Word, Whole)).__name__
        raise BadInput(f"{clip(name)} returns an object of type {kind}, not a torch.nn.Module")
    lazy = torch.nn.parameter.UninitializedTensorMixin
    first: dict[int, str] = {}
    found: list[Found] = []

    def walk(part: Any, prefix: str) -> None:
        for step, tensor in part._parameters.items():
            if tensor is None:
                continue
            if isinstance(tensor, lazy):
                raise BadInput(
                    f"{clip(name)} has lazy modules, whose shapes only a forward pass says; give their sizes"
                )
            full = prefix + step
            same = first.setdefault(id(tensor), full)
            found.append(Found(full, tuple(tensor.shape), tied_to=None if same == full else same))
        for step, child in part._modules.items():
            if child is not None:
                walk(child, f"{prefix}{step}.")

    walk(module, "")
    return found


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _leaves(entry, (*path, key))
    elif (
        isinstance(value, list) and any(type(e) in (int, list) for e in value) and len(value) <= LONGEST_LIST
    ):
        for index, entry in enumerate(value):
            yield from _leaves(entry, (*path, index))
    else:
        yield path, value


def _lettered(leaves: list[tuple[Path, Any]]) -> dict[str, tuple[Path, Any]]:
    """Each argument under its name; steps of a path are joined by `_`."""
    named: dict[str, tuple[Path, Any]] = {}
    for path, value in leaves:
        letter = "_".join(map(str, path))
        while letter in named:
            letter += "_"
        named[letter] = (path, value)
    return named


def _copied(value: Any) -> Any:
    """Settings to be changed; what is neither a dictionary nor a list is shared."""
    if type(value) is dict:
        return {key: _copied(entry) for key, entry in value.items()}
    if type(value) is list:
        return [_copied(entry) for entry in value]
    return value if isinstance(value, str | int | float | None) else copy.deepcopy(value)


def _set(values: Any, path: Path, value: Any) -> None:
    for step in path[:-1]:
        values = values[step]
    values[path[-1]] = value
