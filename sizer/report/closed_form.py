"""The closed forms of a measure, in the notation that is asked for."""

from __future__ import annotations

from typing import Any

from sizer.core.poly import Poly
from sizer.measures.closed_forms import ClosedForms
from sizer.model import Model
from sizer.report.count import head, legend_lines, notes
from sizer.report.formula import FOREIGN, spelled, written
from sizer.report.report import Report, Table, View


def report(model: Model, found: ClosedForms, *, unit: str, notation: str = "text") -> Report:
    """Each formula with its value, the parts it is the sum of, and the letters.

    `unit`: what the numbers count ("FLOPs", "bytes"); the first formula is the answer.
    """
    write = written(notation)
    main = next(iter(found.forms.values()))
    name = {"bytes": "cache_bytes"}.get(unit, unit.lower())
    answer = spelled(model, main, found.values, notation, name=name, what=unit)
    label = "exact" if found.exact else "estimate"

    def view() -> View:
        if notation in FOREIGN:
            return View(below=[answer])

        def row(name: str, poly: Poly) -> tuple[str, str, str]:
            return name, write(poly), f"{int(poly.value(found.values)):,}"

        return View(
            table=Table(
                ("part", "formula", unit),
                [row(*part) for part in (*found.parts.items(), *found.forms.items())],
                numbers=(2,),
            ),
            above=[f"{model.name}  ({model.architecture}), {label}"],
            below=legend_lines(found.letters),
            notes=notes(model, found.assumptions),
        )

    def document() -> dict[str, Any]:
        forms = {name: poly.text(ascii_only=True) for name, poly in found.forms.items()}
        return {
            **head(model),
            "total": main.text(ascii_only=True),
            **forms,
            "components": {name: poly.text(ascii_only=True) for name, poly in found.parts.items()},
            "legend": {code: entry.meaning for code, entry in found.letters.items()},
            "values": found.values,
            "numbers": {name: found.value(name) for name in found.forms},
            "unit": unit,
            "label": label,
            "assumptions": [*model.assumptions, *found.assumptions],
            "sources": model.sources,
        }

    return Report(answer, document, view)
