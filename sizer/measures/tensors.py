"""Every tensor of a model by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product as cartesian
from math import prod
from typing import NamedTuple

from sizer.core.dims import Dim
from sizer.core.tree import Buffer, Param
from sizer.core.walk import Row, indices_of, name_at
from sizer.errors import InvalidConfig

# Causal masks that old checkpoints carry and today's modules have not: ends of their names.
OLD_MASKS = ("attn.bias", "attn.masked_bias", "att.mask")


class Tensor(NamedTuple):
    """One tensor: its name and shape in a layout, and what it is.

    `kind`: "param" or "buffer". `tied_to`: the tensor whose storage it shares.
    `persistent`: whether a checkpoint stores it; only a buffer may not be.
    """

    name: str
    shape: tuple[Dim, ...]
    component: str
    kind: str
    tied_to: str | None
    trainable: bool
    persistent: bool
    axes: tuple[str, ...]


# The largest published checkpoint has 210,000 tensors of all kinds.
MOST_COPIES = 2_000_000


def tensors(rows: Iterable[Row]) -> list[Tensor]:
    """The tensors of a tree, repeats written out, in the order of the forward pass.

    >>> import sizer
    >>> tensors(sizer.load("gpt2-small").rows())[0][:2]
    ('transformer.wte.weight', (50257, 768))
    """
    return [tensor for row in rows for tensor in of_row(row)]


def of_row(row: Row) -> Iterator[Tensor]:
    """The tensors of one row; none for a leaf that is no tensor."""
    leaf = row.leaf
    if not isinstance(leaf, Param | Buffer):
        return
    shape = tuple(axis.size if axis.padded is None else axis.padded for axis in leaf.axes)
    axes = tuple(axis.name for axis in leaf.axes)
    is_param = isinstance(leaf, Param)
    kind = "param" if is_param else "buffer"
    trainable = is_param and leaf.trainable  # type: ignore[union-attr]
    persistent = is_param or leaf.persistent  # type: ignore[union-attr]
    counted = [indices_of(row, frame) for frame in row.frames]
    copies = prod(len(one) for one in counted)
    if copies > MOST_COPIES:
        raise InvalidConfig(
            f"{row.name} stands for {copies:,} tensors; more than {MOST_COPIES:,} are not written out, only "
            "counted"
        )
    for indices in cartesian(*counted):
        tied_to = leaf.tied_to
        if tied_to is None:
            tied_to = _shared_with(row, indices)
        elif "{}" in tied_to:
            tied_to = name_at(tied_to, indices)
        yield Tensor(
            name_at(row.name, indices), shape, row.component, kind, tied_to, trainable, persistent, axes
        )


def _shared_with(row: Row, indices: tuple[int, ...]) -> str | None:
    """The first copy of a tensor that several layers share; `None` for that first copy."""
    first = tuple(
        indices_of(row, frame)[0] if frame.shared else index
        for frame, index in zip(row.frames, indices, strict=True)
    )
    return None if first == indices else name_at(row.name, first)
