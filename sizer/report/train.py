"""`sizer train`: compute, time, energy and cost of a run."""

from __future__ import annotations

from sizer import units
from sizer.errors import InvalidConfig
from sizer.model import Model
from sizer.planning.hardware import hardware
from sizer.planning.training_run import TrainingRun, checkpoint_bytes, rule_of, training_run
from sizer.report.count import head, notes
from sizer.report.report import Report, Table, View

ASSUMPTIONS = (
    "utilisation is that of the whole run, restarts and evaluation included, unless the hours leave them out",
    "energy is the rated power of the accelerators all the time, times the site's factor: an upper bound",
    "a checkpoint to resume from holds 16-bit weights, and an fp32 copy and two moments of AdamW",
)


def report(
    model: Model,
    *,
    accelerator: str,
    tokens: int | None = None,
    days: float | None = None,
    gpus: int | None = None,
    mfu: float | None = None,
    gpu_hours: float | None = None,
    achieved: int | None = None,
    peak: int | None = None,
    dtype: str = "bf16",
    rule: str = "6n",
    seq_len: int = 2048,
    checkpointing: str = "none",
    price: float | None = None,
    watts: float | None = None,
    pue: float = 1.0,
    hardware_file: str | None = None,
    explain: bool = False,
) -> Report:
    """A run from all but one of its figures."""
    chip = hardware(accelerator, file=hardware_file)
    for name, value in (("price", price), ("watts", watts), ("pue", pue)):
        if value is not None and not 0 <= value < float("inf"):
            raise InvalidConfig(f"{name} = {value} is below zero")
    run = training_run(
        model,
        chip,
        tokens=tokens,
        days=days,
        gpus=gpus,
        mfu=mfu,
        gpu_hours=gpu_hours,
        dtype=dtype,
        rule=rule,
        seq_len=seq_len,
        achieved=achieved,
        peak=peak,
        checkpointing=checkpointing,
    )
    hourly = price if price is not None else chip.price_per_hour
    power = watts if watts is not None else chip.watts
    energy = None if power is None else run.gpu_hours * power * pue / 1000
    cost = None if hourly is None else run.gpu_hours * hourly
    weights, resume = checkpoint_bytes(model)
    counted, _, _ = rule_of(model, "exact", seq_len)
    ratio = float(run.flops_per_token / counted)
    document = {
        **head(model),
        "accelerator": chip.name,
        "solved": run.solved,
        "label": "estimate",
        "tokens": run.tokens,
        "gpus": run.gpus,
        "days": run.days,
        "mfu": run.mfu,
        "hfu": run.hfu,
        "gpu_hours": run.gpu_hours,
        "flops": run.flops,
        "flops_per_token": float(run.flops_per_token),
        "rule": run.rule,
        "formula": f"{run.formula} · tokens",
        "ratio_to_count": ratio,
        "peak_flops_per_s": run.peak,
        "achieved_flops_per_s": run.achieved,
        "tokens_per_s": run.tokens_per_s,
        "tokens_per_param": run.tokens / int(model.count().total),
        "energy_kwh": energy,
        "watts": power,
        "pue": pue,
        "cost": cost,
        "price_per_hour": hourly,
        "checkpoint_bytes": {"weights": weights, "resume": resume},
        "assumptions": [*model.assumptions, *ASSUMPTIONS],
        "sources": [*model.sources, run.source, *chip.sources],
    }
    lines = _lines(run, energy, cost, hourly, power, pue, weights, resume, ratio)
    if explain:
        lines += ["", *_explained(run)]
    said = []
    if run.mfu > 1:
        said.append(f"mfu = {run.mfu:.3g} is more than the peak allows: one of the figures cannot be right")

    def view() -> View:
        return View(
            table=Table(("figure", "value", "", ""), _rows(run), numbers=(1,), records=[document]),
            above=[f"{model.name} on {chip.name}, an estimate; {run.solved} follows from the others"],
            below=lines,
            notes=notes(model, (*ASSUMPTIONS, f"rule {run.rule}: {run.source}")),
        )

    return Report(_figure(run), lambda: document, view, exit_code=1 if run.mfu > 1 else 0, talk=said)


def _figure(run: TrainingRun) -> str:
    value = getattr(run, "gpu_hours" if run.solved == "days" and run.days is None else run.solved)
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _rows(run: TrainingRun) -> list[tuple[str, str, str, str]]:
    def row(name: str, value: str, said: str = "") -> tuple[str, str, str, str]:
        return (name, value, said, "◂" if name == run.solved else "")

    rows = [row("tokens", f"{run.tokens:,}", units.count(run.tokens))]
    if run.gpus is not None:
        rows.append(row("gpus", f"{run.gpus:,}"))
    if run.days is not None:
        rows.append(row("days", f"{run.days:,.2f}"))
    rows += [
        row("mfu", f"{100 * run.mfu:.1f} %", f"{run.achieved / 1e12:,.1f} TFLOP/s each"),
        *([row("hfu", f"{100 * run.hfu:.1f} %", "with what is computed again")] if run.hfu else []),
        row("gpu_hours", f"{run.gpu_hours:,.0f}", "accelerators · hours"),
        row("flops", f"{run.flops:.4e}", f"{run.formula} · tokens"),
    ]
    return rows


def _lines(
    run: TrainingRun,
    energy: float | None,
    cost: float | None,
    hourly: float | None,
    power: float | None,
    pue: float,
    weights: int,
    resume: int,
    ratio: float,
) -> list[str]:
    lines = [f"{'peak':<18} {run.peak / 1e12:>18,.1f} TFLOP/s, dense"]
    if run.tokens_per_s is not None and run.gpus:
        lines.append(
            f"{'tokens a second':<18} {run.tokens_per_s:>18,.0f}  ({run.tokens_per_s / run.gpus:,.1f} each)"
        )
    if energy is not None:
        lines.append(f"{'energy':<18} {energy:>18,.0f} kWh  ({power:,.0f} W each, PUE {pue:g})")
    if cost is not None:
        lines.append(f"{'cost':<18} {cost:>18,.0f}  ({hourly:g} an hour each)")
    lines += [
        f"{'checkpoint':<18} {weights:>18,}  ({units.size(weights)} of 16-bit weights)",
        f"{'to resume':<18} {resume:>18,}  ({units.size(resume)} with AdamW's state)",
        f"{'rule':<18} {run.rule:>18}  ({ratio:.3f} × the FLOPs that sizer flops counts)",
    ]
    return lines


def _explained(run: TrainingRun) -> list[str]:
    each = float(run.flops_per_token)
    return [
        f"flops     = {run.formula} · tokens = {each:.6g} · {run.tokens:,} = {run.flops:.6g}",
        "gpu_hours = flops / (peak · mfu) / 3600"
        f" = {run.flops:.6g} / ({run.peak:.6g} · {run.mfu:.4g}) / 3600 = {run.gpu_hours:,.6g}",
        *([f"days      = gpu_hours / gpus / 24 = {run.days:,.6g}"] if run.days is not None else []),
        f"source: {run.source}",
    ]
