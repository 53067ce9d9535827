"""`sizer verify --what activations|peak`: a small model of the same kind, run for real."""

from __future__ import annotations

from typing import Any

from sizer.model import Model
from sizer.oracles import torch as oracle
from sizer.oracles.compare import Difference
from sizer.oracles.memory import measure
from sizer.report.count import head, notes
from sizer.report.report import Report, Table, View

# Small enough to run at once on a CPU; heads keep their count, so that a step takes the same ops.
SMALL = {"n_layers": 4, "vocab_size": 211, "n_ctx": 64}
BATCH, LENGTH = 2, 24
# Below the bytes of a few scalars that a step makes in passing.
SCALARS = 16


def report(model: Model, what: str) -> Report:
    """Equal, or what differs: the tensors saved for the backward pass, or the peak of each phase."""
    known = {key: value for key, value in SMALL.items() if getattr(model.config, key, None) is not None}
    small = model.with_values(**known)
    small.hf_config = None
    module = oracle.real(small)
    found = differences(small, module, what)

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "ok": not found,
            "what": what,
            "run_with": {**known, "batch_size": BATCH, "seq_len": LENGTH},
            "differences": [d._asdict() for d in found],
            "versions": oracle.versions(),
            "assumptions": model.assumptions,
            "sources": model.sources,
        }

    def view() -> View:
        run = ", ".join(f"{key} = {value}" for key, value in known.items())
        return View(
            table=Table(("difference", "name", "sizer", "torch"), [tuple(d) for d in found])
            if found
            else None,
            below=[f"{model.name}: {'equal' if not found else 'differs'} ({what}; run with {run})"],
            notes=notes(model),
        )

    return Report("equal" if not found else f"{len(found)} differences", document, view, int(bool(found)))


def differences(model: Model, module: Any, what: str) -> list[Difference]:
    """What differs between our step and the module's own, in fp32 with fused attention."""
    how: dict[str, Any] = {"batch_size": BATCH, "seq_len": LENGTH, "precision": "fp32", "attention": "sdpa"}
    real = measure(module, batch_size=BATCH, seq_len=LENGTH)
    if what == "peak":
        ours = model.memory(mode="train", **how).peaks
        return [
            Difference("peak", phase, f"{ours[phase]:,}", f"{real.peaks[phase]:,}")
            for phase in real.peaks
            if abs(ours[phase] - real.peaks[phase]) >= SCALARS
        ]
    ledger = model.activations(**how)
    ours_and_theirs = (
        ("tensors", ledger.n_tensors, sum(real.saved.values())),
        ("bytes", ledger.total, real.saved_bytes),
    )
    return [Difference("saved", name, f"{a:,}", f"{b:,}") for name, a, b in ours_and_theirs if a != b]
