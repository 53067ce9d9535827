"""`sizer derive`: the closed form of a module that sizer does not describe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import prod
from typing import Any

from sizer import __version__, units
from sizer.core.poly import Poly
from sizer.errors import BadInput, clip
from sizer.measures.formula import ClosedForm, Group, label
from sizer.oracles.derive.closed import Closed
from sizer.oracles.derive.derive import CHECKS, SEED, TIMEOUT, derive
from sizer.oracles.derive.expressions import arguments, constant, evaluate
from sizer.oracles.derive.folding import Derived
from sizer.oracles.derive.switches import Switch, Turn
from sizer.report.report import Report, Table, View

# Names in a line, of many that are alike.
SHOWN = 8
METHOD = "polynomial identity test at random points (Schwartz 1980, Zippel 1979)"
ASSUMPTIONS = (
    "the bound is that of a wrong polynomial of the same degrees; a module may still do something else "
    "beyond the sizes it was built at",
    "buffers are no parameters and are not derived",
)


def report(
    target: str,
    *,
    config: Mapping[str, Any] | str | None = None,
    config_class: str | None = None,
    timeout: float = TIMEOUT,
    checks: int = CHECKS,
    seed: int = SEED,
    tensors: bool = False,
    write: str | None = None,
) -> Report:
    """The closed form of `package.module:Class` or `transformers:Class`.

    `config`: values of arguments, as an object, a JSON text, or the path of a file with one.
    `write`: the path of an architecture file to write; it is counted again before this answers.
    """
    given = settings(config)
    if write is not None and not write.endswith(".py"):
        raise BadInput(f"{clip(write)} is no Python file; give --write a name that ends in .py")
    closed = derive(target, given, config_class=config_class, timeout=timeout, checks=checks, seed=seed)
    return reported(closed, tensors=tensors, write=write)


def reported(closed: Closed, *, tensors: bool = False, write: str | None = None) -> Report:
    """The report of a closed form that is at hand."""
    recounted = _written(closed, write) if write is not None else 0
    form = closed_form(closed.tensors)
    total = form.text(ascii_only=True)

    def view() -> View:
        return _view(closed, form, tensors, write, recounted)

    return Report(total, lambda: _document(closed, form, total, write), view)


def settings(config: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """The values that `--config` gives: JSON, or a file of it."""
    if config is None or isinstance(config, Mapping):
        return config or {}
    from sizer.sources.config_text import config_at
    from sizer.sources.json_text import parse_object

    if config.lstrip().startswith("{"):
        return parse_object(config, "--config")
    if not os.path.exists(config):
        raise BadInput(f"--config {clip(config)!r} is neither a JSON object nor a file")
    return config_at(config)


def closed_form(tensors: list[Derived]) -> ClosedForm:
    """The sum over all tensors, in the order of the module, what repeats in brackets."""
    alone = Poly({})
    groups: dict[tuple[str, Poly], Group] = {}
    order: list[Any] = []
    for tensor in tensors:
        if tensor.tied_to is not None:
            continue
        if tensor.times == 1 or not arguments(tensor.times):
            whole = tensor.each * tensor.times
            for monomial in whole.terms:
                if monomial not in order:
                    order.append(monomial)
            alone = alone + whole
            continue
        outer, *inner = tensor.levels or (tensor.times,)
        each = prod(inner, start=tensor.each)
        if outer * prod(inner, start=constant(1)) != tensor.times:
            outer, each = tensor.times, tensor.each
        key = stem(tensor.name), outer
        if key not in groups:
            order.append(len(groups))
            groups[key] = Group(key[0], outer, each)
        else:
            groups[key] = groups[key]._replace(each=groups[key].each + each)
    return ClosedForm(alone, list(groups.values()), order)


def modules(closed: Closed) -> dict[str, Poly]:
    """Parameters of each part: a repeated module, or a module outside of the repeats."""
    found: dict[str, Poly] = {}
    for tensor in closed.tensors:
        if tensor.tied_to is None:
            name = stem(tensor.name)
            found[name] = found.get(name, constant(0)) + tensor.each * tensor.times
    return found


def stem(name: str) -> str:
    """The part of a model that a tensor is counted with: what repeats, or its module.

    >>> stem("h.{}.mlp.weight"), stem("rnn.weight_l{}"), stem("head.weight")
    ('h', 'rnn', 'head')
    """
    before, repeated, _ = name.partition("{}")
    if repeated and (before.endswith(".") or not before):
        return before[:-1] or "*"
    return before.rpartition(".")[0] or before


def _written(closed: Closed, path: str) -> int:
    from sizer.oracles.derive.written import recounted, source

    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(source(closed))
    except OSError as error:
        raise BadInput(f"cannot write {clip(path)}: {error.strerror}") from None
    return recounted(path, closed)


def _used(closed: Closed, form: ClosedForm) -> list[str]:
    occurring = arguments(form.total)
    return [name for name in closed.values if name in occurring]


def _surety(closed: Closed) -> str:
    checked = closed.checked
    sure = f"; a wrong polynomial of these degrees passes with probability below {_small(checked.bound)}"
    return f"equal to the module at {checked.points} fresh random points, shape by shape{sure}"


def _small(bound: float | None) -> str:
    return "10⁻³⁰" if bound is None or bound < 1e-30 else f"{bound:.1g}"


def _view(closed: Closed, form: ClosedForm, tensors: bool, write: str | None, recounted: int) -> View:
    values = closed.values

    def row(name: str, poly: Poly, text: str | None = None) -> tuple[str, str, str]:
        return name, text or poly.text(), f"{evaluate(poly, values):,}"

    if tensors:
        rows = [
            (
                t.name.replace("{}", "*"),
                "[" + ", ".join(p.text() for p in t.shape) + "]",
                t.times.text(),
                f"is {t.tied_to.replace('{}', '*')}"
                if t.tied_to
                else f"{evaluate(t.each * t.times, values):,}",
            )
            for t in closed.tensors
        ]
        table = Table(("tensor", "shape", "times", "params"), rows, numbers=(3,), records=_records(closed))
    else:
        blocks = [row(f"{label(g, form)}, each", g.each) for g in form.groups]
        parts = [row(name, poly) for name, poly in modules(closed).items()]
        table = Table(
            ("part", "formula", "params"),
            [*blocks, *parts, row("total", form.total, form.text())],
            numbers=(2,),
        )
    below = legend_lines(closed, form)
    below += [f"assumes {rule}" for rule in closed.rules]
    below += [f"fixed: {f.letter} = {f.value}, {f.reason} ({f.evidence})" for f in closed.fixed]
    if closed.without_effect:
        kept = ", ".join(f"{name} = {values[name]}" for name in closed.without_effect)
        below.append(f"without effect at the sizes tried, kept as given: {kept}")
    below += [line for s in closed.switches for line in _switch_lines(s)]
    below += _unseen_lines(closed)
    below += ["", _surety(closed)]
    if write is not None:
        below.append(f"wrote {write}; it counts the same at {recounted} configurations")
    total = evaluate(closed.total, values)
    return View(
        table=table,
        above=[f"{closed.name}  ({units.count(int(total))} parameters as given)"],
        below=below,
        notes=[*ASSUMPTIONS, METHOD],
    )


def legend_lines(closed: Closed, form: ClosedForm) -> list[str]:
    """The arguments that occur, with their given values, and how to write those of a path."""
    used = _used(closed, form)
    width = max((len(name) for name in used), default=0)
    numbers = max((len(f"{closed.values[name]:,}") for name in used), default=0)
    lines = []
    for name in used:
        spelled = closed.arguments[name].spelled
        said = "" if spelled == name else f"  {spelled}"
        lines.append(f"{name.ljust(width)} = {closed.values[name]:>{numbers},}{said}")
    return lines


def _unseen_lines(closed: Closed) -> list[str]:
    """The switches that were not seen, by the reason."""
    reasons: dict[str, list[str]] = {}
    for turn in closed.unseen:
        reasons.setdefault(turn.why, []).append(_turned(turn))
    return [
        f"not seen, {why}: {', '.join(turns[:SHOWN])}"
        + (f" and {len(turns) - SHOWN} more" if len(turns) > SHOWN else "")
        for why, turns in reasons.items()
    ]


def _turned(switch: Switch | Turn) -> str:
    shown = {True: "true", False: "false"}
    return f"{switch.argument}={shown.get(switch.other, switch.other)}"  # type: ignore[call-overload]


def _switch_lines(switch: Switch) -> list[str]:
    head = _turned(switch)
    words = []
    for verb, names in (("adds", switch.added), ("removes", switch.removed), ("changes", switch.changed)):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            words.append(f"{verb} {', '.join(names[:3])}{more}")
    return [f"{head} {'; '.join(words)}"]


def _records(closed: Closed) -> list[dict[str, Any]]:
    return [
        {
            "name": t.name.replace("{}", "*"),
            "shape": [p.text(ascii_only=True) for p in t.shape],
            "times": t.times.text(ascii_only=True),
            "formula": (t.each * t.times).text(ascii_only=True),
            "params": int(evaluate(t.each * t.times, closed.values)),
            "tied_to": t.tied_to and t.tied_to.replace("{}", "*"),
        }
        for t in closed.tensors
    ]


def _document(closed: Closed, form: ClosedForm, total: str, write: str | None) -> dict[str, Any]:
    from sizer.oracles.torch import versions

    used = _used(closed, form)
    return {
        "sizer_version": __version__,
        "model": closed.name,
        "architecture": closed.name.rpartition(":")[2],
        "total": total,
        "block": {label(g, form): g.each.text(ascii_only=True) for g in form.groups},
        "components": {name: poly.text(ascii_only=True) for name, poly in modules(closed).items()},
        "legend": {name: closed.arguments[name].spelled for name in used},
        "values": {name: closed.values[name] for name in used},
        "params": {"total": int(evaluate(closed.total, closed.values))},
        "tensors": _records(closed),
        "rules": closed.rules,
        "fixed": [
            {
                "argument": closed.arguments[f.letter].spelled,
                "value": f.value,
                "reason": f.reason,
                "seen": f.evidence,
            }
            for f in closed.fixed
        ],
        "without_effect": [closed.arguments[name].spelled for name in closed.without_effect],
        "switches": [
            {
                "argument": s.argument,
                "value": s.value,
                "other": s.other,
                "adds": s.added,
                "removes": s.removed,
                "changes": s.changed,
            }
            for s in closed.switches
        ],
        "switches_not_seen": [turn._asdict() for turn in closed.unseen],
        "checked": {
            "points": closed.checked.points,
            "refused": closed.checked.refused,
            "bound": closed.checked.bound,
            "method": METHOD,
            "builds": closed.builder.builds,
        },
        "written": write,
        "versions": versions(),
        "assumptions": list(ASSUMPTIONS),
        "sources": [f"the module {closed.name}"],
    }
