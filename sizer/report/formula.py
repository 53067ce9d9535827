"""`sizer formula`: the closed form of a count, in the notation that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from sizer.core.poly import Poly, as_poly
from sizer.errors import UnknownName
from sizer.measures.formula import Formula, elasticity, formula, label, switches
from sizer.model import Model
from sizer.report.count import head, legend_lines, notes
from sizer.report.report import Report, Table, View

# For other programs, and not for a table.
FOREIGN = ("latex", "mathml", "python")
NOTATIONS = ("text", "ascii", *FOREIGN)


def report(
    model: Model, *, keep: Sequence[str] = (), diff: str | None = None, notation: str = "text"
) -> Report:
    """The formula of a block, of each component, and of the total.

    `keep`: the letters that stay; the others are replaced by their values.
    `diff`: the letter in which to differentiate.
    """
    found = formula(model)
    values = {code: entry.value for code, entry in found.letters.items()}
    for code in [*keep, *([diff] if diff else [])]:
        if code not in values:
            raise UnknownName("letter", code, values, hint=f"the formula has {', '.join(values)}")
    fixed = {code: value for code, value in values.items() if code not in keep} if keep else {}
    if diff:
        return _derivative(model, found, diff, values, fixed, notation)
    write = written(notation)

    def shown(poly: Poly) -> str:
        return write(poly.subs(fixed) if fixed else poly)

    if fixed or notation in FOREIGN:
        total = spelled(model, found.form.total.subs(fixed), values, notation)
    else:
        total = found.form.text(ascii_only=notation == "ascii")

    def view() -> View:
        return _view(model, found, shown, total, values, notation)

    return Report(total, lambda: _document(model, found, fixed, values), view)


def _view(
    model: Model,
    found: Formula,
    shown: Callable[[Poly], str],
    total: str,
    values: dict[str, int],
    notation: str,
) -> View:
    if notation in FOREIGN:
        return View(below=[total])

    def row(name: str, poly: Poly, text: str | None = None) -> tuple[str, str, str]:
        return name, text or shown(poly), f"{poly.value(values):,}"

    blocks = [row(f"{label(g, found.form)}, each", g.each) for g in found.form.groups]
    components = [row(name, poly) for name, poly in found.component_polys.items()]
    flags = ", ".join(f"{k}={str(v).lower()}" for k, v in switches(model).items())
    return View(
        table=Table(
            ("part", "formula", "params"),
            [*blocks, *components, row("total", found.form.total, total)],
            numbers=(2,),
        ),
        above=[f"{model.name}  ({model.architecture})"],
        below=[*legend_lines(found.letters), f"with {flags}"],
        notes=notes(model),
    )


def _document(model: Model, found: Formula, fixed: dict[str, int], values: dict[str, int]) -> dict[str, Any]:
    def ascii_(poly: Poly) -> str:
        left = poly.subs(fixed)
        return left.text(ascii_only=True) if isinstance(left, Poly) else str(left)

    return {
        **head(model),
        "total": ascii_(found.form.total) if fixed else found.form.text(ascii_only=True),
        "block": {label(g, found.form): ascii_(g.each) for g in found.form.groups},
        "components": {name: ascii_(poly) for name, poly in found.component_polys.items()},
        "legend": found.legend,
        "values": values,
        "switches": switches(model),
        "assumptions": model.assumptions,
        "sources": model.sources,
    }


def _derivative(
    model: Model, found: Formula, diff: str, values: dict[str, int], fixed: dict[str, int], notation: str
) -> Report:
    total = found.form.total
    slope = total.derivative(diff)
    percent = elasticity(total, diff, values)
    at = slope.value(values)
    what = f"Derivative in {diff} of the parameters"
    answer = spelled(model, slope.subs(fixed), values, notation, name=f"params_by_{diff}", what=what)
    document = {
        **head(model),
        "derivative": slope.text(ascii_only=True),
        "with_respect_to": diff,
        "at": values,
        "value": at if isinstance(at, int) else float(at),
        "elasticity": percent,
        "assumptions": model.assumptions,
        "sources": model.sources,
    }
    if notation in FOREIGN:
        return Report(answer, lambda: document, lambda: View(below=[answer]))
    return Report(
        answer,
        lambda: document,
        lambda: View(
            above=[f"{model.name}  ({model.architecture})"],
            below=[
                f"∂params/∂{diff} = {answer}",
                f"at {diff} = {values[diff]:,}: {float(at):,.0f} more parameters for one more of {diff}",
                f"elasticity {percent:.3f}: one per cent more of {diff} is {percent:.2f} % more parameters",
                "",
                *legend_lines(found.letters),
            ],
            notes=notes(model),
        ),
    )


def spelled(
    model: Model,
    total: Poly | int | Fraction,
    values: dict[str, int],
    notation: str,
    *,
    name: str = "params",
    what: str = "Parameters",
) -> str:
    """A formula in a notation; in Python, as a function of its letters of that name."""
    if notation != "python":
        return written(notation)(total)
    poly = as_poly(total)
    letters = sorted(filter(str.isidentifier, poly.letters))
    call = ", ".join(f"{code}={values[code]}" for code in letters)
    return "\n".join(
        [
            f"def {name}({', '.join(letters)}):",
            f'    """{what} of {model.name}: {name}({call}) is {int(poly.value(values)):,}."""',
            f"    return {poly.text(ascii_only=True).replace('/', '//')}",
        ]
    )


def written(notation: str) -> Callable[[Any], str]:
    """How a formula is written in a notation."""
    if notation in ("text", "ascii", "python"):
        return lambda poly: poly.text(ascii_only=notation != "text") if isinstance(poly, Poly) else str(poly)
    import sympy

    def express(poly: Any) -> Any:
        return poly.to_sympy() if isinstance(poly, Poly) else sympy.Integer(poly)

    if notation == "latex":
        return lambda poly: str(sympy.latex(express(poly)))
    from sympy.printing.mathml import mathml

    return lambda poly: f"<math>{mathml(express(poly), printer='presentation')}</math>"
