"""LoRA: two narrow matrices beside each matrix that is adapted (Hu et al. 2021, arXiv:2106.09685)."""

from __future__ import annotations

from collections.abc import Iterable

from sizer.core.dims import Dim
from sizer.core.layers import MATRICES
from sizer.core.record import Record
from sizer.core.tree import Param
from sizer.core.walk import Frame, Row
from sizer.errors import InvalidConfig, UnknownName


class LoRA(Record):
    """The rank of the adapters and the modules that have one, by the last part of their names.

    PEFT's rule: a module is adapted if its name is a target or ends in `.` and a target; with
    `all-linear`, every linear module but the output embeddings and a classifier is. `dora` adds a
    magnitude for each output.
    """

    __slots__ = ("bias", "dora", "rank", "targets")

    def __init__(
        self, rank: Dim, targets: tuple[str, ...], *, dora: bool = False, bias: str = "none"
    ) -> None:
        self.rank = rank
        self.targets = targets
        self.dora = dora
        self.bias = bias

    def adapts(self, name: str, matrix: Param) -> bool:
        """Whether the module of that name and matrix has an adapter."""
        if self.targets == ("all-linear",):
            return name not in ("score", "classifier") and not _is_vocabulary(matrix)
        return any(name == target or name.endswith(f".{target}") for target in self.targets)


def parse(text: str) -> LoRA:
    """`r=8,target=q_proj+v_proj` as a LoRA; `dora` may stand among the parts.

    >>> parse("r=8,target=q_proj+v_proj").targets
    ('q_proj', 'v_proj')
    """
    rank: int | None = None
    targets: tuple[str, ...] = ()
    dora = False
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        if key in ("r", "rank"):
            if not value.isdecimal() or len(value) > 18 or int(value) == 0:
                raise InvalidConfig(f"--lora: r = {value!r} is not a positive whole number")
            rank = int(value)
        elif key in ("target", "targets", "target_modules"):
            targets = tuple(name for name in value.split("+") if name)
        elif key == "dora":
            dora = value.lower() not in ("false", "0", "no")
        else:
            raise UnknownName("part of --lora", key, ("r", "target", "dora"), hint="r=8,target=q_proj+v_proj")
    if rank is None or not targets:
        raise InvalidConfig(f"--lora {text}: give a rank and targets, such as r=8,target=q_proj+v_proj")
    return LoRA(rank, targets, dora=dora)


class Adapter(Record):
    """The adapters of one row: the module's name, how many there are, and their parameters each."""

    __slots__ = ("copies", "frames", "name", "params", "sizes")

    def __init__(
        self, name: str, copies: Dim, params: Dim, sizes: tuple[Dim, ...], frames: tuple[Frame, ...] = ()
    ) -> None:
        self.name = name
        self.copies = copies
        self.frames = frames
        self.params = params
        # Elements of A, of B, and of the magnitudes.
        self.sizes = sizes


def adapters(rows: Iterable[Row], lora: LoRA) -> list[Adapter]:
    """The adapters that a model gets: `A [r, in]` and `B [out, r]` beside each matrix.

    A head of one's own counts; a table of embeddings that is named gets its own pair, as in PEFT.

    >>> import sizer
    >>> rows = sizer.load("llama-7b").rows("transformers")
    >>> sum(a.params * a.copies for a in adapters(rows, LoRA(8, ("q_proj", "v_proj"))))
    4194304
    """
    found: list[Adapter] = []
    names: list[str] = []
    for row in rows:
        leaf = row.leaf
        if not isinstance(leaf, Param) or leaf.name != "weight" or row.kind not in (*MATRICES, "embedding"):
            continue
        name = row.name.removesuffix(".weight")
        last = name.rsplit(".", 1)[-1]
        if last not in names:
            names.append(last)
        if not lora.adapts(name, leaf):
            continue
        out, into = (axis.size for axis in (leaf.axes[::-1] if row.kind == "conv1d" else leaf.axes))
        sizes: tuple[Dim, ...] = (lora.rank * into, lora.rank * out)
        if lora.dora:
            sizes = (*sizes, into if row.kind == "embedding" else out)
        found.append(Adapter(name, row.copies, sum(sizes, start=0), sizes, row.frames))
    for target in lora.targets:
        if target != "all-linear" and not any(
            a.name == target or a.name.endswith(f".{target}") for a in found
        ):
            raise UnknownName("module to adapt", target, names, hint=f"linear modules are {', '.join(names)}")
    return found


def _is_vocabulary(matrix: Param) -> bool:
    """Whether a matrix is an embedding or the output embeddings: one side of it is the vocabulary."""
    return matrix.use == "lookup" or any(axis.name == "vocab" for axis in matrix.axes)


def trainable(rows: Iterable[Row], lora: LoRA) -> Dim:
    """Parameters of all adapters."""
    return sum((adapter.params * adapter.copies for adapter in adapters(rows, lora)), start=0)
