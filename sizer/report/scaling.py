"""`sizer scaling`: what published laws say is best for a budget, a size, or a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sizer import __version__, units
from sizer.errors import InvalidConfig
from sizer.model import Model
from sizer.planning.scaling import FLOPS, LAWS, Loss, Optimum, OverTrained, law_named, optimum, over_trained
from sizer.report.report import Report, Table, View

ASSUMPTIONS = (
    "training takes 6 · params · tokens FLOPs",
    "a law holds for the data, the tokenizer and the architecture it was measured on, and for dense models",
    "a loss is in nats a token of that paper's data; compare losses of one law only",
)


def report(
    *,
    flops: int | None = None,
    params: int | None = None,
    model: Model | None = None,
    tokens: int | None = None,
    laws: Sequence[str] = (),
    plot: str | None = None,
    explain: bool = False,
) -> Report:
    """One row a law: the best size for a budget, the budget for a size, or how far a run is from it."""
    if model is not None:
        if params is not None:
            raise InvalidConfig("--model and --params both say a size; give one")
        params = int(model.count().total)
    if (flops is None) == (params is None):
        raise InvalidConfig(
            "give a budget (--flops 1e22) or a size (--params 8B, --model NAME), one of the two"
        )
    if tokens is not None and params is None:
        raise InvalidConfig("--tokens goes with a size; a budget and its tokens give the size by themselves")
    chosen = tuple(laws) or tuple(LAWS)
    if plot is not None:
        from sizer.report import figure

        figure.check(plot)
    best = [optimum(law, flops=flops, params=params) for law in chosen]
    if plot is not None:
        from sizer.report.isoflop import draw

        # The highest budget drawn is that of the run, where there is one.
        spent = best if tokens is None or params is None else [_spent(law, params, tokens) for law in chosen]
        draw([one for one in spent if isinstance(one.law.rule, Loss)], plot, params=params, tokens=tokens)
    if tokens is not None and params is not None:
        return _of_a_run([over_trained(law, params, tokens) for law in chosen], explain)
    return _of_a_budget(best, flops is None, explain)


def _spent(law: str, params: int, tokens: int) -> Optimum:
    return optimum(law, flops=float(FLOPS * params * tokens))


def _of_a_budget(best: Sequence[Optimum], sized: bool, explain: bool) -> Report:
    records = [
        {
            "law": one.name,
            "flops": one.flops,
            "params": one.params,
            "tokens": one.tokens,
            "tokens_per_param": one.tokens / one.params,
            "loss": one.loss,
        }
        for one in best
    ]
    rows = [
        (
            one.name,
            f"{one.flops:.3g}",
            units.count(int(one.params)),
            units.count(int(one.tokens)),
            f"{one.tokens / one.params:,.1f}",
            "" if one.loss is None else f"{one.loss:.3f}",
        )
        for one in best
    ]
    above = (
        f"the budget for which {units.count(int(best[0].params))} parameters are best"
        if sized
        else f"the best size for {best[0].flops:.4g} FLOPs"
    )
    table = Table(
        ("law", "flops", "params", "tokens", "tokens a param", "loss"), rows, (1, 2, 3, 4, 5), records
    )
    value = f"{best[0].flops:.6g}" if sized else f"{best[0].params:.6g}"
    return _report(value, records, table, above, [one.name for one in best], explain)


def _of_a_run(runs: Sequence[OverTrained], explain: bool) -> Report:
    records = [dict(one._asdict()) for one in runs]
    rows = [
        (
            one.law,
            units.count(int(one.best_tokens)),
            f"{one.times:,.3g} ×",
            "" if one.loss is None else f"{one.loss:.3f}",
            "" if one.same_loss_params is None else units.count(int(one.same_loss_params)),
            "" if one.overhead is None else f"{one.overhead:.2f} ×",
        )
        for one in runs
    ]
    first = runs[0]
    above = (
        f"{units.count(int(first.params))} parameters on {units.count(int(first.tokens))} tokens: "
        f"{first.flops:.4g} FLOPs, {first.tokens / first.params:,.0f} tokens a parameter"
    )
    headers = ("law", "best tokens", "these are", "loss", "best size at that loss", "compute beyond it")
    table = Table(headers, rows, (1, 2, 3, 4, 5), records)
    return _report(f"{first.times:.6g}", records, table, above, [one.law for one in runs], explain)


def _report(
    value: str, records: list[dict[str, Any]], table: Table, above: str, laws: Sequence[str], explain: bool
) -> Report:
    sources = [law_named(law).source for law in laws]
    details = []
    for law in map(law_named, laws):
        details += [f"{law.formula}", f"    {law.source}" + (f"; {law.note}" if law.note else "")]

    def document() -> dict[str, Any]:
        return {
            "sizer_version": __version__,
            "model": None,
            "architecture": None,
            "label": "estimate",
            "laws": [{**r, "formula": law_named(r["law"]).formula} for r in records],
            "assumptions": list(ASSUMPTIONS),
            "sources": sources,
        }

    def view() -> View:
        notes = [*ASSUMPTIONS, *(f"source: {source}" for source in sources)]
        return View(table, [f"{above}, an estimate"], details if explain else [], notes)

    return Report(value, document, view)
