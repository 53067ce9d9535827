"""`sizer count --with torch`: a class that sizer does not describe, counted as transformers builds it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from sizer import __version__, units
from sizer.core.record import Record
from sizer.oracles import torch as oracle
from sizer.oracles.compare import Found
from sizer.report.report import Report, Table, View


class Built(Record):
    """A module on the meta device: its name, its class, and its tensors."""

    __slots__ = ("cls", "name", "tensors")

    def __init__(self, name: str, cls: str, tensors: list[Found]) -> None:
        self.name = name
        self.cls = cls
        self.tensors = tensors


def build(values: Mapping[str, Any], *, cls: str | None, name: str) -> Built:
    """Build the class that a configuration names; no code of a repository is run."""
    module = oracle.build_from_config(values, cls, name)
    return Built(name, type(module).__name__, oracle.tensors(module))


def report(built: Built, *, depth: int | None = None) -> Report:
    """Totals, and parameters by module; without formulas, which only a described architecture has."""
    versions = ", ".join(f"{name} {version}" for name, version in oracle.versions().items())
    label = f"counted on the module that {versions} builds: no formulas, and active parameters unknown"
    own = [t for t in built.tensors if t.tied_to is None]
    totals = {
        "total": sum(prod(t.shape) for t in own if t.kind == "param"),
        "trainable": sum(prod(t.shape) for t in own if t.kind == "param" and t.trainable),
    }
    buffers = sum(prod(t.shape) for t in own if t.kind == "buffer")
    tied = sum(prod(t.shape) for t in built.tensors if t.kind == "param" and t.tied_to is not None)
    groups: dict[str, int] = {}
    for tensor in own:
        if tensor.kind == "param":
            path = ".".join(tensor.name.split(".")[:-1][: depth or 2]) or tensor.name
            groups[path] = groups.get(path, 0) + prod(tensor.shape)
    total = totals["total"]
    records = [
        {"module": name, "params": n, "share": n / total if total else 0.0} for name, n in groups.items()
    ]

    def document() -> dict[str, Any]:
        return {
            "sizer_version": __version__,
            "model": built.name,
            "architecture": built.cls,
            "params": {**totals, "active": None, "embedding": None, "non_embedding": None},
            "buffers": {"total": buffers},
            "tied": {"total": tied},
            "components": [{"component": "unknown", "params": total, "share": 1.0, "formula": None}],
            "modules": records,
            "assumptions": [label],
            "sources": [f"class {built.cls}"],
        }

    def view() -> View:
        rows = [(name, f"{n:,}", units.share(n, total), units.bar(n, total)) for name, n in groups.items()]
        return View(
            table=Table(
                ("module", "params", "share", ""),
                [*rows, ("total", f"{total:,}", "100.0 %", "")],
                numbers=(1, 2),
                records=records,
            ),
            above=[f"{built.name}  ({built.cls}, built with torch)"],
            below=[
                f"total    {total:>18,}  ({units.count(total)})",
                *([f"tied     {tied:>18,}  not in the total"] if tied else []),
                *([f"buffers  {buffers:>18,}  not in the total"] if buffers else []),
                "",
                label,
            ],
        )

    return Report(str(total), document, view)
