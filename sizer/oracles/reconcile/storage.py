"""What quantized files store for the matrices of a model: packed words, scales, zero points.

Layouts: AutoGPTQ `qlinear_cuda.py`; AutoAWQ `gemm.py`; compressed-tensors `pack_quantized`, `nvfp4`,
`mxfp4`; bitsandbytes `functional.py`; `mlx.core.quantize`; DeepSeek-V3's `weight_scale_inv`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from sizer.core.tree import Param
from sizer.oracles.reconcile.ledger import Ledger
from sizer.oracles.reconcile.of_model import TOWERS
from sizer.oracles.reconcile.term import Term

GROUPS = (128, 64, 32, 0)
_KEPT = frozenset(("head", "router", "embedding", "position", "norm"))
_OUTSIDE = frozenset(("eh_proj", "weights_proj")).union(*TOWERS.values())


class Matrix(NamedTuple):
    """Matrices of `m` outputs and `k` inputs, as many as `copies`; whether they are routed experts."""

    m: int
    k: int
    copies: int
    expert: bool


class Packing(NamedTuple):
    """A way to store weights: its name, the words that stand for them, and what lies beside them.

    Each thing beside them has a name, its elements of one matrix, their formula and a cost: 0 where
    every such file has it.
    """

    name: str
    words: Callable[[Matrix], int]
    beside: tuple[tuple[str, Callable[[Matrix], int], str, int], ...]
    experts_alone: bool = False
    tables: bool = False


def matrices(ledger: Ledger, *, tables: bool = False) -> list[Matrix]:
    """The matrices that quantization packs: not head, routers, tables, or towers beside the text.

    Prediction layers keep `eh_proj`, which joins their inputs, and indexers `weights_proj`: so are the
    totals of DeepSeek-V3's and GLM-5-FP8's files.
    """
    found = []
    for i in ledger.own:
        row = ledger.rows[i]
        leaf = row.leaf
        assert isinstance(leaf, Param)
        table = row.component in ("head", "embedding") and len(leaf.axes) == 2
        if tables and table and leaf.use in ("matmul", "lookup"):
            found.append(Matrix(leaf.axes[0].size, leaf.axes[1].size, row.copies, False))
            continue
        if leaf.use != "matmul" or row.component in _KEPT or len(leaf.axes) not in (2, 3):
            continue
        *stack, out, inp = leaf.axes
        steps = row.name.split(".")
        if out.name in ("expert", "labels", "one") or not _OUTSIDE.isdisjoint(steps):
            continue
        copies = row.copies
        for axis in stack:
            copies = copies * axis.size
        routed = "experts" in steps
        found.append(Matrix(out.size, inp.size, copies, routed))
    return found


def _sum(found: list[Matrix], each: Callable[[Matrix], int]) -> int:
    return sum(each(matrix) * matrix.copies for matrix in found)


def _up(number: int, divisor: int) -> int:
    return -(-number // divisor)


def scales(ledger: Ledger) -> Iterator[Term]:
    """Scales counted as parameters, of weights that are stored an element each."""
    found = matrices(ledger)
    experts = [matrix for matrix in found if matrix.expert]
    bit = ledger.bit("scales")
    fp8 = _sum(found, lambda w: _up(w.m, 128) * _up(w.k, 128))
    why = "one scale for 128 × 128 weights, stored beside them and no parameter"
    yield Term("FP8 block scales (weight_scale_inv)", fp8, "Σ ⌈m/128⌉·⌈k/128⌉", why, bit, 2)
    rows = _sum(found, lambda w: w.m)
    yield Term("a scale for each output", rows, "Σ m", "8-bit weights with a scale a row", bit, 2)
    each = _sum(found, lambda w: 1)
    yield Term("a scale for each matrix", each, "matrices", "FP8 weights with one scale each", bit, 2)
    yield Term("two scales for each matrix", 2 * each, "2·matrices", "those of weight and input", bit, 2)
    for chosen, name in ((experts, "experts"), (found, "matrices")):
        if chosen and (chosen is not found or len(experts) < len(found)):
            blocks = _sum(chosen, lambda w: w.m * _up(w.k, 32))
            yield Term(
                f"MXFP4 scales of the {name}", blocks, "Σ m·k/32", "one exponent for 32 weights", bit, 2
            )
    why = "GPTQ's writers add a zero bias to each packed matrix, which the model has not"
    yield Term("zero biases of packed matrices", rows, "Σ m", why, ledger.bit("biases"), 2)


def packings() -> Iterator[Packing]:
    """The packed formats, the usual ones first."""
    for bits in (4, 8, 3, 2):
        for group in GROUPS:
            yield _gptq(bits, group)
    halves = lambda w: _up(w.m * w.k, 2)  # noqa: E731
    for alone in (True, False):
        yield Packing(
            "MXFP4: two weights to a byte",
            halves,
            (("scales", lambda w: w.m * _up(w.k, 32), "Σ m·k/32", 0),),
            experts_alone=alone,
        )
    yield Packing(
        "NVFP4: two weights to a byte",
        halves,
        (
            ("scales", lambda w: w.m * _up(w.k, 16), "Σ m·k/16", 0),
            ("second scales", lambda w: 1, "matrices", 0),
            ("input scales", lambda w: 1, "matrices", 0),
        ),
    )
    yield Packing(
        "bitsandbytes: two weights to a byte",
        halves,
        (
            ("absmax", lambda w: _up(w.m * w.k, 64), "Σ ⌈m·k/64⌉", 0),
            ("absmax of absmax", lambda w: _up(_up(w.m * w.k, 64), 256), "Σ ⌈m·k/64/256⌉", 1),
            ("quant_map", lambda w: 16, "16·matrices", 0),
            ("nested_quant_map", lambda w: 256, "256·matrices", 1),
        ),
    )
    for bits in (4, 8):
        for group in (64, 32):
            yield _mlx(bits, group)


def _gptq(bits: int, group: int) -> Packing:
    def groups(k: int) -> int:
        return _up(k, group) if group else 1

    part = f"k/{group}·" if group else ""
    of = f"groups of {group}" if group else "rows"
    # 32-bit words run along the inputs (GPTQ) or the outputs (AWQ); their number is the same.
    return Packing(
        f"int{bits} packed in 32-bit words",
        lambda w: w.m * _up(w.k * bits, 32),
        (
            (f"scales of {of}", lambda w: groups(w.k) * w.m, f"Σ {part}m", 0),
            (
                f"packed zero points of {of}",
                lambda w: groups(w.k) * _up(w.m * bits, 32),
                f"Σ {part}m·{bits}/32",
                0,
            ),
            ("group indices (g_idx)", lambda w: w.k, "Σ k", 0),
            ("shapes (weight_shape)", lambda w: 2, "2·matrices", 1),
            ("zero biases of packed matrices", lambda w: w.m, "Σ m", 1),
        ),
    )


def _mlx(bits: int, group: int) -> Packing:
    parts = lambda w: w.m * _up(w.k, group)  # noqa: E731
    return Packing(
        f"MLX {bits}-bit: packed in 32-bit words",
        lambda w: w.m * _up(w.k * bits, 32),
        (
            (f"scales of groups of {group}", parts, f"Σ m·k/{group}", 0),
            (f"offsets of groups of {group}", parts, f"Σ m·k/{group}", 0),
        ),
        tables=True,
    )


def packed(ledger: Ledger, packing: Packing) -> tuple[Term, list[Term]] | None:
    """The term that makes stored elements of the weights, and those of what is stored beside them."""
    found = matrices(ledger, tables=packing.tables)
    if packing.experts_alone:
        found = [matrix for matrix in found if matrix.expert]
    if not found:
        return None
    weights = _sum(found, lambda w: w.m * w.k)
    words = _sum(found, packing.words)
    base = Term(
        packing.name + (", experts alone" if packing.experts_alone else ""),
        words - weights,
        f"{words:,} − {weights:,}",
        "the stored elements are counted, and each holds several weights",
        0,
        2,
    )
    beside = [
        Term(
            name,
            _sum(found, each),
            formula,
            "stored beside the packed weights",
            1 << (len(ledger.rows) + 8 + n),
            cost,
        )
        for n, (name, each, formula, cost) in enumerate(packing.beside)
    ]
    return base, beside
