"""`sizer diff`: where two models, files of weights or modules differ."""

from __future__ import annotations

from typing import Any

from sizer import __version__
from sizer.errors import printable
from sizer.oracles.diff import Comparison, diff
from sizer.oracles.sides import Side, side
from sizer.report.report import Report, Table, View

MOST_SHOWN = 40
MOST_NAMES = 1000
CONVENTIONS = (
    "of quantized weights the logical ones are compared, not the packed words",
    "a buffer that a file or its formula alone has is said, and is no difference",
)


def report(a: str, b: str, *, level: str = "names") -> Report:
    """What differs between two sides; exit 1 where anything does, or where files are missing."""
    found = diff(side(a), side(b), level=level)

    def document() -> dict[str, Any]:
        return {
            "sizer_version": __version__,
            "ok": found.equal,
            "level": level,
            "a": _described(found.left, found.totals[0]),
            "b": _described(found.right, found.totals[1]),
            "mapping": found.mapping,
            "shared": found.shared,
            "differences": [
                {
                    "kind": d.kind,
                    "name": d.name,
                    "tensors": len(d.names),
                    "a": d.left,
                    "b": d.right,
                    "names": list(d.names[:MOST_NAMES]),
                }
                for d in found.differences
            ],
            "remarks": found.remarks,
            "assumptions": list(CONVENTIONS),
            "sources": [],
        }

    return Report(
        str(len(found.differences)), document, lambda: _view(found), int(not found.equal), _talk(found)
    )


def _described(one: Side, params: int) -> dict[str, Any]:
    return {"kind": one.kind, "name": one.name, "complete": one.complete, "params": params}


def _talk(found: Comparison) -> list[str]:
    from sizer.report.checkpoint import talk

    return [line for one in (found.left, found.right) if one.checkpoint for line in talk(one.checkpoint)]


def _view(found: Comparison) -> View:
    a, b = found.left, found.right
    above = [f"A  {printable(a.title)}", f"B  {printable(b.title)}", f"names: {printable(found.mapping)}"]
    if not found.differences:
        whole = "equal" if found.equal else "no difference in what is known"
        return View(
            above=above,
            below=[
                f"{whole}, {found.totals[0]:,} parameters ({found.level})",
                *map(printable, found.remarks),
            ],
            notes=CONVENTIONS,
        )
    shown = found.differences[:MOST_SHOWN]
    names = found.level == "names"
    rows = [
        (d.kind, printable(d.name), *([f"{len(d.names):,}"] if names else []), d.left, d.right) for d in shown
    ]
    more = len(found.differences) - len(shown)
    count = len(found.differences)
    return View(
        table=Table(
            ("difference", "name", *(["tensors"] if names else []), "A", "B"),
            rows,
            numbers=(2,) if names else (2, 3),
            records=[
                {"kind": d.kind, "name": d.name, "tensors": len(d.names), "a": d.left, "b": d.right}
                for d in found.differences
            ],
        ),
        above=above,
        below=[
            *([f"… and {more:,} more (--json lists all)"] if more else []),
            f"{count:,} difference{'s' * (count > 1)}; A has {found.totals[0]:,} parameters, "
            f"B {found.totals[1]:,}",
            *map(printable, found.remarks),
        ],
        notes=CONVENTIONS,
    )
