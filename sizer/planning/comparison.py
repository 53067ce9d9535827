"""Models side by side: the fields in which they differ, and every quantity with its ratio to the first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sizer.core.config import size_names
from sizer.core.pattern import Pattern, PerLayer
from sizer.core.record import Record
from sizer.dtypes import bits
from sizer.errors import InvalidConfig, NotDescribed
from sizer.measures.count import COMPONENTS
from sizer.measures.passes import check_positive

if TYPE_CHECKING:
    from sizer.model import Model

MOST = 12


class Line(Record):
    """One property: its name, its unit, and its value for each model; `None` where a model has none."""

    __slots__ = ("name", "unit", "values")

    def __init__(self, name: str, unit: str, values: Sequence[Any]) -> None:
        self.name = name
        self.unit = unit
        self.values = list(values)

    @property
    def differs(self) -> bool:
        """Whether any two models differ in it."""
        return any(value != self.values[0] for value in self.values[1:])

    @property
    def ratios(self) -> list[float | None]:
        """Each value over that of the first model, where both are numbers."""
        first = self.values[0]
        numbers = [isinstance(v, int | float) and not isinstance(v, bool) for v in self.values]
        return [
            value / first if known and numbers[0] and first else None
            for value, known in zip(self.values, numbers, strict=True)
        ]


class Comparison(Record):
    """`fields`: of the configurations; `quantities`: what follows from them."""

    __slots__ = ("fields", "models", "quantities")

    def __init__(self, models: Sequence[Model], fields: list[Line], quantities: list[Line]) -> None:
        self.models = models
        self.fields = fields
        self.quantities = quantities


def comparison(models: Sequence[Model], *, seq_len: int = 8192, dtype: str = "bf16") -> Comparison:
    """Two or more models, compared at sequences of `seq_len` tokens with weights and cache of `dtype`.

    >>> import sizer
    >>> found = comparison([sizer.load("llama-2-7b"), sizer.load("llama-3-8b")])
    >>> [line.values for line in found.quantities if line.name == "params"]
    [[6738415616, 8030261248]]
    """
    if not 2 <= len(models) <= MOST:
        raise InvalidConfig(f"{len(models)} model{'s' * (len(models) != 1)}: compare takes 2 to {MOST}")
    check_positive(seq_len=seq_len)
    width = bits(dtype)
    counts = [model.count() for model in models]
    caches = [model.kv_cache(1, seq_len, dtype) for model in models]
    quantities = [
        Line("params", "parameters", [int(c.total) for c in counts]),
        Line("active", "parameters", [int(c.active) for c in counts]),
        Line("non-embedding", "parameters", [int(c.non_embedding) for c in counts]),
        *(
            Line(name, "parameters", [int(c.components.get(name, 0)) for c in counts])
            for name in COMPONENTS
            if any(name in c.components for c in counts)
        ),
        Line(f"weights, {dtype}", "bytes", [-(-int(c.total) * width // 8) for c in counts]),
        Line("cache a token", "bytes", [int(c.bytes_per_token) for c in caches]),
        Line(f"cache of {seq_len:,} tokens", "bytes", [int(c.bytes) for c in caches]),
        *_passes(models, seq_len),
    ]
    return Comparison(models, _fields(models), quantities)


def _passes(models: Sequence[Model], seq_len: int) -> list[Line]:
    """A forward pass: of a token, and of an input where the configuration says how large one is."""
    tokens, inputs = Line("forward a token", "FLOPs", []), Line("forward an input", "FLOPs", [])
    for model in models:
        try:
            found = model.flops(1, seq_len)
        except NotDescribed:
            a_token = an_input = None
        else:
            a_token = None if found.own_input else int(found.forward) // int(found.tokens)
            an_input = int(found.forward) if found.own_input else None
        tokens.values.append(a_token)
        inputs.values.append(an_input)
    return [line for line in (tokens, inputs) if any(value is not None for value in line.values)]


def _fields(models: Sequence[Model]) -> list[Line]:
    """The fields of the configurations, sizes first, in the order of the first model."""
    told = [_told(model) for model in models]
    names = list(dict.fromkeys(name for one in told for name in one))
    sizes = {name for model in models for name in size_names(type(model.config))}
    names.sort(key=lambda name: name not in sizes)
    lines = [Line(name, "", [one.get(name) for one in told]) for name in names]
    architectures = Line("architecture", "", [model.architecture for model in models])
    if architectures.differs:
        # A switch that only one architecture has says nothing about the others.
        lines = [line for line in lines if line.name in sizes or None not in line.values]
    return [line for line in (architectures, *lines) if line.differs]


def _told(model: Model) -> dict[str, Any]:
    values = {name: getattr(model.config, name) for name in _names(model)}
    return {name: _plain(value) for name, value in values.items() if _is_plain(value)}


def _names(model: Model) -> Iterable[str]:
    from dataclasses import fields

    return [field.name for field in fields(model.config) if field.name != "layout"]


def _is_plain(value: Any) -> bool:
    return value is not None and isinstance(value, int | str | bool | Pattern | PerLayer)


def _plain(value: Any) -> Any:
    if isinstance(value, Pattern):
        return ", ".join(f"{value.kinds.count(kind)} {kind}" for kind in dict.fromkeys(value.kinds))
    if isinstance(value, PerLayer):
        sizes = value.distinct()
        return sizes[0] if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
    return value
