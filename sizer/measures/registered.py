"""The order in which modules register their parameters, which state dicts and optimizers follow."""

from __future__ import annotations

from collections.abc import Sequence

from sizer.core.tree import Op
from sizer.core.walk import Row


def registered(rows: Sequence[Row]) -> list[Row]:
    """The rows in that order: modules of transformers make the RMSNorms of a block after its other parts."""
    ordered: list[Row] = []
    i = 0
    while i < len(rows):
        if not rows[i].frames:
            ordered.append(rows[i])
            i += 1
            continue
        outer, j = rows[i].name.partition(".{}")[0], i
        while j < len(rows) and rows[j].frames and rows[j].name.partition(".{}")[0] == outer:
            j += 1
        inside = rows[i:j]
        last = [r for r in inside if r.kind == "rms_norm" and r.name.partition(".{}.")[2].count(".") == 1]
        ordered += _choosing_last([r for r in inside if r not in last]) + last
        i = j
    return ordered


def _choosing_last(rows: list[Row]) -> list[Row]:
    """The rows of a block in which a router that chooses by groups comes after the experts."""
    for choice in [r for r in rows if isinstance(r.leaf, Op) and r.leaf.kind == "grouped_choice"]:
        gate = choice.name.rpartition(".")[0]
        around = gate.rpartition(".")[0]
        routed = [
            r for r in rows if r.name.startswith(f"{around}.") and getattr(r.leaf, "active", None) is not None
        ]
        if routed:
            chosen = [r for r in rows if r.name.startswith(f"{gate}.")]
            rows = [r for r in rows if r not in chosen]
            place = rows.index(routed[-1]) + 1
            rows[place:place] = chosen
    return rows
