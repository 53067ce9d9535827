"""`sizer memory`: the bytes of a training step or of inference, and how they come about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sizer import units
from sizer.core.record import Record
from sizer.errors import UnknownName
from sizer.measures.context import warnings
from sizer.measures.memory import Training, training, training_formula
from sizer.measures.step.simulate import Settings
from sizer.model import Model
from sizer.report.count import head, notes
from sizer.report.report import Report, Table, View

if TYPE_CHECKING:
    from sizer.measures.activations import Ledger

UNITS = ("auto", "B", "GB", "GiB")
# What a picture runs along, and the words below its axis.
ALONG = {"seq-len": "tokens a sequence", "batch-size": "sequences"}


class Line(Record):
    """A part of the answer: its name, its bytes, and what it is."""

    __slots__ = ("n_bytes", "name", "what")

    def __init__(self, name: str, n_bytes: int, what: str = "") -> None:
        self.name = name
        self.n_bytes = n_bytes
        self.what = what


def train_report(
    model: Model,
    settings: Settings,
    *,
    optimizer: str,
    foreach: bool,
    master_weights: bool,
    explain: bool,
    unit: str,
    quant: str | None = None,
) -> Report:
    """Weights, gradients, optimizer state, activations, and the peak with its moment."""
    how = {"optimizer": optimizer, "foreach": foreach, "master_weights": master_weights}
    found = training(model, settings, quant=quant, **how)  # type: ignore[arg-type]
    lines = [
        Line("weights", found.weights_bytes, quant or ""),
        *([Line("buffers", found.buffers_bytes)] if found.buffers_bytes else []),
        Line("gradients", found.gradients_bytes),
        Line("optimizer state", found.optimizer_bytes, optimizer),
        Line("activations", found.activations_bytes, "kept for the backward pass"),
    ]
    if found.host_bytes:
        lines.append(Line("on the host", found.host_bytes, f"offloaded {settings.offload}"))
    peak = f"peak {size(found.peak_bytes, unit)} ({found.peak_bytes:,} bytes)"
    below = [f"{peak} in the {found.moment}; {found.label}"]

    def view() -> View:
        more = [*below]
        if explain:
            more += ["", *_phases(found, unit)]
            if quant is None:
                _, form = training_formula(model, settings, **how)  # type: ignore[arg-type]
                more += ["", f"peak = {form}", f"with {_values(model, settings)}"]
                more += ["other sizes may peak at another moment, and one sequence differs from several"]
            more += ["", *_largest(model, settings)]
        return _view(model, lines, more, found.assumptions, found.sources, unit, explain)

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "mode": "train",
            **({} if quant is None else {"quant": quant}),
            "weights_bytes": found.weights_bytes,
            "buffers_bytes": found.buffers_bytes,
            "gradients_bytes": found.gradients_bytes,
            "optimizer_bytes": found.optimizer_bytes,
            "activations_bytes": found.activations_bytes,
            **({"host_bytes": found.host_bytes} if found.host_bytes else {}),
            "peak_bytes": found.peak_bytes,
            "moment": found.moment,
            "peaks": found.peaks,
            "label": found.label,
            "assumptions": [*model.assumptions, *found.assumptions],
            "sources": [*model.sources, *found.sources],
        }

    said = warnings(model, int(settings.seq_len))
    return Report(str(found.peak_bytes), document, view, talk=[f"warning: {text}" for text in said])


def infer_report(
    model: Model,
    *,
    batch_size: int,
    seq_len: int,
    dtype: str,
    kv_dtype: str | None,
    attention: str,
    explain: bool,
    unit: str,
    quant: str | None = None,
) -> Report:
    """Weights, cache, and the activations of a prefill."""
    from sizer.measures.inference import inference

    found = inference(
        model,
        batch_size=batch_size,
        seq_len=seq_len,
        dtype=dtype,
        kv_dtype=kv_dtype,
        attention=attention,
        quant=quant,
    )
    lines = [
        Line("weights", found.weights_bytes, quant or dtype),
        *([Line("buffers", found.buffers_bytes)] if found.buffers_bytes else []),
        Line("KV cache", found.kv_cache_bytes, f"{batch_size} × {seq_len} tokens"),
        Line("activations", found.activations_bytes, "of the prefill"),
    ]

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "mode": "infer",
            **({} if quant is None else {"quant": quant}),
            "weights_bytes": found.weights_bytes,
            "buffers_bytes": found.buffers_bytes,
            "kv_cache_bytes": found.kv_cache_bytes,
            "activations_bytes": found.activations_bytes,
            "logits_bytes": found.logits_bytes,
            "total_bytes": found.total_bytes,
            "label": found.label,
            "assumptions": [*model.assumptions, *found.assumptions],
            "sources": [*model.sources, *found.sources],
        }

    below = [f"total {size(found.total_bytes, unit)} ({found.total_bytes:,} bytes); {found.label}"]
    said = warnings(model, seq_len)
    return Report(
        str(found.total_bytes),
        document,
        lambda: _view(model, lines, below, found.assumptions, found.sources, unit, explain),
        talk=[f"warning: {text}" for text in said],
    )


def published_report(model: Model, name: str, *, unit: str, **sizes: Any) -> Report:
    """A formula that others published, by name."""
    from sizer.measures.published import published

    found = published(model, name, **sizes)

    def view() -> View:
        return View(
            above=[f"{model.name}  ({model.architecture})"],
            below=[
                f"{found.what}: {size(found.n_bytes, unit)} ({found.n_bytes:,} bytes); estimate",
                f"{found.name}: {found.formula}",
                *found.assumptions,
                f"source: {found.source}",
            ],
            notes=notes(model),
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "estimate": found.name,
            "of": found.what,
            "bytes": found.n_bytes,
            "formula": found.formula,
            "label": "estimate",
            "assumptions": [*model.assumptions, *found.assumptions],
            "sources": [*model.sources, found.source],
        }

    return Report(str(found.n_bytes), document, view)


def ledger_report(model: Model, settings: Settings, *, unit: str) -> Report:
    """Every tensor that the forward pass keeps."""
    from sizer.measures.activations import activations

    found = activations(model, settings)

    def view() -> View:
        rows = [
            (
                entry.module,
                entry.op,
                "×".join(map(str, entry.shape)) or "1",
                entry.dtype,
                f"{entry.layers:,}",
                f"{entry.n_bytes:,}",
                "parameter" if entry.name else "" if entry.new else "kept above",
            )
            for entry in found.entries
        ]
        headers = ("module", "op", "shape", "dtype", "times", "bytes each", "")
        return View(
            table=Table(headers, rows, numbers=(4, 5), records=_records(found)),
            above=[f"{model.name}  ({model.architecture})"],
            below=[
                f"{found.n_tensors:,} tensors, {size(found.total, unit)} ({found.total:,} bytes) of storage"
            ],
            notes=notes(model),
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "activations_bytes": found.total,
            "entries": _records(found),
            "assumptions": model.assumptions,
            "sources": model.sources,
        }

    return Report(str(found.total), document, view)


def size(n_bytes: int, unit: str) -> str:
    """Bytes in the unit that is asked for; GB (10⁹) by itself."""
    if unit == "auto":
        return units.size(n_bytes)
    if unit == "B":
        return f"{n_bytes:,} B"
    divisor = {"GB": 10**9, "GiB": 2**30}.get(unit)
    if divisor is None:
        raise UnknownName("unit", unit, UNITS, hint=", ".join(UNITS))
    return f"{n_bytes / divisor:.3f} {unit}"


def _records(found: Ledger) -> list[dict[str, Any]]:
    return [
        {
            "module": entry.module,
            "op": entry.op,
            "shape": list(entry.shape),
            "dtype": entry.dtype,
            "times": entry.layers,
            "bytes": entry.n_bytes,
            "new_storage_bytes": entry.new,
            "parameter": entry.name or None,
        }
        for entry in found.entries
    ]


def _phases(found: Training, unit: str) -> list[str]:
    return [f"most in the {phase}: {size(n_bytes, unit)}" for phase, n_bytes in found.peaks.items()]


def _values(model: Model, settings: Settings) -> str:
    values = {**model.symbolic[1], "B": settings.batch_size, "T": settings.seq_len}
    return ", ".join(f"{letter} = {value:,}" for letter, value in values.items())


def _largest(model: Model, settings: Settings, most: int = 8) -> list[str]:
    from sizer.measures.activations import activations

    found = activations(model, settings)
    kept = sorted((entry for entry in found.entries if entry.new), key=lambda e: -e.new * e.layers)
    return [
        "the largest of what is kept:",
        *(
            f"  {entry.module} ({entry.op}): {'×'.join(map(str, entry.shape))} {entry.dtype}"
            f" · {entry.layers} = {entry.new * entry.layers:,} bytes"
            for entry in kept[:most]
        ),
    ]


def _view(
    model: Model,
    lines: Iterable[Line],
    below: list[str],
    assumptions: Iterable[str],
    sources: Iterable[str],
    unit: str,
    explain: bool,
) -> View:
    rows = [(line.name, size(line.n_bytes, unit), f"{line.n_bytes:,}", line.what) for line in lines]
    records = [{"part": line.name, "bytes": line.n_bytes} for line in lines]
    told = [*assumptions, *(f"source: {source}" for source in sources)]
    return View(
        table=Table(("part", "size", "bytes", ""), rows, numbers=(1, 2), records=records),
        above=[f"{model.name}  ({model.architecture})"],
        below=[*below, *(["", *told] if explain else [])],
        notes=[*notes(model), *([] if explain else told)],
    )
