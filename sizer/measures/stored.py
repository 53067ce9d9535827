"""What a checkpoint holds: its logical parameters, and what is stored for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sizer.core.record import Record
from sizer.measures.count import COMPONENTS, EMBEDDINGS
from sizer.measures.tensors import Tensor
from sizer.sources.checkpoints.logical.names import classify
from sizer.sources.checkpoints.logical.weights import HELPERS, Logical, Weight
from sizer.sources.checkpoints.stored import StoredTensor


class Share(Record):
    """What one dtype, or one component, takes: tensors, stored elements, bytes; `params` of weights."""

    __slots__ = ("bytes", "elements", "name", "params", "tensors")

    def __init__(
        self, name: str, tensors: int = 0, elements: int = 0, bytes: int = 0, params: int = 0
    ) -> None:
        self.name = name
        self.tensors = tensors
        self.elements = elements
        self.bytes = bytes
        self.params = params


class StoredCount(Record):
    """Parameters of a checkpoint, each once, with the names of `Count`; and what is stored.

    `total`: logical parameters. `active`: those that one token visits; `None` where the files do not
    say how many experts a token visits. `buffers`: stored and not learned, not in `total`.
    `tied`: elements of tensors that share the storage of another, not in `total`.
    `elements`, `bytes`: all that is stored, scales and buffers too. `dtypes`: the same by dtype.
    `components`: parameters by component; `helpers`: stored elements of what is no weight.
    `shares`: components and helpers with their tensors, elements, bytes.
    """

    __slots__ = (
        "active",
        "buffers",
        "bytes",
        "components",
        "dtypes",
        "elements",
        "embedding",
        "helpers",
        "non_embedding",
        "shares",
        "tensors",
        "tied",
        "total",
        "trainable",
    )

    def __init__(
        self,
        total: int,
        active: int | None,
        embedding: int,
        buffers: int,
        tied: int,
        tensors: int,
        dtypes: list[Share],
        shares: list[Share],
    ) -> None:
        self.total = total
        self.active = active
        self.embedding = embedding
        self.non_embedding = total - embedding
        self.trainable = total
        self.buffers = buffers
        self.tied = tied
        self.tensors = tensors
        self.elements = sum(share.elements for share in dtypes)
        self.bytes = sum(share.bytes for share in dtypes)
        self.dtypes = dtypes
        self.shares = shares
        self.components = {s.name: s.params for s in shares if s.params}
        self.helpers = {s.name: s.elements for s in shares if s.name in HELPERS}


def count(logical: Logical, visited: Callable[[], tuple[int, int] | None]) -> StoredCount:
    """Sum the weights and helpers of a checkpoint.

    `visited` answers how many routed experts a token visits, of how many, where a configuration says so.
    """
    # (component, dtype) -> tensors, elements, bytes, params
    sums: dict[tuple[str, str], list[int]] = {}
    total = buffers = tied = routed = 0

    def add(component: str, part: StoredTensor, params: int, copies: int = 1) -> None:
        # Bytes that two tensors share are stored once.
        once = copies if part.tied_to is None else 0
        found = sums.get((component, part.dtype))
        if found is None:
            found = sums[component, part.dtype] = [0, 0, 0, 0]
        found[0] += copies
        found[1] += part.elements * once
        found[2] += part.bytes * once
        found[3] += params

    is_gguf = logical.is_gguf
    tensors = 0
    for tensor, copies in logical.plain_groups():
        tensors += copies
        elements = tensor.elements * copies
        component, kind = classify(tensor.name, tensor, is_gguf)
        if tensor.tied_to is not None:
            tied += elements
            add(component, tensor, 0, copies)
        elif kind != "param":
            buffers += elements
            add("buffers", tensor, 0, copies)
        else:
            total += elements
            if component == "experts" and is_routed(tensor.name):
                routed += elements
            add(component, tensor, elements, copies)
    for weight in logical.packed:
        copies = logical.number(weight.stored.name)
        tensors += copies
        params = 0
        component = weight.component
        if weight.kind == "param":
            params = weight.params * copies
            total += params
            if component == "experts" and is_routed(weight.name):
                routed += params
        else:
            buffers += weight.params * copies
            component = "buffers"
        add(component, weight.stored, params, copies)
    for helper in logical.helpers:
        copies = logical.number(helper.stored.name)
        tensors += copies
        add(helper.component, helper.stored, 0, copies)
    shares = _summed(sums, 0)
    active: int | None = total
    if routed:
        experts = visited()
        known = experts is not None and routed % experts[1] == 0
        active = total - routed + routed // experts[1] * experts[0] if experts and known else None
    embedding = sum(shares[name].params for name in EMBEDDINGS if name in shares)
    order = [*COMPONENTS[:-1], "adapter", "other", "buffers", *HELPERS]
    return StoredCount(
        total,
        active,
        embedding,
        buffers,
        tied,
        tensors,
        sorted(_summed(sums, 1).values(), key=lambda share: -share.bytes),
        [shares[name] for name in order if name in shares],
    )


def _summed(sums: dict[tuple[str, str], list[int]], by: int) -> dict[str, Share]:
    found: dict[str, list[int]] = {}
    for key, values in sums.items():
        before = found.get(key[by], [0, 0, 0, 0])
        found[key[by]] = [a + b for a, b in zip(before, values, strict=True)]
    return {name: Share(name, *values) for name, values in found.items()}


def is_routed(name: str) -> bool:
    """Whether a weight of the experts is of those that only some tokens visit."""
    return "shared" not in name and "_shexp" not in name


def tensors(weights: Iterable[Weight]) -> list[Tensor]:
    """The logical tensors of a checkpoint by name, as those of a model."""
    return [
        Tensor(w.name, w.shape, w.component, w.kind, w.tied_to, w.kind == "param", True, ()) for w in weights
    ]
