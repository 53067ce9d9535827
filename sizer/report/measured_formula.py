"""`sizer formula --of …`: the closed form of a measure other than the count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sizer.core.poly import ONE_SEQUENCE
from sizer.measures.formula import Letter, legend
from sizer.measures.step.simulate import Settings
from sizer.measures.step_forms import StepForm, activations_form, memory_form
from sizer.model import Model
from sizer.report.count import head, legend_lines, notes
from sizer.report.formula import FOREIGN, spelled
from sizer.report.report import Report, View

MEASURES: dict[str, Callable[[Model, Settings], StepForm]] = {
    "activations": activations_form,
    "memory": memory_form,
}


def report(model: Model, measure: str, settings: Settings, *, notation: str = "text") -> Report:
    """The closed form over letters, its value, what each letter stands for, and where it holds."""
    found = MEASURES[measure](model, settings)
    form = found.form
    letters = legend(model, form.letters)
    for code, field, size, meaning in (
        ("B", "batch_size", settings.batch_size, "sequences"),
        ("T", "seq_len", settings.seq_len, "tokens a sequence"),
        (ONE_SEQUENCE, "batch_size", int(settings.batch_size == 1), "1 for one sequence, else 0"),
    ):
        if code in form.letters:
            letters[code] = Letter(field, size, meaning)
    values = {code: entry.value for code, entry in letters.items()}
    named = {code: entry for code, entry in letters.items() if code.isidentifier()}
    assumptions = [*model.assumptions, *found.assumptions]
    text = spelled(model, form, values, notation, name=f"{measure}_bytes", what="Bytes")
    n_bytes = int(form.value(values))
    holds = " and ".join(found.holds).replace(">=", "≥").replace("<=", "≤")
    conditions = [f"for {holds}", *found.assumptions]

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "of": measure,
            "total": form.text(ascii_only=True),
            "value": n_bytes,
            "holds": found.holds,
            "values": {code: entry.value for code, entry in named.items()},
            "legend": {code: entry.meaning for code, entry in named.items()},
            "assumptions": assumptions,
            "sources": model.sources,
        }

    def view() -> View:
        if notation in FOREIGN:
            return View(below=[text])
        return View(
            above=[f"{model.name}  ({model.architecture})"],
            below=[text, "", f"= {n_bytes:,} {found.what}", "", *legend_lines(letters), "", *conditions],
            notes=notes(model),
        )

    return Report(text, document, view)
