"""What an entry's model comes to: the numbers that are expected of it, and its tensors as patterns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sizer import dtypes
from sizer.checking.entries import Entry
from sizer.checking.limits import VALUES
from sizer.core.fold import filled, fold, ranges
from sizer.core.tree import Buffer, Param
from sizer.core.walk import indices_of
from sizer.errors import BadInput, UnknownName, clip

if TYPE_CHECKING:
    from sizer.checkpoint import Checkpoint
    from sizer.model import Model
    from sizer.oracles.ledger import ModuleCount


class Measured:
    """`values`: quantity -> number. `components`: parameters of each. `tensors`: pattern -> what it is."""

    def __init__(
        self,
        values: dict[str, int],
        components: dict[str, int],
        tensors: Callable[[], dict[str, str]],
    ) -> None:
        self.values = values | {f"components.{name}": n for name, n in components.items()}
        self.components = components
        self._tensors = tensors

    @cached_property
    def tensors(self) -> dict[str, str]:
        """Every tensor, those that differ in their layer alone as one."""
        return self._tensors()

    def value(self, quantity: str) -> int:
        """One number; a component that is not there has none of the parameters."""
        if quantity in self.values:
            return self.values[quantity]
        group = quantity.partition(".")[0]
        if group == "components":
            return 0
        known = [key for key in self.values if key.startswith(group)] or list(self.values)
        raise UnknownName("quantity", quantity, known, hint=f"this model has {', '.join(known)}")


def measure(entry: Entry, folder: str) -> Measured:
    """Load what an entry names, and count it; paths begin in `folder`."""
    if entry.source == "factory":
        from sizer.oracles.factory import module_of
        from sizer.oracles.ledger import count_module

        return of_module(count_module(module_of(entry.target, folder=folder, arguments=entry.given)))
    if entry.source == "checkpoint":
        from sizer.checkpoint import load_checkpoint

        return of_checkpoint(load_checkpoint(_path(entry.target, folder)))
    from sizer import loading

    if entry.source == "preset":
        model = loading.from_preset(entry.target, cls=entry.cls, overrides=entry.given)
    else:
        model = loading.from_path(_path(entry.target, folder), cls=entry.cls, overrides=entry.given)
    return of_model(model, entry.settings)


def _path(target: str, folder: str) -> str:
    path = os.path.join(folder, os.path.expanduser(target))
    if not os.path.exists(path):
        raise BadInput(f"there is no file {clip(target)!r} in {clip(folder)}")
    return path


def of_model(model: Model, settings: dict[str, dict[str, Any]]) -> Measured:
    """A model with its formulas; of a run, only what is asked for is worked out."""
    found = model.count()
    values = {
        "params": int(found.total),
        **{key: int(getattr(found, key)) for key in _SHARED},
    }
    measures: dict[str, Callable[..., Any]] = {
        "flops": model.flops,
        "kv_cache": model.kv_cache,
        "memory": model.memory,
    }
    for group, given in settings.items():
        if group == "weights":
            values["weights.bytes"] = (int(found.total) * dtypes.bits(str(given["dtype"])) + 7) // 8
            continue
        try:
            run = measures[group](**given)
        except TypeError as error:
            raise BadInput(f"{group}: {clip(error)}") from None
        values |= {f"{group}.{name}": int(getattr(run, name)) for name in VALUES[group] if hasattr(run, name)}
    return Measured(
        values, {name: int(n) for name, n in found.components.items()}, lambda: _tensors_of(model)
    )


_SHARED = ("active", "trainable", "embedding", "non_embedding", "tied", "buffers")


def _tensors_of(model: Model) -> dict[str, str]:
    """The rows of the tree are patterns already."""
    pairs = []
    for row in model.rows():
        leaf = row.leaf
        if not isinstance(leaf, Param | Buffer):
            continue
        pattern = filled(row.name, [ranges(indices_of(row, frame)) for frame in row.frames])
        shape = ", ".join(str(axis.size if axis.padded is None else axis.padded) for axis in leaf.axes)
        words = [f"[{shape}]", row.component]
        if isinstance(leaf, Buffer):
            words.append("buffer" if leaf.persistent else "buffer, not stored")
        elif not leaf.trainable:
            words.append("frozen")
        if leaf.tied_to is not None:
            words.append(f"= {leaf.tied_to.replace('{}', '*')}")
        elif any(frame.shared for frame in row.frames):
            words.append("shared by all")
        pairs.append((pattern, " ".join(words)))
    return _unique(pairs)


def of_checkpoint(files: Checkpoint) -> Measured:
    """The weights of a checkpoint, and its bytes as stored."""
    if not files.complete:
        missing = f"{clip(files.missing[0].file)} is missing" if files.missing else files.problems[0]
        raise BadInput(f"{clip(files.name)} is not complete: {missing}")
    found = files.count()
    values = {"params": found.total, "weights.bytes": found.bytes}
    values |= {key: getattr(found, key) for key in _SHARED if getattr(found, key) is not None}
    return Measured(
        values,
        dict(found.components),
        lambda: _unique(
            fold(
                (
                    t.name,
                    f"[{', '.join(map(str, t.shape))}] {t.dtype}" + (f" = {t.tied_to}" if t.tied_to else ""),
                )
                for t in files.stored
            )
        ),
    )


def of_module(found: ModuleCount) -> Measured:
    """A live module; what its tensors are for is told by their names, as in a checkpoint."""
    from sizer.sources.checkpoints.logical.names import classify
    from sizer.sources.checkpoints.stored import StoredTensor

    if found.lazy:
        raise BadInput(
            f"{len(found.lazy)} parameters have no shape before the module has run once ({found.lazy[0]})"
        )
    components: dict[str, int] = {}
    pairs = []
    for t in found.tensors:
        component, _ = classify(t.name, StoredTensor(t.name, t.shape, t.dtype, t.elements, t.bytes, ""))
        if t.kind == "param" and t.tied_to is None:
            components[component] = components.get(component, 0) + t.elements
        words = [f"[{', '.join(map(str, t.shape))}]", t.dtype, component]
        if t.kind == "buffer":
            words.append("buffer" if t.persistent else "buffer, not stored")
        elif not t.trainable:
            words.append("frozen")
        if t.tied_to is not None:
            words.append(f"= {t.tied_to}")
        pairs.append((t.name, " ".join(words)))
    values = {
        "params": found.total,
        "trainable": found.trainable,
        "tied": found.tied,
        "buffers": found.buffers,
        "weights.bytes": found.bytes,
    }
    return Measured(values, components, lambda: _unique(fold(pairs)))


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pattern, text in pairs:
        found[pattern] = f"{found[pattern]}; {text}" if pattern in found else text
    return found
