"""`sizer tensors`: every tensor of a model, or one row for each that repeats."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from sizer.core.poly import as_poly
from sizer.core.tree import Buffer, Param
from sizer.core.walk import Row, walk
from sizer.measures.tensors import Tensor, of_row
from sizer.model import Model
from sizer.report.count import head, notes
from sizer.report.explain import ranges
from sizer.report.report import Report, Table, View


def report(model: Model, *, layout: str = "checkpoint", expand: bool = False, dtype: str = "fp32") -> Report:
    """The tensors of a model; those of equal layers in one row unless `expand`."""
    pairs = [
        (row, letters)
        for row, letters in zip(model.rows(layout), walk(model.symbolic_tree(layout)), strict=True)
        if isinstance(row.leaf, Param | Buffer)
    ]
    records = _expanded if expand else _folded

    def view() -> View:
        rows = list(records(pairs, dtype))
        return View(
            table=Table(
                ("name", "shape", "params", "component", ""),
                [_cells(row) for row in rows],
                numbers=(2,),
                records=[{**row, "shape": "×".join(map(str, row["shape"]))} for row in rows],
            ),
            above=[f"{model.name}  ({model.architecture}), layout {layout}"],
            notes=notes(model),
        )

    def document() -> Any:
        if expand:
            return records(pairs, dtype)
        return {
            **head(model),
            "layout": layout,
            "tensors": list(records(pairs, dtype)),
            "assumptions": model.assumptions,
            "sources": model.sources,
        }

    number = sum(prod(len(frame.indices or ()) for frame in row.frames) for row, _ in pairs)
    return Report(str(number), document, view)


def _expanded(pairs: list[tuple[Row, Row]], dtype: str) -> Iterator[dict[str, Any]]:
    for row, letters in pairs:
        formula = as_poly(letters.numel).text(ascii_only=True)
        for tensor in of_row(row):
            yield _record(tensor, formula, dtype, tensor.name, tensor.tied_to)


def _folded(pairs: list[tuple[Row, Row]], dtype: str) -> Iterator[dict[str, Any]]:
    for row, letters in pairs:
        first = next(of_row(row), None)
        if first is None:
            continue
        formula = as_poly(letters.numel).text(ascii_only=True)
        tied_to = row.leaf.tied_to  # type: ignore[union-attr]
        yield {
            **_record(
                first, formula, dtype, row.name.replace("{}", "*"), tied_to and tied_to.replace("{}", "*")
            ),
            "copies": row.copies,
            "layers": [ranges(frame.indices) for frame in row.frames if frame.indices is not None],
        }


def _record(tensor: Tensor, formula: str, dtype: str, name: str, tied_to: str | None) -> dict[str, Any]:
    params = 1
    for size in tensor.shape:
        params *= size
    return {
        "name": name,
        "shape": list(tensor.shape),
        "formula": formula,
        "dtype": dtype,
        "component": tensor.component,
        "params": params,
        "kind": tensor.kind,
        "tied_to": tied_to,
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    notes_ = []
    if row.get("layers"):
        notes_.append(f"× {row['copies']}: {'; '.join(row['layers'])}")
    if row["tied_to"]:
        notes_.append(f"is {row['tied_to']}")
    if row["kind"] == "buffer":
        notes_.append("buffer")
    shape = f"[{', '.join(map(str, row['shape']))}]"
    return row["name"], shape, f"{row['params']:,}", row["component"], ", ".join(notes_)
