"""How many parameters a model has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sizer.core.dims import Dim, is_array
from sizer.core.poly import as_poly
from sizer.core.record import Record
from sizer.core.tree import Buffer, Param
from sizer.core.walk import Row, numel

# The order in which components are shown.
COMPONENTS = (
    "embedding",
    "position",
    "attention",
    "mlp",
    "router",
    "experts",
    "mixer",
    "norm",
    "head",
    "other",
)
# What "non-embedding" leaves out: the tables that are looked up. A head of its own stays in.
EMBEDDINGS = ("embedding", "position")


# Below 2⁶³ by more than the rounding of a sum in floating point.
INT64_SAFE = 9.2e18


class Count(Record):
    """Parameters of a model, each tied tensor once.

    `total`: all of them. `active`: those that one token visits, embeddings included.
    `embedding`: token, type and learned position embeddings; `non_embedding`: the rest.
    `tied`: elements of tensors that share the storage of another, not in `total`.
    `buffers`: elements that a checkpoint stores and nobody learns, not in `total`.
    `components`: parameters by component.
    """

    __slots__ = (
        "active",
        "buffers",
        "components",
        "embedding",
        "non_embedding",
        "tied",
        "total",
        "trainable",
    )

    def __init__(
        self,
        total: Dim,
        active: Dim,
        embedding: Dim,
        non_embedding: Dim,
        trainable: Dim,
        tied: Dim,
        buffers: Dim,
        components: dict[str, Dim],
    ) -> None:
        self.total = total
        self.active = active
        self.embedding = embedding
        self.non_embedding = non_embedding
        self.trainable = trainable
        self.tied = tied
        self.buffers = buffers
        self.components = components

    def _repr_html_(self) -> str:
        from sizer import units
        from sizer.core.html import table

        def row(name: str, params: Dim) -> tuple[str, str, str]:
            if is_array(params) or is_array(self.total):
                return (name, str(params), "")
            return (name, f"{params:,}", units.share(params, self.total))

        sums = [(n, getattr(self, n)) for n in ("total", "active", "non_embedding", "tied", "buffers")]
        rows = [row(name, params) for name, params in self.components.items()]
        below = [f"{name.replace('_', '-')}  {row(name, params)[1]}" for name, params in sums]
        return table(("component", "params", "share"), rows, numbers=(1, 2), below=below)


def count(rows: Iterable[Row]) -> Count:
    """Sum the rows of a tree.

    >>> import sizer
    >>> count(sizer.load("gpt2-small").rows()).total
    124439808
    """
    total: Dim = 0
    active: Dim = 0
    frozen: Dim = 0
    tied: Dim = 0
    buffers: Dim = 0
    components: dict[str, Dim] = {}
    for row in rows:
        leaf = row.leaf
        if isinstance(leaf, Param):
            elements = numel(leaf.axes)
            if leaf.tied_to is not None:
                tied = tied + elements * row.copies
                continue
            params = elements * row.copies
            total = total + params
            active = active + (elements if leaf.active is None else leaf.active) * row.active
            components[row.component] = components.get(row.component, 0) + params
            if not leaf.trainable:
                frozen = frozen + params
        elif isinstance(leaf, Buffer) and leaf.persistent and leaf.tied_to is None:
            buffers = buffers + row.numel * row.copies
    embedding = sum((components.get(name, 0) for name in EMBEDDINGS), start=0)
    return Count(
        total,
        active,
        embedding,
        total - embedding,
        total - frozen,
        tied,
        buffers,
        {name: components[name] for name in COMPONENTS if name in components},
    )


def beyond_int64(letters: Iterable[Row], values: Mapping[str, Any]) -> bool:
    """Whether a sum over the rows of a symbolic tree passes 64 bits, somewhere in a sweep.

    `values`: a number or an array for each letter; arrays of Python's integers never wrap.
    """
    if any(is_array(value) and value.dtype == object for value in values.values()):
        return False
    floats = {
        code: value.astype(float) if is_array(value) else float(value) for code, value in values.items()
    }
    found = count(letters)
    sums = (found.total, found.tied, found.buffers)
    return any(as_poly(total).approximate(floats) >= INT64_SAFE for total in sums)
