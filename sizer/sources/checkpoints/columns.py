"""The tensors of a file column by column, without an object for each.

Checkpoints have up to some hundred thousand tensors of some dozen kinds. What only adds up, the
count, looks at each kind once.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from operator import attrgetter
from typing import Any

from sizer.errors import BadInput, clip
from sizer.sources.checkpoints.stored import StoredTensor

# Tensors that are not alike, and what their names take. A model has some hundreds, in each of its files.
MAX_GROUPS = 200_000
MAX_GROUP_NAMES = 20_000_000
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MIXED = re.compile(rb"[^.0]0|0[^.0]")
_STEP = re.compile(rb"[^.]+")


class Kind:
    """What tensors of one dtype and shape have in common."""

    __slots__ = ("bytes", "dtype", "elements", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: str, elements: int, bytes: int) -> None:
        self.shape = shape
        self.dtype = dtype
        self.elements = elements
        self.bytes = bytes

    def tensor(self, name: str, file: str, offset: int | None = None) -> StoredTensor:
        """One of them."""
        return StoredTensor(name, self.shape, self.dtype, self.elements, self.bytes, file, offset)


class Columns:
    """The tensors of a file, or of a part of one: names, a line each; their kinds; their places.

    They follow each other from byte `start` of the file, unless `begins` says where each begins.
    """

    __slots__ = ("_groups", "begins", "bytes", "file", "group_names", "kinds", "lines", "start")

    def __init__(
        self,
        file: str,
        lines: bytes,
        kinds: list[Kind],
        start: int,
        begins: array[int] | None = None,
    ) -> None:
        self.file = file
        self.lines = lines
        self.kinds = kinds
        self.bytes = sum(self.sizes)
        self.start = start
        self.begins = begins
        self._groups: list[tuple[StoredTensor, int]] | None = None
        self.group_names = 0

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def names(self) -> list[bytes]:
        """The name of each."""
        return self.lines.split(b"\n")

    @property
    def sizes(self) -> list[int]:
        """The bytes that each takes."""
        return list(map(attrgetter("bytes"), self.kinds))

    def places(self) -> Iterator[tuple[int, int]]:
        """Where each begins, and its bytes."""
        sizes = self.sizes
        begins = self.begins or accumulate(sizes[:-1], initial=self.start)
        return zip(begins, sizes, strict=True)

    @property
    def groups(self) -> list[tuple[StoredTensor, int]]:
        """One of the tensors of each kind whose names differ only in numbers between dots, and how many.

        Its name has zeros for the digits of steps that are numbers.
        """
        if self._groups is None:
            found = Counter(zip(patterns(self.lines), self.kinds, strict=True))
            self._groups = [(kind.tensor(name.decode(), self.file), n) for (name, kind), n in found.items()]
            self.group_names = sum(len(name) for name, _ in found)
        return self._groups

    def tensors(self) -> list[StoredTensor]:
        """An object for each."""
        fields: Any = (map(attrgetter(name), self.kinds) for name in ("shape", "dtype", "elements", "bytes"))
        begins = (begin for begin, _ in self.places())
        names = self.lines.decode().split("\n")
        return list(map(StoredTensor, names, *fields, [self.file] * len(self), begins))


def check_groups(columns: list[Columns], where: str) -> None:
    """Refuse what nobody could fold: each tensor that is like no other takes an object, and time."""
    # Too few, or too short, to pass the bounds.
    if sum(map(len, columns)) <= MAX_GROUPS and sum(len(one.lines) for one in columns) <= MAX_GROUP_NAMES:
        return
    groups = names = 0
    for one in columns:
        groups += len(one.groups)
        names += one.group_names
        if groups > MAX_GROUPS or names > MAX_GROUP_NAMES:
            raise BadInput(
                f"{clip(where)} holds over {MAX_GROUPS:,} tensors, or {MAX_GROUP_NAMES:,} bytes of names, "
                "that differ in more than the numbers of layers and experts, more than sizer reads"
            )


def patterns(lines: bytes) -> list[bytes]:
    """Names with zeros for the digits of steps that are numbers; other digits stay.

    >>> patterns(b"h.11.attn.weight\\nh.3.mlp.w2")
    [b'h.00.attn.weight', b'h.0.mlp.w2']
    """
    zeroed = lines.translate(_ZEROS).split(b"\n")
    mixed = {name: _mixed(name) for name in dict.fromkeys(zeroed) if _MIXED.search(name)}
    if mixed:
        for i, own in enumerate(lines.split(b"\n")):
            for begin, end in mixed.get(zeroed[i], ()):
                zeroed[i] = zeroed[i][:begin] + own[begin:end] + zeroed[i][end:]
    return zeroed


def _mixed(zeroed: bytes) -> list[tuple[int, int]]:
    """Where the steps are that have digits and are no numbers."""
    return [step.span() for step in _STEP.finditer(zeroed) if b"0" in step[0] and step[0].strip(b"0")]
