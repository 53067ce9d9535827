"""Where two lists of tensors differ: in total, by component, or name by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from sizer.measures.tensors import Tensor

LEVELS = ("total", "component", "names")


class Found(NamedTuple):
    """A tensor of the other side: its name, its shape, and the first name of its storage.

    `kind` is "param" or "buffer"; `trainable` whether a gradient may change it; `dtype` is empty where
    it says nothing, as of packed weights.
    """

    name: str
    shape: tuple[int, ...]
    kind: str = "param"
    tied_to: str | None = None
    trainable: bool = True
    dtype: str = ""
    persistent: bool = True


class Difference(NamedTuple):
    """One thing that differs: what, where, and both values."""

    kind: str
    name: str
    ours: str
    theirs: str


def compare(ours: Iterable[Tensor], theirs: Iterable[Found], *, level: str = "names") -> list[Difference]:
    """What differs between our tensors and those of the other side; nothing means equal."""
    mine, other = list(ours), list(theirs)
    if level == "names":
        return [*_twice(mine, other), *_names(mine, other), *_ties(mine, other)]
    mine_by, other_by = _totals(mine), _totals(other)
    differences = [
        Difference("total", kind, f"{mine_by.get(kind, 0):,}", f"{other_by.get(kind, 0):,}")
        for kind in ("param", "buffer")
        if mine_by.get(kind, 0) != other_by.get(kind, 0)
    ]
    if level == "component":
        differences += _components(mine, other)
    return differences


def odd_dtypes(found: Iterable[Found], *, wanted: str = "", fp32: Sequence[str] = ()) -> list[Difference]:
    """Parameters of another type than the one wanted, or than most of them.

    `fp32`: parts of names that the class keeps in 32 bits whatever the others are.
    """
    params = [t for t in found if t.kind == "param" and t.tied_to is None and t.dtype]
    counts = Counter(t.dtype for t in params)
    most = wanted or max(counts, key=counts.__getitem__, default="")
    return [
        Difference("dtype", t.name, most, t.dtype)
        for t in params
        if t.dtype != most and not (t.dtype in ("float32", "fp32") and any(part in t.name for part in fp32))
    ]


def _twice(ours: list[Tensor], theirs: list[Found]) -> list[Difference]:
    """A name that one side has more than once, such as a router counted twice."""
    mine, other = Counter(t.name for t in ours), Counter(t.name for t in theirs)
    return [
        Difference("twice", name, f"{mine[name]} times", f"{other[name]} times")
        for name in {**mine, **other}
        if mine[name] > 1 or other[name] > 1
    ]


def _names(ours: list[Tensor], theirs: list[Found]) -> list[Difference]:
    mine, other = {t.name: t for t in ours}, {t.name: t for t in theirs}
    differences = [
        Difference("missing here", name, "–", shape_text(other[name].shape))
        for name in other
        if name not in mine
    ]
    for name, tensor in mine.items():
        if name not in other:
            differences.append(Difference("only here", name, shape_text(tensor.shape), "–"))
            continue
        found = other[name]
        if tuple(tensor.shape) != found.shape:
            differences.append(Difference("shape", name, shape_text(tensor.shape), shape_text(found.shape)))
        if tensor.kind != found.kind:
            differences.append(Difference("kind", name, tensor.kind, found.kind))
        elif tensor.trainable != found.trainable and tensor.kind == "param":
            words = {True: "trainable", False: "frozen"}
            differences.append(Difference("trainable", name, words[tensor.trainable], words[found.trainable]))
    return differences


def _ties(ours: list[Tensor], theirs: list[Found]) -> list[Difference]:
    """A tie is one storage under several names; an equal copy is none."""
    mine, other = _groups(ours), _groups(theirs)
    return [
        Difference(
            "tie",
            " = ".join(sorted(group)),
            *(("tied", "separate") if group in mine else ("separate", "tied")),
        )
        for group in sorted(mine ^ other, key=sorted)
    ]


def _groups(tensors: Iterable[Tensor | Found]) -> set[frozenset[str]]:
    groups: dict[str, set[str]] = {}
    for tensor in tensors:
        if tensor.tied_to is not None and tensor.kind == "param":
            groups.setdefault(tensor.tied_to, {tensor.tied_to}).add(tensor.name)
    return {frozenset(group) for group in groups.values()}


def _totals(tensors: Iterable[Tensor | Found]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for tensor in tensors:
        if tensor.tied_to is None:
            totals[tensor.kind] = totals.get(tensor.kind, 0) + prod(tensor.shape)
    return totals


def _components(ours: list[Tensor], theirs: list[Found]) -> list[Difference]:
    component = {tensor.name: tensor.component for tensor in ours}
    mine: dict[str, int] = {}
    other: dict[str, int] = {}
    for tensor in ours:
        if tensor.tied_to is None and tensor.kind == "param":
            mine[tensor.component] = mine.get(tensor.component, 0) + prod(tensor.shape)
    for found in theirs:
        if found.tied_to is None and found.kind == "param":
            name = component.get(found.name, "unknown here")
            other[name] = other.get(name, 0) + prod(found.shape)
    return _differing(mine, other)


def _differing(mine: Mapping[str, int], other: Mapping[str, int]) -> list[Difference]:
    return [
        Difference("component", name, f"{mine.get(name, 0):,}", f"{other.get(name, 0):,}")
        for name in {**mine, **other}
        if mine.get(name, 0) != other.get(name, 0)
    ]


def shape_text(shape: Iterable[int]) -> str:
    """A shape as it is written: `[2048, 768]`."""
    return f"[{', '.join(map(str, shape))}]"
