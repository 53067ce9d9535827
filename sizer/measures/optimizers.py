"""What optimizers keep for each parameter, and what a step of theirs needs on top.

Every entry is a formula over shapes, with the code or the paper it is from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from sizer.core.dims import Dim
from sizer.core.record import Record
from sizer.core.walk import Frame
from sizer.errors import UnknownName
from sizer.measures.neighbours import neighbours

# bitsandbytes, `optim/optimizer.py`: states of 8 bits are quantized in blocks of 256 with a scale of
# 32 bits each; tensors below 4,096 elements keep states of 32 bits.
BNB_BLOCK = 256
BNB_SMALLEST = 4096
# PyTorch keeps the step of each tensor as a number of its own, in 32 bits.
STEP_BYTES = 4


class Weight(Record):
    """A parameter as an optimizer sees it: its shape, how many alike, bytes an element, its use.

    `name`, `frames`: those of its row, which say where it stands among the others.
    """

    __slots__ = ("copies", "frames", "is_hidden_matrix", "n_bytes", "name", "shape")

    def __init__(
        self,
        shape: tuple[Dim, ...],
        copies: Dim,
        n_bytes: int,
        is_hidden_matrix: bool,
        name: str = "",
        frames: tuple[Frame, ...] = (),
    ) -> None:
        self.name = name
        self.frames = frames
        self.shape = shape
        self.copies = copies
        self.n_bytes = n_bytes
        # A matrix that is neither a table of embeddings nor a head.
        self.is_hidden_matrix = is_hidden_matrix

    @property
    def numel(self) -> Dim:
        """Elements of one copy."""
        return prod(self.shape)


class Optimizer(Record):
    """An optimizer: bytes of state for one parameter, whether a step of it is known, and a source."""

    __slots__ = ("exact", "source", "state", "step_copies")

    def __init__(
        self, state: Callable[[Weight], Dim], source: str, *, step_copies: int | None = None
    ) -> None:
        self.state = state
        self.source = source
        # Temporaries of one step as multiples of the parameter it works on; `None` where not measured.
        self.step_copies = step_copies
        self.exact = step_copies is not None


def _copies(times: int, *, step: bool) -> Callable[[Weight], Dim]:
    return lambda w: times * w.numel * w.n_bytes + (STEP_BYTES if step else 0)


def _adam_8bit(w: Weight) -> Dim:
    n = w.numel
    if isinstance(n, int) and n < BNB_SMALLEST:
        return 2 * 4 * n
    blocks = -(-n // BNB_BLOCK) if isinstance(n, int) else n / BNB_BLOCK
    return 2 * (n + 4 * blocks)


def _adafactor(w: Weight) -> Dim:
    if len(w.shape) < 2:
        return w.numel * w.n_bytes + STEP_BYTES
    outer = prod(w.shape[:-2])
    return outer * (w.shape[-2] + w.shape[-1]) * w.n_bytes + STEP_BYTES


def _muon(w: Weight) -> Dim:
    return w.numel * w.n_bytes if w.is_hidden_matrix else 2 * w.numel * w.n_bytes + STEP_BYTES


def _shampoo(w: Weight) -> Dim:
    if len(w.shape) < 2:
        return w.numel * 4
    outer = prod(w.shape[:-2])
    return outer * (w.shape[-2] * w.shape[-2] + w.shape[-1] * w.shape[-1]) * 4


OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": Optimizer(_copies(0, step=False), "torch.optim.SGD", step_copies=0),
    "momentum": Optimizer(_copies(1, step=False), "torch.optim.SGD, momentum", step_copies=0),
    "adamw": Optimizer(_copies(2, step=True), "torch.optim.AdamW (_single_tensor_adamw)", step_copies=2),
    "adam": Optimizer(_copies(2, step=True), "torch.optim.Adam (_single_tensor_adam)", step_copies=2),
    "adamw-8bit": Optimizer(
        _adam_8bit, "bitsandbytes optim/optimizer.py: blocks of 256, below 4,096 elements in 32 bits"
    ),
    "adafactor": Optimizer(
        _adafactor,
        "torch.optim.Adafactor: a row and a column of second moments (Shazeer, Stern 2018, 1804.04235)",
    ),
    "lion": Optimizer(
        _copies(1, step=False), "Chen et al. 2023, arXiv:2302.06675, algorithm 2: one momentum"
    ),
    "muon": Optimizer(
        _muon, "torch.optim.Muon: one momentum for hidden matrices; AdamW for embeddings, head and vectors"
    ),
    "shampoo": Optimizer(
        _shampoo,
        "Gupta et al. 2018, arXiv:1802.09568, algorithm 1: L [m, m] and R [n, n] in fp32, vectors diagonal",
    ),
}
_ALIASES = {
    "adam8bit": "adamw-8bit",
    "adamw8bit": "adamw-8bit",
    "adam-8bit": "adamw-8bit",
    "sgd-momentum": "momentum",
}


def optimizer_named(name: str) -> Optimizer:
    """The optimizer of that name."""
    key = name.lower().replace("_", "-")
    key = _ALIASES.get(key, key)
    if key not in OPTIMIZERS:
        raise UnknownName("optimizer", name, [*OPTIMIZERS, *_ALIASES], hint=", ".join(OPTIMIZERS))
    return OPTIMIZERS[key]


def step_place(weights: Sequence[Weight]) -> tuple[int, int]:
    """The parameter at which a step holds the most, and the one before it, by their places.

    A step works on one parameter at a time, and lets the last one's denominator go when it has the
    next one's: `max(n[i-1] + 2·n[i])`.
    """
    n_bytes = [weight.numel * weight.n_bytes for weight in weights]
    pairs = neighbours([(i, weight.name, weight.frames) for i, weight in enumerate(weights)])
    return max(pairs, key=lambda pair: 2 * n_bytes[pair[0]] + (n_bytes[pair[1]] if pair[1] >= 0 else 0))
