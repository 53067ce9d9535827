"""`sizer reconcile`: the terms between our number and somebody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer import units
from sizer.model import Model
from sizer.oracles.reconcile.figure import Figure, parse
from sizer.oracles.reconcile.search import Explanation, Found, search
from sizer.report.report import Report, Table, View

if TYPE_CHECKING:
    from sizer.checkpoint import Checkpoint

CONVENTIONS = (
    "our total: every parameter of the class, each tied tensor once; no buffers, no scales",
    "the fewest terms that make the sum exact; with equally many, the likelier first",
)


def report(model: Model | Checkpoint, number: str, *, dtype: str | None = None) -> Report:
    """What turns our number into `number`, exactly; exit 1 where nothing that is known does."""
    figure = parse(number, dtype=dtype)
    found = _search(model, figure)
    best = found.explanations[0] if found.explanations else found.nearest
    ok = bool(found.explanations)

    def document() -> dict[str, Any]:
        return {
            **_head(model),
            "ok": ok,
            "figure": figure.text,
            "unit": figure.unit,
            "target": _target(figure, best),
            "exact": ok and best is not None and best.reading.exact,
            "reading": best.reading.note if best is not None else "",
            "total": _start(found, best),
            "terms": _terms(best),
            "value": best.value if best is not None else found.start,
            "residual": _target(figure, best) - (best.value if best is not None else found.start),
            "alternatives": [
                {"reading": one.reading.note, "terms": _terms(one), "value": one.value}
                for one in found.explanations[1:]
            ],
            "assumptions": [*_assumptions(model), *CONVENTIONS],
            "sources": _sources(model),
        }

    def view() -> View:
        return View(
            table=_table(figure, found, best, ok),
            above=[f"{model.name}: {figure.text}"],
            below=_below(figure, found, best, ok),
            notes=[*_assumptions(model), *CONVENTIONS, *(f"source: {s}" for s in _sources(model))],
        )

    return Report(_quiet(figure, found, best, ok), document, view, int(not ok), _talk(model))


def _search(model: Model | Checkpoint, figure: Figure) -> Found:
    if isinstance(model, Model):
        from sizer.oracles.reconcile.variants import of_bytes, variants

        return search(of_bytes(model) if figure.stored else variants(model), figure)
    from sizer.oracles.reconcile.of_checkpoint import variants_of

    return search(variants_of(model), figure)


def _head(model: Model | Checkpoint) -> dict[str, Any]:
    if isinstance(model, Model):
        from sizer.report.count import head

        return head(model)
    from sizer.report.checkpoint import head as checkpoint_head

    return checkpoint_head(model)


def _assumptions(model: Model | Checkpoint) -> list[str]:
    return model.assumptions if isinstance(model, Model) else model.remarks


def _sources(model: Model | Checkpoint) -> list[str]:
    if isinstance(model, Model):
        return model.sources
    return [f"headers of {file}" for file in model.contents.files[:1000]]


def _talk(model: Model | Checkpoint) -> list[str]:
    if isinstance(model, Model):
        return []
    from sizer.report.checkpoint import talk

    return talk(model)


def _start(found: Found, best: Explanation | None) -> int:
    return found.start if best is None else best.start


def _target(figure: Figure, best: Explanation | None) -> int:
    """The number in the unit of the sum: bytes as elements, where a width was taken for them."""
    if best is None or best.stored or not best.reading.bits:
        return figure.value
    return (best.reading.low + best.reading.high) // 2


def _terms(one: Explanation | None) -> list[dict[str, Any]]:
    terms = one.terms if one is not None else ()
    return [{"name": t.name, "amount": t.amount, "formula": t.formula, "why": t.why} for t in terms]


def _quiet(figure: Figure, found: Found, best: Explanation | None, ok: bool) -> str:
    if best is None:
        return f"{found.start:,}"
    parts = [f"{best.start:,}", *(f"{_signed(t.amount)} ({t.name})" for t in best.terms)]
    if ok and best.reading.exact:
        return f"{' '.join(parts)} = {best.value:,}"
    if ok:
        how = f" ({best.reading.note})" if best.reading.note else ""
        total = f" = {best.value:,}" if best.terms else ""
        return f"{' '.join(parts)}{total} ≈ {figure.text}{how}"
    return f"{' '.join(parts)} {_signed(best.residual)} (unexplained)"


def _signed(amount: int) -> str:
    return f"{'−' if amount < 0 else '+'} {abs(amount):,}"


def _table(figure: Figure, found: Found, best: Explanation | None, ok: bool) -> Table:
    first = (
        "bytes of what is stored" if best is not None and best.stored and not best.terms else "sizer counts"
    )
    rows = [(first, f"{_start(found, best):,}", "")]
    terms = best.terms if best is not None else ()
    rows += [(term.name, _signed(term.amount), _clipped(term.formula)) for term in terms]
    if best is not None:
        if not ok:
            rows.append(("not explained", _signed(best.residual), ""))
        sum_of_all = best.value if ok else best.value + best.residual
        rows.append((f"= {figure.text}", f"{sum_of_all:,}", best.reading.note))
    return Table(("term", "amount", "formula"), rows, numbers=(1,), records=_terms(best))


def _clipped(formula: str, most: int = 44) -> str:
    return formula if len(formula) <= most else f"{formula[: most - 1]}…"


def _below(figure: Figure, found: Found, best: Explanation | None, ok: bool) -> list[str]:
    if best is None:
        return [f"No reading of {figure.text} is a number of elements."]
    lines = [_sentence(figure, best) if ok else _unexplained(figure, best)]
    lines += [f"  {term.name}: {term.why}" for term in best.terms]
    if len(found.explanations) > 1:
        lines.append("")
        lines.append("Equally short:")
        for one in found.explanations[1:]:
            names = ", ".join(f"{_signed(t.amount)} {t.name}" for t in one.terms) or "our total"
            note = f"  ({one.reading.note})" if one.reading.note else ""
            lines.append(f"  {names} = {one.value:,}{note}")
    return lines


def _sentence(figure: Figure, best: Explanation) -> str:
    names = [term.name for term in best.terms]
    if best.reading.exact:
        if not names:
            how = f", as {best.reading.note}" if best.reading.note else ""
            return f"{figure.text} is our own number{how}."
        return f"The difference is exact: {_listed(names)}."
    how = f" ({best.reading.note})" if best.reading.note else ""
    short = units.size(best.value) if best.stored else units.count(best.value)
    number = f"{best.value:,} ({short})"
    if not names:
        return f"{figure.text} is a rounded figure, and our {number} is within its digits{how}."
    return f"{figure.text} is a rounded figure, and {number} is within its digits{how}: {_listed(names)}."


def _unexplained(figure: Figure, best: Explanation) -> str:
    names = [term.name for term in best.terms]
    nearest = f"with {_listed(names)}" if names else "our own total"
    share = 100 * abs(best.residual) / max(best.value, 1)
    return (
        f"No sum of known terms makes {figure.text}; the nearest is {nearest}, "
        f"which leaves {best.residual:,} ({share:,.2f} %)."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
