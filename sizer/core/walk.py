"""The walk through a tree: a row for each leaf, with all that its place says about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as cartesian
from math import prod

from sizer.core.dims import Dim
from sizer.core.record import Record
from sizer.core.tree import Axis, Layers, Leaf, Module, Places


class Frame(Record):
    """One level of repetition above a row: a `{}` in its name."""

    __slots__ = ("active", "count", "indices", "shared", "visits")

    def __init__(
        self,
        count: Dim,
        indices: Sequence[int] | None,
        active: Dim,
        visits: Dim,
        shared: bool = False,
    ) -> None:
        self.count = count
        self.indices = indices
        self.active = active
        self.visits = visits
        self.shared = shared


class Row(Record):
    """A leaf with all that its place in the tree says about it.

    `copies`: how many of it are stored. `active`: how many of those one token visits.
    `visits`: how often it runs in one forward pass over one token. `places`: where it runs, if not once
    a token.
    """

    __slots__ = (
        "active",
        "component",
        "copies",
        "frames",
        "kind",
        "leaf",
        "name",
        "places",
        "stream",
        "visits",
    )

    def __init__(
        self,
        name: str,
        leaf: Leaf,
        component: str,
        kind: str,
        stream: str,
        frames: tuple[Frame, ...],
        copies: Dim,
        active: Dim,
        visits: Dim,
        places: Places | None = None,
    ) -> None:
        self.name = name
        self.leaf = leaf
        self.component = component
        self.kind = kind
        self.stream = stream
        self.frames = frames
        self.copies = copies
        self.active = active
        self.visits = visits
        self.places = places

    @property
    def numel(self) -> Dim:
        """Elements of one copy."""
        return numel(self.leaf.axes)  # type: ignore[union-attr]


def numel(axes: tuple[Axis, ...]) -> Dim:
    """Elements of a tensor with these axes."""
    elements: Dim = 1
    for axis in axes:
        elements = elements * axis.size
    return elements


def walk(root: Module) -> list[Row]:
    """Every leaf of a tree, in the order of the forward pass, with repeats kept as counts."""
    rows: list[Row] = []
    _walk(root, "", "other", "", None, (), (1, 1, 1), 1, rows)
    return rows


def _walk(
    module: Module,
    prefix: str,
    component: str,
    stream: str,
    places: Places | None,
    frames: tuple[Frame, ...],
    times: tuple[Dim, Dim, Dim],
    uses: Dim,
    rows: list[Row],
) -> None:
    # Written for speed: a count of a model is little else than this walk.
    if module.name:
        prefix = f"{prefix}.{module.name}" if prefix else module.name
    component = module.component or component
    if module.stream and module.stream != stream:
        stream, places = module.stream, None
    places = module.places or places
    if module.repeat is not None or module.at is not None or module.uses is not None:
        prefix, frames = _enter(module, prefix, frames)
        uses = uses if module.uses is None else uses * module.uses
        times = _times(frames, uses)
    copies, active, visits = times
    kind = module.kind
    dotted = f"{prefix}." if prefix else ""
    for child in module.children:
        if isinstance(child, Module):
            _walk(child, prefix, component, stream, places, frames, times, uses, rows)
        else:
            rows.append(
                Row(
                    # A leaf without a name is its module itself: an item of a list of tensors.
                    dotted + child.name if child.name else prefix,
                    child,
                    child.component or component,
                    kind,
                    stream,
                    frames,
                    copies,
                    active,
                    visits,
                    places,
                )
            )


def _enter(module: Module, prefix: str, frames: tuple[Frame, ...]) -> tuple[str, tuple[Frame, ...]]:
    at, repeat = module.at, module.repeat
    if at is not None:
        if not frames:
            raise ValueError(f"{prefix}: `at` needs a repeated module above it")
        frames = (*frames[:-1], Frame(at.count, at.indices, at.count, at.count, module.shared))
    if repeat is not None:
        if "{}" not in module.name:
            prefix = f"{prefix}.{{}}" if prefix else "{}"
        count, indices = (repeat.count, repeat.indices) if isinstance(repeat, Layers) else (repeat, None)
        if indices is None and isinstance(count, int):
            indices = range(count)
        active = count if module.active is None else module.active
        visits = active if module.visits is None else module.visits
        frames = (*frames, Frame(count, indices, active, visits))
    return prefix, frames


def _times(frames: tuple[Frame, ...], uses: Dim) -> tuple[Dim, Dim, Dim]:
    stored = [frame for frame in frames if not frame.shared]
    return (
        prod([frame.count for frame in stored]),
        prod([frame.active for frame in stored]),
        prod([frame.visits for frame in frames]) * uses,
    )


def names(row: Row) -> Iterator[str]:
    """The full name of every copy of a row.

    >>> from sizer.core.tree import Param
    >>> block = Module("h", (Param("weight", (Axis("embed", 8),)),), repeat=2)
    >>> [name for row in walk(block) for name in names(row)]
    ['h.0.weight', 'h.1.weight']
    """
    for indices in cartesian(*(indices_of(row, frame) for frame in row.frames)):
        yield name_at(row.name, indices)


def name_at(template: str, indices: Sequence[int]) -> str:
    """A row's name with its indices filled in."""
    if not indices:
        return template
    first, *pieces = template.split("{}")
    return first + "".join(f"{i}{piece}" for i, piece in zip(indices, pieces, strict=False))


def indices_of(row: Row, frame: Frame) -> Sequence[int]:
    """The layers that one level of repetition covers."""
    if frame.indices is None:
        raise ValueError(f"{row.name}: the layers of a symbolic model have no names")
    return frame.indices
