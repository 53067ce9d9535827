"""`sizer count --lora`: the parameters that adapters train."""

from __future__ import annotations

from typing import Any

from sizer import units
from sizer.measures.lora import adapters, parse
from sizer.model import Model
from sizer.report.count import head, notes
from sizer.report.report import Report, Table, View

SOURCE = "Hu et al. 2021, arXiv:2106.09685; PEFT's get_nb_trainable_parameters"


def report(model: Model, text: str) -> Report:
    """Each kind of adapted module, and the parameters of all."""
    lora = parse(text)
    found = adapters(model.rows("transformers"), lora)
    trainable = sum(adapter.params * adapter.copies for adapter in found)
    base = model.count().total
    records = [
        {"module": a.name, "modules": a.copies, "params_each": a.params, "params": a.params * a.copies}
        for a in found
    ]

    def view() -> View:
        rows = [
            (str(r["module"]), f"{r['modules']:,}", f"{r['params_each']:,}", f"{r['params']:,}")
            for r in records
        ]
        return View(
            table=Table(("module", "times", "params each", "params"), rows, (1, 2, 3), records),
            above=[f"{model.name}  ({model.architecture})"],
            below=[
                f"trainable {trainable:,} of {base + trainable:,}, {units.share(trainable, base + trainable)}"
            ],
            notes=[*notes(model), f"source: {SOURCE}"],
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "params": {"trainable": trainable, "base": base, "total": base + trainable},
            "lora": {"rank": lora.rank, "targets": list(lora.targets), "dora": lora.dora},
            "modules": records,
            "assumptions": model.assumptions,
            "sources": [*model.sources, SOURCE],
        }

    return Report(str(trainable), document, view)
