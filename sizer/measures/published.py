"""Formulas that others have published, by name, with what they assume. None of them is our answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.record import Record
from sizer.core.tree import Op, Param
from sizer.errors import InvalidConfig, UnknownName
from sizer.measures.passes import check_positive

if TYPE_CHECKING:
    from sizer.model import Model

# Korthikanti et al. 2022, arXiv:2205.05198, equation 1 and section 4: bytes a layer of 16-bit
# activations are s·b·h·(34 + 5·a·s/h); without the part that attention recomputes, 34·s·b·h; with
# full recomputation, the input of a layer alone, 2·s·b·h.
LINEAR_BYTES, SCORE_BYTES, INPUT_BYTES = 34, 5, 2


class Published(Record):
    """A published estimate: what it is of, its bytes, its formula as text, assumptions and source."""

    __slots__ = ("assumptions", "formula", "n_bytes", "name", "source", "what")

    def __init__(
        self, name: str, what: str, n_bytes: Dim, formula: str, assumptions: list[str], source: str
    ) -> None:
        self.name = name
        self.what = what
        self.n_bytes = n_bytes
        self.formula = formula
        self.assumptions = assumptions
        self.source = source


def published(
    model: Model,
    name: str,
    *,
    batch_size: int = 1,
    seq_len: int = 1024,
    checkpointing: str = "none",
    gpus: int = 1,
) -> Published:
    """A published formula by name, for this model.

    >>> import sizer
    >>> published(sizer.load("gpt2-small"), "korthikanti", seq_len=1024).n_bytes
    1075838976
    """
    if name not in FORMULAS:
        raise UnknownName("published formula", name, FORMULAS, hint=", ".join(FORMULAS))
    check_positive(batch_size=batch_size, seq_len=seq_len, gpus=gpus)
    return FORMULAS[name](model, batch_size, seq_len, checkpointing, gpus)


def _korthikanti(model: Model, b: int, s: int, checkpointing: str, gpus: int) -> Published:
    layers = 0
    scores = 0
    for row in model.rows():
        if isinstance(row.leaf, Op) and row.leaf.kind == "attention":
            layers += row.visits
            scores += row.visits * row.leaf.sizes["heads"]
    h = getattr(model.config, "d_model", None)
    if not layers or h is None:
        raise InvalidConfig(f"{model.name}: the formula is of transformer layers, and there are none")
    linear = s * b * h * layers
    if checkpointing == "full":
        amount, text = INPUT_BYTES * linear, "2·s·b·h·L"
    elif checkpointing == "selective":
        amount, text = LINEAR_BYTES * linear, "34·s·b·h·L"
    else:
        amount, text = LINEAR_BYTES * linear + SCORE_BYTES * scores * s * s * b, "s·b·h·L·(34 + 5·a·s/h)"
    return Published(
        "korthikanti",
        "activations",
        amount,
        text,
        [
            "16-bit activations, dropout with masks of one byte, GELU, an MLP of 4h, Megatron's ops",
            "embeddings, the last norm and the loss are left out; no tensor parallelism",
            "measured runs in bf16 differ by -27 % to +29 % (eager) and up to +150 % (fused attention)",
        ],
        "Korthikanti et al. 2022, arXiv:2205.05198, equation 1",
    )


def _zero2(model: Model, b: int, s: int, checkpointing: str, gpus: int) -> Published:
    params = model.count().total
    return Published(
        "deepspeed-zero2",
        "model states on one GPU",
        4 * params + 16 * params // gpus,
        "4·params + 16·params/gpus",
        ["no offload; activations and buffers are left out", "Adam in mixed precision"],
        "deepspeed runtime/zero/stage_1_and_2.py, estimate_zero2_model_states_mem_needs",
    )


def _zero3(model: Model, b: int, s: int, checkpointing: str, gpus: int) -> Published:
    params = model.count().total
    largest: dict[str, int] = {}
    for row in model.rows("transformers"):
        if isinstance(row.leaf, Param) and row.leaf.tied_to is None:
            module = row.name.rpartition(".")[0]
            largest[module] = largest.get(module, 0) + row.numel
    return Published(
        "deepspeed-zero3",
        "model states on one GPU",
        4 * max(largest.values()) + 18 * params // gpus,
        "4·largest layer + 18·params/gpus",
        ["no offload; activations and buffers are left out", "Adam in mixed precision"],
        "deepspeed runtime/zero/stage3.py, estimate_zero3_model_states_mem_needs",
    )


FORMULAS: dict[str, Callable[[Model, int, int, str, int], Published]] = {
    "korthikanti": _korthikanti,
    "deepspeed-zero2": _zero2,
    "deepspeed-zero3": _zero3,
}
