"""What a reader finds in a checkpoint: tensors as they are stored, and what is missing or wrong."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sizer.core.record import Record
from sizer.errors import BadInput, clip
from sizer.sources.lfs import not_downloaded

if TYPE_CHECKING:
    from sizer.sources.checkpoints.columns import Columns
    from sizer.sources.checkpoints.onnx_nodes import Packing

# The largest layouts published have some 210,000 tensors (a trillion weights in packed 4-bit experts).
MAX_TENSORS = 300_000
# The largest number of elements, as of every offset in the formats: a signed 64-bit integer.
MAX_ELEMENTS = 2**63 - 1


def check_number(tensors: int, where: str) -> None:
    """Refuse a checkpoint of more tensors than any has; each of them takes time."""
    if tensors > MAX_TENSORS:
        raise BadInput(f"{clip(where)} holds over {MAX_TENSORS:,} tensors, more than sizer reads")


class StoredTensor(Record):
    """A tensor as a file stores it.

    `elements` are those that are stored, `bytes` what they take, `offset` where they begin in `file`.
    `tied_to` names the tensor whose storage it shares.
    """

    __slots__ = ("bytes", "dtype", "elements", "file", "name", "offset", "shape", "tied_to")

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        elements: int,
        bytes: int,
        file: str,
        offset: int | None = None,
        tied_to: str | None = None,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.elements = elements
        self.bytes = bytes
        self.file = file
        self.offset = offset
        self.tied_to = tied_to


class Missing(Record):
    """A file that belongs to a checkpoint and is not here; `tensors` and `bytes` where they are known."""

    __slots__ = ("bytes", "file", "tensors")

    def __init__(self, file: str, tensors: int | None = None, bytes: int | None = None) -> None:
        self.file = file
        self.tensors = tensors
        self.bytes = bytes


class Contents:
    """The contents of a checkpoint, as its reader found them.

    `stored` are the tensors that could be read, `missing` the files that are not here, `problems`
    what is cut off or contradicts; with either, a count is of what is known so far. `remarks` are
    worth knowing and change no number. `stated` are figures that the files claim about themselves.
    """

    def __init__(
        self,
        path: str,
        format: str,
        stored: Iterable[StoredTensor] = (),
        *,
        metadata: Mapping[str, Any] | None = None,
        missing: Iterable[Missing] = (),
        problems: Iterable[str] = (),
        remarks: Iterable[str] = (),
        stated: Mapping[str, int] | None = None,
        files: Iterable[str] = (),
    ) -> None:
        self.path = path
        self.format = format
        # Readers with many tensors leave them in columns; objects are made of them when asked for.
        self.columns: list[Columns] = []
        self._stored = list(stored)
        self.metadata = dict(metadata or {})
        self.missing = list(missing)
        self.problems = list(problems)
        self.remarks = list(remarks)
        self.stated = dict(stated or {})
        self.files = list(files) or [path]
        # Whether its index and its files agree; nothing is known where there is no index.
        self.is_as_listed = False
        # Tensors that a pickle makes of others: name -> the class and the shape.
        self.made_of_tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
        # Nodes of an ONNX graph that say how initializers are packed.
        self.packed_by: list[Packing] = []

    @property
    def stored(self) -> list[StoredTensor]:
        """The tensors, an object for each."""
        if self.columns:
            self._stored = [tensor for columns in self.columns for tensor in columns.tensors()]
            self.columns = []
        return self._stored

    @stored.setter
    def stored(self, tensors: list[StoredTensor]) -> None:
        self.columns, self._stored = [], tensors

    def __len__(self) -> int:
        return sum(map(len, self.columns)) or len(self._stored)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path} ({self.format}), {len(self)} tensors>"

    def names(self) -> list[bytes]:
        """The names of all tensors, in UTF-8."""
        if self.columns:
            return [name for columns in self.columns for name in columns.names]
        return [tensor.name.encode(errors="surrogatepass") for tensor in self._stored]

    def add(self, part: Contents) -> None:
        """Append the tensors of another file."""
        if not len(part):
            return
        if part.columns and not self._stored:
            self.columns += part.columns
        else:
            self.stored += part.stored

    @property
    def bytes(self) -> int:
        """What all tensors take."""
        return sum(columns.bytes for columns in self.columns) + sum(t.bytes for t in self._stored)

    def nothing_here(self) -> str:
        """What is known of a checkpoint of which no file is here."""
        first = self.missing[0]
        if self.format == "git lfs pointer":
            inside = "" if self.path.endswith(first.file) else first.file
            return not_downloaded(os.path.join(self.path, inside) if inside else self.path, first.bytes or 0)
        known = [f"{n.tensors:,} tensors" for n in self.missing[:1] if n.tensors and len(self.missing) == 1]
        total = self.stated.get("total_size") or sum(m.bytes or 0 for m in self.missing)
        if total:
            known.append(f"{total:,} bytes")
        more = f" and {len(self.missing) - 1:,} more" if len(self.missing) > 1 else ""
        said = f", of {' and '.join(known)}" if known else ""
        return f"{clip(self.path)}: no weights are here; missing: {clip(first.file)}{more}{said}"


def elements_of(shape: Iterable[int], what: str) -> int:
    """The elements of a shape from outside; its product must fit 63 bits.

    >>> elements_of((2, 3), "w")
    6
    """
    product = 1
    for size in shape:
        if size < 0:
            raise BadInput(f"{what}: the shape has {clip(size)}, and no size is negative")
        product *= size
        if product > MAX_ELEMENTS:
            raise BadInput(f"{what}: the shape has over 2^63 elements, more than any file holds")
    return product
