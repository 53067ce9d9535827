"""Formulas that others have published, by name, with what they assume. None of them is our answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.record import Record
from sizer.core.tree import Op, Param
from sizer.core.walk import Row
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
    if checkpointing == "matmuls":
        raise InvalidConfig("the formula knows no policy that keeps matrix products; take selective or full")
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


def zero3(params: int, largest: int, gpus: int, *, offload: str = "none") -> int:
    """DeepSpeed's estimate for ZeRO-3: bytes of model states on one GPU.

    `largest`: parameters of the largest layer. `offload`: "none", "optimizer", or "params", which
    moves both. Deepspeed issue 4527 has the numbers of a model of 6,805M on four.

    >>> zero3(6_805_000_000, 131_000_000, 4, offload="params")
    524000000
    """
    spread = {"none": 18 * params // gpus, "optimizer": 2 * params // gpus, "params": 0}
    return 4 * largest + spread[offload]


def _zero3(model: Model, gpus: int, offload: str) -> Published:
    params = model.count().total
    largest: dict[str, int] = {}
    for row in model.rows("transformers"):
        if isinstance(row.leaf, Param) and row.leaf.tied_to is None:
            module = row.name.rpartition(".")[0]
            largest[module] = largest.get(module, 0) + row.numel
    name, text, away = {
        "none": ("", " + 18·params/gpus", "no offload"),
        "optimizer": ("-offload", " + 2·params/gpus", "optimizer and gradients on the host"),
        "params": ("-offload-params", "", "optimizer, gradients and parameters on the host"),
    }[offload]
    return Published(
        f"deepspeed-zero3{name}",
        "model states on one GPU",
        zero3(params, max(largest.values()), gpus, offload=offload),
        f"4·largest layer{text}",
        [f"{away}; activations and buffers are left out", "Adam in mixed precision"],
        "deepspeed runtime/zero/stage3.py, estimate_zero3_model_states_mem_needs",
    )


def _megatron(model: Model, b: int, s: int, checkpointing: str, gpus: int) -> Published:
    """Megatron-LM's `compute_activation_memory`, each layer with the MLP that a token visits there."""
    h = getattr(model.config, "d_model", None)
    layers = sum(
        row.visits for row in model.rows() if isinstance(row.leaf, Op) and row.leaf.kind == "attention"
    )
    # What a token visits comes back to the residual stream through matrices [h, width].
    widths = sum(
        _visited(row)
        for row in model.rows("transformers")
        if isinstance(row.leaf, Param) and row.leaf.use == "matmul" and _gives_back(row)
    )
    if not layers or h is None:
        raise InvalidConfig(f"{model.name}: the formula is of transformer layers, and there are none")
    vocab = next(
        (
            row.leaf.axes[0].size
            for row in model.rows()
            if row.component == "head" and isinstance(row.leaf, Param) and row.leaf.use == "matmul"
        ),
        0,
    )
    inside = 18 * s * b * h * layers + 4 * s * b * widths
    around = 8 * s * b + s * b * h + 4 * s * b * (h + vocab)
    return Published(
        "megatron",
        "activations",
        inside + around,
        "s·b·(18·h·L + 4·Σ ffn) + 8·s·b + s·b·h + 4·s·b·(h + V)",
        [
            "16-bit activations, the core of attention computed anew, dropout, one pipeline stage",
            "ffn of a layer of experts: those that a token visits and the shared ones, each of its width",
            "a gated MLP counts as one of its width, as Megatron's formula has it",
        ],
        "Megatron-LM training/theoretical_memory_usage.py, compute_activation_memory; "
        "its MLP term for experts as reviewed in pull request 6782",
    )


def _gives_back(row: Row) -> bool:
    """Whether a matrix ends an MLP: from its width to that of the residual stream."""
    leaf = row.leaf
    if not isinstance(leaf, Param) or row.component not in ("mlp", "experts") or len(leaf.axes) < 2:
        return False
    out, into = leaf.axes[-2:] if row.kind != "conv1d" else leaf.axes[::-1]
    return out.name == "embed" and into.name != "embed"


def _visited(row: Row) -> int:
    leaf: Param = row.leaf  # type: ignore[assignment]
    h = next(axis.size for axis in leaf.axes if axis.name == "embed")
    active = row.numel if leaf.active is None else leaf.active
    return int(active // h * row.visits)


FORMULAS: dict[str, Callable[[Model, int, int, str, int], Published]] = {
    "korthikanti": _korthikanti,
    "megatron": _megatron,
    "deepspeed-zero2": _zero2,
    "deepspeed-zero3": lambda model, b, s, checkpointing, gpus: _zero3(model, gpus, "none"),
    "deepspeed-zero3-offload": lambda model, b, s, checkpointing, gpus: _zero3(model, gpus, "optimizer"),
    "deepspeed-zero3-offload-params": lambda model, b, s, checkpointing, gpus: _zero3(model, gpus, "params"),
}
