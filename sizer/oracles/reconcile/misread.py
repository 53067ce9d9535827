"""The terms of a wrong formula, and those of a vocabulary with more rows."""

from __future__ import annotations

from collections.abc import Iterator

from sizer.core.dims import round_up
from sizer.oracles.reconcile.ledger import Ledger
from sizer.oracles.reconcile.term import Term

_GATES = frozenset(("gate_proj", "w1", "wi_0", "gate"))
# Megatron pads to a multiple of 128 times the tensor-parallel ranks, nanoGPT and torchtune to 64.
PADDINGS = (64, 128, 256, 512, 1024, 2048)


def misread(ledger: Ledger) -> Iterator[Term]:
    """Formulas of other architectures: attention without groups, an MLP of two matrices."""
    rows, model = ledger.rows, ledger.model
    matrices = ledger.having(
        lambda row: row.component in ("mlp", "experts") and row.leaf.use == "matmul"  # type: ignore[union-attr]
    )
    gates = [i for i in matrices if _GATES & set(rows[i].name.split(".")[-2:])]
    if gates:
        yield ledger.without(
            "gate matrices left out", gates, "an MLP of two matrices instead of three", cost=3
        )
        for factor, name, why in (
            (1, "MLP of twice the width", "a width that stands for gate and value together is halved"),
            (2, "MLP of 3/2 the width", "the width of an MLP without a gate, of which 2/3 are built"),
        ):
            amount = sum(ledger.amounts[i] for i in matrices)
            if amount % factor == 0:
                bits = ledger.mask(matrices) | ledger.bit("width")
                formula = f"{amount:,}" if factor == 1 else f"{amount:,} / {factor}"
                yield Term(name, amount // factor, formula, why, bits, 4)
    heads, kv_heads = getattr(model.config, "n_heads", None), getattr(model.config, "n_kv_heads", None)
    if isinstance(heads, int) and isinstance(kv_heads, int) and 0 < kv_heads < heads:
        picks, extra = [], 0
        for i in ledger.own:
            for axis in rows[i].leaf.axes:  # type: ignore[union-attr]
                width = sum(part.size for part in axis.parts or (axis,) if part.name == "kv_heads")
                if width and axis.size:
                    picks.append(i)
                    extra += ledger.amounts[i] // axis.size * (width * heads // kv_heads - width)
                    break
        yield Term(
            "keys and values for every query head",
            extra,
            lambda: f"{extra:,}",
            f"grouped attention has {kv_heads} key/value heads, and {heads} are taken",
            ledger.mask(picks) | ledger.bit("width"),
            3,
        )


def vocabulary(ledger: Ledger) -> Iterator[Term]:
    """The tables with more rows: padded, or with the padding that a count leaves out."""
    tables, each, size = ledger.vocabulary()
    padded: set[int] = set()
    for multiple in PADDINGS:
        rows = round_up(size, multiple)
        if not tables or rows == size or rows in padded:
            continue
        padded.add(rows)
        more = rows - size
        yield Term(
            f"vocabulary padded to {rows:,}",
            more * each,
            f"{more:,}·{each:,}",
            f"{size:,} rows rounded up to a multiple of {multiple}, as training frameworks do",
            ledger.mask(tables) | ledger.bit("vocabulary"),
            # A table of whole granules is padded already.
            2 if size % min(PADDINGS) else 4,
        )
    extra = []
    for i in ledger.own:
        axes = ledger.rows[i].leaf.axes  # type: ignore[union-attr]
        whole = ledger.rows[i].copies
        for axis in axes:
            whole = whole * (axis.size if axis.padded is None else axis.padded)
        extra.append(whole - ledger.amounts[i] if not ledger.active else 0)
    yield Term(
        "rows of padding that are stored",
        sum(extra),
        f"{sum(extra):,}",
        "the tensors have rows that mean nothing, and the count leaves them out",
    )
