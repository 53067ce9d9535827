"""The ledger of a live torch module: every tensor, and its parts with equal ones folded into one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property
from math import prod
from typing import Any

from sizer.core.fold import ranges
from sizer.core.record import Record
from sizer.errors import BadInput, shown


class LiveTensor(Record):
    """A parameter or buffer of a module.

    `kind`: "param" or "buffer". `tied_to`: the first name of the same tensor, told by identity.
    `trainable`: whether a gradient may change it. `persistent`: whether a `state_dict` has it.
    `lazy`: it has no shape yet, since its module has not run.
    """

    __slots__ = ("dtype", "kind", "lazy", "name", "persistent", "shape", "tied_to", "trainable", "width")

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        kind: str,
        tied_to: str | None,
        trainable: bool,
        persistent: bool,
        lazy: bool,
        width: int,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.kind = kind
        self.tied_to = tied_to
        self.trainable = trainable
        self.persistent = persistent
        self.lazy = lazy
        self.width = width

    @property
    def elements(self) -> int:
        """Elements; 0 of a lazy tensor."""
        return 0 if self.lazy else prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of its elements."""
        return self.elements * self.width


class Part(Record):
    """A module inside a module, of which `copies` equal ones stand side by side.

    `name`: its own step, such as `attn`, or `{0-11}` for twelve equal ones. `params`, `trainable`,
    `buffers`: elements of one copy and all inside it, each tied tensor once in the whole model.
    `tied`: elements that stand elsewhere. `tensors`: those of its own, without its parts'.
    """

    __slots__ = (
        "buffers", "cls", "copies", "lazy", "name", "params", "parts", "tensors", "tied", "trainable",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        cls: str,
        copies: int,
        tensors: tuple[LiveTensor, ...],
        parts: tuple[Part, ...],
    ) -> None:
        self.name = name
        self.cls = cls
        self.copies = copies
        self.tensors = tensors
        self.parts = parts
        own = [t for t in tensors if t.tied_to is None]
        again = [t for t in tensors if t.tied_to is not None]
        learned = [t for t in own if t.trainable]
        self.params: int = _sum(own, "param") + sum(p.params * p.copies for p in parts)
        self.trainable: int = _sum(learned, "param") + sum(p.trainable * p.copies for p in parts)
        self.buffers: int = _sum(own, "buffer") + sum(p.buffers * p.copies for p in parts)
        self.tied: int = _sum(again, "param") + sum(p.tied * p.copies for p in parts)
        self.lazy: int = sum(t.lazy for t in tensors) + sum(p.lazy * p.copies for p in parts)

    def walk(self, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, int, Part]]:
        """This part and those inside it: full name, depth, part."""
        name = f"{prefix}.{self.name}" if prefix and self.name else self.name or prefix
        yield name, depth, self
        for part in self.parts:
            yield from part.walk(name, depth + 1)


class ModuleCount:
    """What a live module holds: `sizer.testing.count_module` makes one.

    `total`: parameters, each tied tensor once. `trainable`: of those, what a gradient may change.
    `tied`: elements of parameters that are the same tensor as another, not in `total`.
    `buffers`: elements of buffers. `bytes`: of parameters and buffers, as they are held.
    `lazy`: names of parameters that have no shape yet, and are in no number.
    """

    def __init__(self, tensors: list[LiveTensor], root: Part) -> None:
        self.tensors = tensors
        self.root = root
        self.cls = root.cls
        self.total = root.params
        self.trainable = root.trainable
        self.frozen = root.params - root.trainable
        self.buffers = root.buffers
        self.tied = root.tied
        self.lazy = [t.name for t in tensors if t.lazy]

    def __repr__(self) -> str:
        return f"<sizer.testing.ModuleCount {self.cls}, {self.total:,} parameters>"

    @cached_property
    def bytes(self) -> int:
        """Bytes of parameters and buffers, each tensor once."""
        return sum(t.bytes for t in self.tensors if t.tied_to is None)

    @property
    def parts(self) -> dict[str, Part]:
        """Every part by its full name, equal ones folded: `transformer.h.{0-11}.attn`."""
        return {name: part for name, _, part in self.root.walk() if name}


def count_module(module: Any) -> ModuleCount:
    """Count a live torch module, on any device, `meta` too; nothing of it is read or changed."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        raise BadInput(f"count_module takes a torch.nn.Module, and {shown(module)} is none")
    first: dict[int, str] = {}
    tensors: list[LiveTensor] = []
    ids: dict[Any, int] = {}
    root, _ = _part(module, "", "", first, tensors, ids, torch)
    return ModuleCount(tensors, root)


def _part(
    module: Any,
    name: str,
    prefix: str,
    first: dict[int, str],
    found: list[LiveTensor],
    ids: dict[Any, int],
    torch: Any,
) -> tuple[Part, int]:
    """A module as a part, and a number that equal parts share."""
    own = tuple(_own(module, prefix, first, torch))
    found += own
    parts: list[tuple[Part, int]] = []
    for step, child in module._modules.items():
        if child is not None:
            parts.append(_part(child, step, f"{prefix}{step}.", first, found, ids, torch))
    folded = tuple(_folded(parts))
    cls = type(module).__name__
    looks = (
        cls,
        tuple((t.name[len(prefix) :], t.shape, t.dtype, t.kind, t.trainable, t.tied_to is None) for t in own),
        tuple((part.name, number) for part, number in parts),
    )
    return Part(name, cls, 1, own, folded), ids.setdefault(looks, len(ids))


def _own(module: Any, prefix: str, first: dict[int, str], torch: Any) -> Iterator[LiveTensor]:
    lazy_types = torch.nn.parameter.UninitializedTensorMixin
    for kind, held in (("param", module._parameters), ("buffer", module._buffers)):
        for step, tensor in held.items():
            if tensor is None:
                continue
            name = prefix + step
            lazy = isinstance(tensor, lazy_types)
            same = first.setdefault(id(tensor), name)
            yield LiveTensor(
                name,
                () if lazy else tuple(tensor.shape),
                str(tensor.dtype).removeprefix("torch."),
                kind,
                None if same == name else same,
                bool(tensor.requires_grad),
                kind == "param" or step not in module._non_persistent_buffers_set,
                lazy,
                tensor.element_size() if not lazy else tensor.dtype.itemsize,
            )


def _folded(parts: list[tuple[Part, int]]) -> Iterator[Part]:
    """Children of a list that are equal, as one with their indices."""
    same: dict[tuple[int, str], list[Part]] = {}
    for part, number in parts:
        # Only the items of a list are counted; two equal children with names keep their names.
        same.setdefault((number, "" if part.name.isdigit() else part.name), []).append(part)
    for group in same.values():
        one = group[0]
        if len(group) == 1:
            yield one
        else:
            name = ranges([int(part.name) for part in group])
            yield Part(name, one.cls, len(group), one.tensors, one.parts)


def _sum(tensors: list[LiveTensor], kind: str) -> int:
    return sum(t.elements for t in tensors if t.kind == kind)
