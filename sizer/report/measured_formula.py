"""`sizer formula --of …`: the closed form of a measure other than the count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sizer.core.poly import Poly
from sizer.measures.activations import activations_formula
from sizer.measures.formula import Letter, legend
from sizer.measures.memory import training_formula
from sizer.measures.step.simulate import Settings
from sizer.model import Model
from sizer.report.count import head, legend_lines, notes
from sizer.report.formula import FOREIGN, spelled
from sizer.report.report import Report, View


def _activations(model: Model, settings: Settings) -> tuple[Poly, str]:
    return activations_formula(model, settings), "bytes kept for the backward pass"


def _memory(model: Model, settings: Settings) -> tuple[Poly, str]:
    found, form = training_formula(model, settings)
    return form, f"bytes at the peak, in the {found.moment}"


MEASURES: dict[str, Callable[[Model, Settings], tuple[Poly, str]]] = {
    "activations": _activations,
    "memory": _memory,
}


def report(model: Model, measure: str, settings: Settings, *, notation: str = "text") -> Report:
    """The closed form over letters, its value, and what each letter stands for."""
    form, what = MEASURES[measure](model, settings)
    letters = legend(model, form.letters)
    for code, field, size, meaning in (
        ("B", "batch_size", settings.batch_size, "sequences"),
        ("T", "seq_len", settings.seq_len, "tokens a sequence"),
    ):
        if code in form.letters:
            letters[code] = Letter(field, size, meaning)
    values = {code: entry.value for code, entry in letters.items()}
    text = spelled(model, form, values, notation, name=f"{measure}_bytes", what="Bytes")
    n_bytes = int(form.value(values))

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "of": measure,
            "total": form.text(ascii_only=True),
            "value": n_bytes,
            "values": values,
            "legend": {code: entry.meaning for code, entry in letters.items()},
            "assumptions": model.assumptions,
            "sources": model.sources,
        }

    def view() -> View:
        if notation in FOREIGN:
            return View(below=[text])
        return View(
            above=[f"{model.name}  ({model.architecture})"],
            below=[text, "", f"= {n_bytes:,} {what}", "", *legend_lines(letters)],
            notes=notes(model),
        )

    return Report(text, document, view)
