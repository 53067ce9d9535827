"""What stands before a step begins and after it ends: weights, buffers, gradients, optimizer state."""

from __future__ import annotations

from collections.abc import Sequence

from sizer.core.dims import Dim
from sizer.core.record import Record
from sizer.core.tree import Buffer, Op, Param
from sizer.core.walk import Row
from sizer.measures.optimizers import Optimizer, Weight, step_place
from sizer.measures.registered import registered
from sizer.measures.step.run import BF16_WEIGHTS
from sizer.measures.step.simulate import Settings
from sizer.measures.tensors import OLD_MASKS

# Buffers are kept in this type whatever that of the weights: rotary frequencies, masks.
BUFFER_BYTES = 4


class Standing(Record):
    """What is there before the step begins and after it ends, and the parameters that are trained.

    `adapters`: bytes of the adapters, which are in `weights` too.
    """

    __slots__ = ("adapters", "buffers", "gradients", "optimizer", "trained", "weights")

    def __init__(
        self,
        weights: Dim,
        buffers: Dim,
        gradients: Dim,
        optimizer: Dim,
        trained: list[Weight],
        adapters: Dim = 0,
    ) -> None:
        self.weights = weights
        self.buffers = buffers
        self.gradients = gradients
        self.optimizer = optimizer
        self.trained = trained
        self.adapters = adapters


def standing(
    rows: Sequence[Row], settings: Settings, optimizer: Optimizer, *, master_weights: bool = False
) -> Standing:
    """Weights, buffers, gradients and optimizer state of the rows of a tree."""
    width = 2 if settings.precision in BF16_WEIGHTS else 4
    weights: Dim = 0
    buffers: Dim = 0
    trained: list[Weight] = []
    ordered = registered(rows)
    routers = {
        f"{row.name.rpartition('.')[0]}.weight"
        for row in ordered
        if isinstance(row.leaf, Op) and "fp32" in row.leaf.traits
    }
    for row in ordered:
        leaf = row.leaf
        buffers = buffers + buffer_bytes(row, width)
        if not isinstance(leaf, Param) or leaf.tied_to is not None:
            continue
        # Some routers are kept in fp32.
        n_bytes = 4 if row.name in routers else width
        weights = weights + row.numel * row.copies * n_bytes
        learns = leaf.trainable and leaf.use != "idle" and not _frozen(row.name, settings.frozen)
        if settings.lora is None and learns:
            shape = tuple(axis.size for axis in leaf.axes)
            hidden = leaf.use == "matmul" and row.component not in ("head", "embedding", "position")
            trained.append(Weight(shape, row.copies, n_bytes, hidden, row.name, row.frames))
    added: Dim = 0
    if settings.lora is not None:
        from sizer.measures.lora import adapters

        for adapter in adapters(ordered, settings.lora):
            added = added + adapter.params * adapter.copies * 4
            where = adapter.name, adapter.frames
            trained += [Weight((size,), adapter.copies, 4, False, *where) for size in adapter.sizes]
    gradients: Dim = 0
    state: Dim = 0
    for weight in trained:
        gradients = gradients + weight.numel * weight.copies * weight.n_bytes
        kept = weight
        if master_weights:
            state = state + weight.numel * weight.copies * 4
            kept = Weight(weight.shape, weight.copies, 4, weight.is_hidden_matrix)
        state = state + optimizer.state(kept) * weight.copies
    return Standing(weights + added, buffers, gradients, state, trained, added)


def buffer_bytes(row: Row, width: int = BUFFER_BYTES) -> Dim:
    """Bytes of a row of buffers in memory; places and types are whole numbers of 64 bits.

    `width`: bytes of a weight, whose type a factor of the embeddings has.
    """
    if not isinstance(row.leaf, Buffer) or row.leaf.tied_to is not None or row.name.endswith(OLD_MASKS):
        return 0
    if row.name.endswith("_ids"):
        return row.numel * row.copies * 8
    return row.numel * row.copies * (width if row.name.endswith("embed_scale") else BUFFER_BYTES)


def _frozen(name: str, frozen: Sequence[str]) -> bool:
    return any(name.replace(".{}", "") == part or name.startswith(f"{part}.") for part in frozen)


def step_extra(optimizer: Optimizer, numbers: Standing, there: Standing, *, foreach: bool) -> Dim:
    """What the optimizer's step holds for a moment; the numbers say for which parameter it is the most."""
    if not optimizer.step_copies:
        return 0
    if foreach:
        # The roots of all second moments at once.
        return there.gradients
    place, before = step_place(numbers.trained)
    weight = there.trained[place]
    held: Dim = 0 if before < 0 else there.trained[before].numel * there.trained[before].n_bytes
    return 2 * weight.numel * weight.n_bytes + held
