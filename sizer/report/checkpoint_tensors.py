"""`sizer tensors` of a checkpoint: its weights, and what lies beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizer.checkpoint import Checkpoint
from sizer.errors import printable
from sizer.report.checkpoint import group, head, tail, talk, what
from sizer.report.report import Report, Table, View


def report(checkpoint: Checkpoint, *, expand: bool = False) -> Report:
    """Every tensor, logical ones first named; those of equal layers in one row unless `expand`."""

    def records() -> Iterator[dict[str, Any]]:
        for weight in checkpoint.logical.weights:
            yield {
                "name": weight.name,
                "shape": list(weight.shape),
                "formula": None,
                "dtype": weight.dtype,
                "component": weight.component,
                "params": weight.params,
                "kind": weight.kind,
                "tied_to": weight.tied_to,
                "scheme": weight.scheme or None,
                "bytes": weight.stored.bytes,
                "file": weight.stored.file,
            }
        for helper in checkpoint.logical.helpers:
            stored = helper.stored
            yield {
                "name": stored.name,
                "shape": list(stored.shape),
                "formula": None,
                "dtype": stored.dtype,
                "component": helper.component,
                "params": 0,
                "kind": "helper",
                "tied_to": stored.tied_to,
                "scheme": None,
                "bytes": stored.bytes,
                "file": stored.file,
            }

    def rows() -> list[dict[str, Any]]:
        return list(records()) if expand else _folded(records())

    def document() -> Any:
        return records() if expand else {**head(checkpoint), "tensors": rows(), **tail(checkpoint)}

    def view() -> View:
        found = rows()
        return View(
            table=Table(
                ("name", "shape", "dtype", "params", "component", ""),
                [_cells(row) for row in found],
                numbers=(3,),
                records=[{**row, "shape": "×".join(map(str, row["shape"]))} for row in found],
            ),
            above=[f"{checkpoint.name}  ({what(checkpoint)})"],
            notes=list(map(printable, checkpoint.remarks)),
        )

    number = len(checkpoint.logical.weights) + len(checkpoint.logical.helpers)
    return Report(str(number), document, view, int(not checkpoint.complete), talk(checkpoint))


def _folded(records: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for tensors that differ in their layer alone."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in records:
        name = group(row["name"], "tensor", None)
        key = (name, *row["shape"], row["dtype"], row["component"], row["kind"])
        if key in found:
            found[key]["copies"] += 1
            found[key]["bytes"] += row["bytes"]
        else:
            found[key] = {**row, "name": name, "copies": 1}
    return list(found.values())


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    said = [f"× {row['copies']}"] if row.get("copies", 1) > 1 else []
    said += [row["kind"]] if row["kind"] != "param" else []
    said += [row["scheme"]] if row["scheme"] else []
    said += [f"is {printable(row['tied_to'])}"] if row["tied_to"] else []
    shape = f"[{', '.join(map(str, row['shape']))}]"
    return (
        printable(row["name"]),
        shape,
        row["dtype"],
        f"{row['params']:,}",
        row["component"],
        ", ".join(said),
    )
