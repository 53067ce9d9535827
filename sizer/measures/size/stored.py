"""The tensors that a checkpoint will store, repeats kept as counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as cartesian
from math import prod
from typing import NamedTuple

from sizer.core.record import Record
from sizer.core.walk import name_at

# What a stored tensor is for, in the order they are shown.
PARTS = ("weights", "buffers", "scales", "zeros", "indices", "absmax", "codebooks", "state")

# Bits of an element, of the types that formats write; block types of ggml have their own table.
BITS = {
    **dict.fromkeys(("int64",), 64),
    **dict.fromkeys(("fp32", "int32", "uint32"), 32),
    **dict.fromkeys(("bf16", "fp16"), 16),
    **dict.fromkeys(("fp8_e4m3", "int8", "uint8"), 8),
}


class Part(NamedTuple):
    """A tensor that a format stores for one matrix: the end of its name, and what it is."""

    ending: str
    shape: tuple[int, ...]
    dtype: str
    part: str


class Piece(Record):
    """Stored tensors of one name with its indices left open.

    `frames`: the indices of each `{}` of the name. `bytes`: of one copy. `component`: of the model.
    `part`: one of `PARTS`. `row`: the name of the model's tensor that it is stored for.
    """

    __slots__ = ("bytes", "component", "dtype", "frames", "name", "part", "row", "shape")

    def __init__(
        self,
        name: str,
        frames: tuple[Sequence[int], ...],
        shape: tuple[int, ...],
        dtype: str,
        bytes: int,
        part: str,
        component: str,
        row: str,
    ) -> None:
        self.name = name
        self.frames = frames
        self.shape = shape
        self.dtype = dtype
        self.bytes = bytes
        self.part = part
        self.component = component
        self.row = row

    @property
    def copies(self) -> int:
        """How many tensors it stands for."""
        return prod(map(len, self.frames))

    def names(self) -> Iterator[str]:
        """The full name of each."""
        return (name_at(self.name, indices) for indices in cartesian(*self.frames))


def bytes_of(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of a tensor.

    >>> bytes_of((3, 5), "bf16")
    30
    """
    return prod(shape) * BITS[dtype] // 8
