"""FLOPs of a step that trains low-rank adapters alone (LoRA, arXiv:2106.09685)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.tree import Op, Param
from sizer.core.walk import Row
from sizer.errors import InvalidConfig
from sizer.measures.lora import LoRA, adapters

if TYPE_CHECKING:
    from sizer.measures.flops import Flops
    from sizer.measures.products import Part

NOTE = (
    "LoRA: a frozen matrix has no gradient of its own, and in the first block nothing before the adapters "
    "needs one"
)


def with_lora(found: Flops, lora: LoRA) -> Flops:
    """The same step with every weight frozen but the adapters.

    An adapter is two matrices beside a frozen one, `[rank, in]` and `[out, rank]`.
    """
    if lora.dora:
        raise InvalidConfig("lora: FLOPs of the magnitudes of DoRA are not counted; leave dora out")
    adapters([part.row for part in found.parts], lora)  # names what is not there
    parts: list[Part] = []
    firsts: dict[str, First] = {}
    for part in found.parts:
        block = part.row.name.partition("{}")[0]
        first = firsts.setdefault(block, First()) if _in_first_layer(part.row) else None
        if part.kind == "attention":
            parts.append(part if first is None else _attention(part, first.trained))
            continue
        if not isinstance(part.row.leaf, Param):
            parts.append(part)
            continue
        layers = part.row.frames[0].count if part.row.frames else 1
        targeted = _is_linear(part.row) and lora.adapts(part.row.name.removesuffix(".weight"), part.row.leaf)
        # The gradient of what goes in; in the first block only behind something that is trained.
        spared = first is not None and not first.passes(part.row, targeted=targeted)
        parts.append(part._replace(backward=part.forward - (part.forward // layers if spared else 0)))
        if targeted:
            parts.append(_adapter(part, lora.rank, first=spared, layers=layers))
    forward = sum(part.forward for part in parts)
    backward = sum(part.backward for part in parts)
    return type(found)(forward, backward, 0, parts, found.tokens, [*found.assumptions, NOTE])


class First:
    """The first block on its way forward: whether anything trained is before a matrix.

    `stream`: in the residual stream; `inner`: in what a matrix has read from it and none has given back.
    `trained`: of queries, keys and values, those with an adapter.
    """

    def __init__(self) -> None:
        self.stream = self.inner = False
        self.trained: set[str] = set()
        self.shapes: set[tuple[str, ...]] = set()

    def passes(self, row: Row, *, targeted: bool) -> bool:
        """Whether what goes into a matrix needs a gradient; then on to the next."""
        leaf: Param = row.leaf  # type: ignore[assignment]
        shape = tuple(axis.name for axis in leaf.axes)
        if shape[::-1] in self.shapes:
            # The one that gives back what others have read, in their shape turned around.
            needed, self.shapes = self.inner, set()
            self.stream = self.stream or self.inner or targeted
            self.inner = False
            return needed
        self.shapes.add(shape)
        self.inner = self.inner or self.stream or targeted
        if self.stream:
            self.trained |= {"q", "k", "v"}
        elif targeted:
            self.trained |= _letters(row)
        return self.stream


def _adapter(part: Part, rank: Dim, *, first: bool, layers: int) -> Part:
    leaf: Param = part.row.leaf  # type: ignore[assignment]
    into, out = leaf.axes[-1].size, leaf.axes[0].size
    each = part.forward // (into * out) * rank
    forward = each * (into + out)
    # What reads the residual stream reads its width, in whatever order the weight is stored.
    read = next((axis.size for axis in leaf.axes if axis.name == "embed"), into)
    spared = each * read // layers if first else 0
    return part._replace(kind="adapter", forward=forward, backward=2 * forward - spared)


def _attention(part: Part, trained: set[str]) -> Part:
    """Attention in the first block skips the gradients of what nothing trained is in."""
    if trained >= {"q", "k", "v"}:
        return part
    leaf: Op = part.row.leaf  # type: ignore[assignment]
    layers = part.row.frames[0].count
    d_qk, d_v = int(leaf.sizes["d_qk"] or 0), int(leaf.sizes["d_v"] or 0)
    one = part.forward // layers // (d_qk + d_v)
    recomputes = part.backward > 2 * part.forward
    if not trained:
        spared = part.backward // layers
    elif recomputes:
        spared = 0
    else:
        spared = one * d_qk * (2 - len(trained & {"q", "k"}))
        spared += 0 if "v" in trained else one * d_v
        spared += 0 if trained & {"q", "k"} else one * d_v
    return part._replace(backward=part.backward - spared)


def _is_linear(row: Row) -> bool:
    leaf = row.leaf
    return isinstance(leaf, Param) and leaf.use == "matmul" and len(leaf.axes) == 2 and leaf.active is None


def _module(row: Row) -> str:
    return row.name.rpartition(".")[0].rpartition(".")[2]


def _letters(row: Row) -> set[str]:
    """Of queries, keys and values, what a matrix before attention makes."""
    first = _module(row)[:1]
    return {first} if first in ("q", "k", "v") else {"q", "k", "v"}


def _in_first_layer(row: Row) -> bool:
    return bool(row.frames and row.frames[0].indices and 0 in row.frames[0].indices)
