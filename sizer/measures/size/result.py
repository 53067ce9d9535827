"""The answer: the size of a checkpoint, and the tensors it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sizer.core.record import Record
from sizer.measures.size.stored import Piece

if TYPE_CHECKING:
    from sizer.measures.size import gguf
    from sizer.measures.size.safetensors import File


class Stored(Record):
    """A tensor that will be stored."""

    __slots__ = ("bytes", "component", "dtype", "name", "part", "shape")

    def __init__(
        self, name: str, shape: tuple[int, ...], dtype: str, bytes: int, part: str, component: str
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.bytes = bytes
        self.part = part
        self.component = component


class Size(Record):
    """Bytes of a checkpoint.

    `bytes`: of all its files. `parts`: of the tensors by what they are for, of `PARTS`. `header_bytes`:
    of what stands before the data. `index_bytes`: of the index beside shards. `padding_bytes`: between
    tensors. `metadata_bytes`: keys and values of GGUF. `params`: logical parameters, each once.
    `label`: "exact" or "estimate". `shares`: bytes by component and by type.
    """

    __slots__ = (
        "_tensors",
        "assumptions",
        "bytes",
        "container",
        "data_bytes",
        "files",
        "header_bytes",
        "index_bytes",
        "label",
        "metadata_bytes",
        "padding_bytes",
        "params",
        "parts",
        "quant",
        "shares",
        "sources",
        "warnings",
    )

    def __init__(
        self,
        quant: str,
        container: str,
        params: int,
        parts: dict[str, int],
        shares: dict[tuple[str, str, str], tuple[int, int]],
        files: Sequence[File],
        index_bytes: int,
        padding_bytes: int,
        metadata_bytes: int,
        label: str,
        assumptions: Sequence[str],
        sources: Sequence[str],
        warnings: Sequence[str],
        tensors: Sequence[Piece] | Sequence[gguf.Tensor],
    ) -> None:
        self.quant = quant
        self.container = container
        self.params = params
        self.parts = parts
        # (component, part, dtype) -> tensors, bytes
        self.shares = shares
        self.files = files
        self.header_bytes = sum(file.header_bytes for file in files) - metadata_bytes
        self.data_bytes = sum(parts.values())
        self.index_bytes = index_bytes
        self.padding_bytes = padding_bytes
        self.metadata_bytes = metadata_bytes
        self.bytes = sum(file.bytes for file in files) + index_bytes
        self.label = label
        self.assumptions = assumptions
        self.sources = sources
        self.warnings = warnings
        self._tensors = tensors

    @property
    def bits_per_weight(self) -> float:
        """Bits of all files for each logical parameter."""
        return self.bytes * 8 / self.params

    def tensors(self) -> Iterator[Stored]:
        """Every tensor by name, written out when asked for."""
        for one in self._tensors:
            if isinstance(one, Piece):
                for name in one.names():
                    yield Stored(name, one.shape, one.dtype, one.bytes, one.part, one.component)
            else:
                part = "buffers" if one.component == "buffers" else "weights"
                yield Stored(one.name, one.shape, one.dtype, one.bytes, part, one.component)
