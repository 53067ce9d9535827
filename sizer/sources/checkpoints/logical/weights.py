"""The weights that stored tensors stand for, and the helpers of quantization."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from sizer.core.record import Record
from sizer.errors import clip
from sizer.sources.checkpoints.logical.alike import OwnValues, sample
from sizer.sources.checkpoints.logical.carriers import are_plain, carriers_of
from sizer.sources.checkpoints.logical.settings import Settings, settings_of
from sizer.sources.checkpoints.stored import Contents, StoredTensor

if TYPE_CHECKING:
    from sizer.sources.checkpoints.columns import Columns

# Components of what is stored beside the weights, in the order they are shown.
HELPERS = (
    "scales",
    "zero points",
    "group indices",
    "codebooks",
    "quant state",
    "added biases",
    "optimizer",
    "averages",
    "constants",
    "training state",
    "unknown",
)


class Weight(Record):
    """A logical weight: what the tensor `stored` stands for, of `params` elements.

    `kind` is "param" or "buffer"; `scheme` how it is packed, empty where it is stored as it is.
    """

    __slots__ = ("component", "dtype", "kind", "name", "params", "scheme", "shape", "stored", "tied_to")

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        params: int,
        dtype: str,
        scheme: str,
        stored: StoredTensor,
        kind: str = "param",
        component: str = "",
        tied_to: str | None = None,
    ) -> None:
        self.name = name
        self.shape = shape
        self.params = params
        self.dtype = dtype
        self.scheme = scheme
        self.stored = stored
        self.kind = kind
        self.component = component
        self.tied_to = tied_to


class Helper(Record):
    """A stored tensor that is no weight: a scale, a zero point, an index."""

    __slots__ = ("component", "stored")

    def __init__(self, stored: StoredTensor, component: str) -> None:
        self.stored = stored
        self.component = component


class Logical:
    """The weights and the helpers of a checkpoint, and what remains unclear.

    Tensors that are stored as they are need no object of their own to be counted: `plain` holds them,
    `packed` the weights that stand for other tensors, and `weights` all, made when asked for. Where all
    are plain, `columns` holds them for a count.
    """

    def __init__(self, contents: Contents) -> None:
        self.is_gguf = contents.format == "gguf"
        self.columns: list[Columns] = []
        # Where one module stands for several: how many, by its name.
        self.copies: dict[str, int] = getattr(contents, "copies", {})
        self._contents = contents
        self._plain: list[StoredTensor] | None = None
        self.packed: list[Weight] = []
        self.helpers: list[Helper] = []
        self.problems: list[str] = []
        self.remarks: list[str] = []

    @property
    def plain(self) -> list[StoredTensor]:
        """The tensors that are stored as they are: all of them, unless it was said which."""
        return self._contents.stored if self._plain is None else self._plain

    @plain.setter
    def plain(self, tensors: list[StoredTensor]) -> None:
        self._plain = tensors

    def number(self, name: str) -> int:
        """How many tensors the one of that name stands for."""
        return self.copies.get(name.rpartition(".")[0], 1) if self.copies else 1

    def plain_groups(self) -> Iterator[tuple[StoredTensor, int]]:
        """Those stored as they are, with how many each stands for."""
        if not self.columns:
            yield from ((tensor, self.number(tensor.name)) for tensor in self.plain)
        for columns in self.columns:
            yield from columns.groups

    @cached_property
    def weights(self) -> list[Weight]:
        """All weights, those stored as they are first."""
        from sizer.sources.checkpoints.logical.names import classify

        found = []
        for t in self.plain:
            component, kind = classify(t.name, t, self.is_gguf)
            found.append(Weight(t.name, t.shape, t.elements, t.dtype, "", t, kind, component, t.tied_to))
        return found + self.packed


class Tensors:
    """The stored tensors by name, with the settings of quantization; schemes claim from it."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        # The last steps of all names: which helpers there are at all.
        self.endings: set[str] = set()
        self.claimed: dict[str, str] = {}
        # The weights that stored tensors stand for.
        self.taken: dict[str, Weight] = {}
        # What lies beside tensors of one last step, as `blocks.py` has found.
        self.beside: dict[str, list[tuple[str, str]]] = {}
        self.out = Logical(contents)
        self._settings: Settings | None = None
        self._said: dict[tuple[bool, str], tuple[str, int]] = {}

    @cached_property
    def by_name(self) -> dict[str, StoredTensor]:
        """All stored tensors by name."""
        return {tensor.name: tensor for tensor in self.contents.stored}

    @property
    def settings(self) -> Settings:
        """What the configurations beside the files say of quantization."""
        if self._settings is None:
            self._settings = settings_of(self.contents)
            self.out.remarks += self._settings.remarks
        return self._settings

    def get(self, name: str) -> StoredTensor | None:
        """The stored tensor of that name, if there is one."""
        return self.by_name.get(name)

    def claim(self, component: str, names: Iterable[str]) -> None:
        """Say that tensors, those of them that exist, are helpers."""
        for name in names:
            if name in self.by_name:
                self.claimed[name] = component

    def weight(
        self, name: str, shape: tuple[int, ...], params: int, scheme: str, tensor: StoredTensor
    ) -> None:
        """Say that a stored tensor stands for a weight."""
        self.taken[tensor.name] = Weight(name, shape, params, tensor.dtype, scheme, tensor)

    def problem(self, what: str, name: str) -> None:
        """Say what is unclear of a tensor; the same of many is said once, with their number."""
        first, count = self._said.get((True, what), (name, 0))
        self._said[True, what] = (first, count + self.out.number(name))

    def remark(self, what: str, name: str) -> None:
        """Say what is worth knowing of a tensor, in the same way."""
        first, count = self._said.get((False, what), (name, 0))
        self._said[False, what] = (first, count + self.out.number(name))

    def alone(self) -> None:
        """Say that what a scheme asks for next is of one tensor, for which no other may stand."""
        if self.out.copies:
            raise OwnValues

    def unknown(self, tensor: StoredTensor, why: str) -> None:
        """A tensor whose weights are unknown: kept apart, not counted."""
        self.claimed[tensor.name] = "unknown"
        self.problem(why, tensor.name)

    def finish(self) -> Logical:
        """All that was found."""
        for (is_problem, what), (name, count) in self._said.items():
            more = f" and {count - 1:,} more" if count > 1 else ""
            lines = self.out.problems if is_problem else self.out.remarks
            lines.append(f"{clip(name)}{more}: {what}")
        return self.out


Scheme = Callable[[Tensors, StoredTensor], bool]


def summary(contents: Contents) -> Logical:
    """The same as `logical`, where it can be with one module for all that are like it."""
    from sizer.sources.checkpoints.logical.schemes import PLAIN_DTYPES

    if contents.columns and not are_plain(contents.columns, PLAIN_DTYPES):
        modules = sample(contents)
        if modules is not None:
            try:
                return logical(modules)
            except OwnValues:
                pass
    return logical(contents)


def logical(contents: Contents) -> Logical:
    """The weights that the tensors of a checkpoint stand for.

    A stored tensor ends as a weight, as a part of one, or as a helper; none is dropped.
    """
    from sizer.sources.checkpoints.logical.names import classify
    from sizer.sources.checkpoints.logical.schemes import PLAIN_DTYPES, by_ending, of_dtype

    tensors = Tensors(contents)
    if contents.format == "gguf":
        # A type of ggml says itself how it is packed.
        return tensors.out
    if contents.columns and are_plain(contents.columns, PLAIN_DTYPES):
        tensors.out.columns = contents.columns
        return tensors.out
    if contents.made_of_tensors:
        from sizer.sources.checkpoints.logical.codes import made_of_tensors

        made_of_tensors(tensors)
    if contents.format == "onnx":
        from sizer.sources.checkpoints.logical.onnx import initializers

        initializers(tensors)
        left: list[StoredTensor] = []
    else:
        carriers = carriers_of(tensors, PLAIN_DTYPES)
        left = [tensor for tensor in carriers if not by_ending(tensors, tensor)]
    claimed, taken, out = tensors.claimed, tensors.taken, tensors.out
    for tensor in left:
        name = tensor.name
        if name in claimed or name in taken or tensor.dtype in PLAIN_DTYPES:
            continue
        # Masks and indices are small integers that need no scheme.
        if classify(name, tensor)[1] == "param":
            of_dtype(tensors, tensor)
    if not taken and not claimed:
        return tensors.finish()
    out.plain = []
    for tensor in contents.stored:
        name = tensor.name
        if name in taken:
            weight = taken[name]
            weight.component, weight.kind = classify(weight.name, tensor)
            out.packed.append(weight)
        elif name in claimed:
            out.helpers.append(Helper(tensor, claimed[name]))
        else:
            out.plain.append(tensor)
    return tensors.finish()
