"""`sizer solve`: the sizes that reach a number of parameters, nearest first."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any

from sizer import units
from sizer.core.config import letter, size_names
from sizer.errors import UnknownName
from sizer.loading import from_dict, from_preset, load
from sizer.model import Model
from sizer.planning.solving.solve import Answer, Solution, solve
from sizer.planning.solving.targets import Target
from sizer.report.count import head, notes
from sizer.report.report import Report, Table, View

# Where an architecture is named alone, sizes that are looked for begin somewhere.
PLACEHOLDERS = {"d_model": 1024, "n_layers": 2, "n_heads": 8, "n_kv_heads": 8, "d_ff": 4096, "d_head": 128}


def report(
    like: Model | str,
    free: str | Sequence[str],
    *,
    fixed: Mapping[str, Any] | None = None,
    cls: str | None = None,
    explain: bool = False,
    **options: Any,
) -> Report:
    """Answers with their deviation; no answer within the tolerance is a no.

    `like`: a model, or the name of a preset, a path, a model type or an architecture.
    """
    names = (
        [name.strip() for name in free.split(",") if name.strip()] if isinstance(free, str) else list(free)
    )
    given = dict(fixed or {})
    options = {key: value for key, value in options.items() if value is not None}
    model = like if isinstance(like, Model) else model_like(like, names, given, options, cls=cls)
    model, sizes = switched(model, given)
    found = solve(model, names, fixed=sizes, **options)
    best = found.answers[0] if found.answers else None

    def view() -> View:
        return View(
            _table(found),
            above=[f"{model.name}  ({model.architecture}): {_wanted(found.targets)}"],
            below=[*_below(found), *(_explained(model, found) if explain else [])],
            notes=notes(model, found.notes),
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "found": found.found,
            "targets": {target.name: target.value for target in found.targets},
            "tolerance": float(found.tolerance),
            "answers": [record(answer, found.targets) for answer in found.answers],
            "steps": found.steps,
            "assumptions": [*model.assumptions, *found.notes],
            "sources": model.sources,
        }

    value = "" if best is None else " ".join(f"{name}={size}" for name, size in best.sizes.items())
    return Report(value, document, view, exit_code=0 if found.found else 1)


def model_like(
    name: str,
    free: Sequence[str],
    given: dict[str, Any],
    options: Mapping[str, Any],
    *,
    cls: str | None = None,
) -> Model:
    """The model that gives the other fields: a preset, a file, a model type, or an architecture."""
    from sizer.architectures.index import ARCHITECTURE_MODULES, HF_MODULES
    from sizer.sources.presets import preset

    if os.path.exists(name) or name.endswith((".json", ".toml")) or name.startswith((".", "/", "~")):
        return load(name, cls=cls)
    try:
        preset(name)
    except UnknownName as error:
        if name in HF_MODULES:
            return from_dict({"model_type": name}, name=name, cls=cls)
        if name in ARCHITECTURE_MODULES:
            return _bare(name, free, given, options)
        known = [*HF_MODULES, *ARCHITECTURE_MODULES]
        raise error if error.nearest else UnknownName("preset or model type", name, known) from None
    return from_preset(name, cls=cls)


def _bare(name: str, free: Sequence[str], given: dict[str, Any], options: Mapping[str, Any]) -> Model:
    """An architecture by its name alone: what is not looked for has to be set."""
    from sizer.architectures.registry import architecture
    from sizer.sources.values import canonical, validated

    config = architecture(name).config
    hidden = "d_ff_expert" if hasattr(config, "d_ff_expert") else "d_ff"
    follows = {"d_head": "n_heads", "kv_ratio": "n_kv_heads", "ff_ratio": hidden}
    unknown = [
        *(canonical(one, config) for one in free),
        *(follows[key] for key in follows if key in options),
    ]
    fields = {key: PLACEHOLDERS.get(key, 64) for key in unknown}
    known = {canonical(key, config): value for key, value in given.items()}
    return Model(name, name, validated({**fields, **known}, config))


def switched(model: Model, given: Mapping[str, Any]) -> tuple[Model, dict[str, int]]:
    """The model with its switches set, and the sizes that are to be fixed."""
    from sizer.sources.values import canonical_once, validated

    config = type(model.config)
    named = canonical_once(given, config)
    sizes = {n: v for n, v in named.items() if n in size_names(config) and type(v) is int}
    others = {n: v for n, v in named.items() if n not in sizes}
    if others:
        checked = validated({**model.given, **others}, config)
        model = model.with_values(**{name: checked[name] for name in others})
    return model, sizes


def record(answer: Answer, targets: Sequence[Target]) -> dict[str, Any]:
    """An answer as plain values; `deviation` is relative, and 0 is exact."""
    return {
        "sizes": answer.sizes,
        "params": answer.params,
        "active": answer.active,
        "measures": {target.name: ceil(answer.measures[target.name]) for target in targets},
        "deviation": float(answer.deviation),
        "exact": answer.deviation == 0,
    }


def _table(found: Solution) -> Table:
    names = list(dict.fromkeys(name for answer in found.answers for name in answer.sizes))
    moe = any(answer.active != answer.params for answer in found.answers)
    others = [target.name for target in found.targets if target.name not in ("params", "active")]
    headers = [*names, "params", *(["active"] if moe else []), *others, "deviation"]
    rows = []
    records = []
    for answer in found.answers:
        cells = {**answer.sizes, "params": answer.params, "active": answer.active}
        cells |= {name: ceil(answer.measures[name]) for name in others}
        deviation = deviations(answer, found.targets)
        rows.append([*(f"{cells[name]:,}" if name in cells else "" for name in headers[:-1]), deviation])
        records.append({**{n: cells.get(n) for n in headers[:-1]}, "deviation": float(answer.deviation)})
    return Table(headers, rows, range(len(headers)), records=records)


def deviations(answer: Answer, targets: Sequence[Target]) -> str:
    """`exact`, or by how much each target is missed."""
    if answer.deviation == 0:
        return "exact"
    texts = []
    for target in targets:
        gap = (answer.measures[target.name] - target.value) / target.value
        text = "exact" if gap == 0 else f"{percent(gap)}"
        texts.append(text if len(targets) == 1 else f"{target.name} {text}")
    return ", ".join(texts)


def percent(gap: Fraction) -> str:
    """A relative difference with two digits that count.

    >>> percent(Fraction(-1, 2000)), percent(Fraction(3, 10**7))
    ('-0.050 %', '+0.000030 %')
    """
    value = 100 * float(gap)
    digits = 2
    while abs(value) < 0.95 * 10 ** (1 - digits) and digits < 12:
        digits += 1
    return f"{value:+.{digits}f} %"


def _wanted(targets: Sequence[Target]) -> str:
    texts = []
    for target in targets:
        if target.name in ("memory", "kv_per_token"):
            amount = f"{target.value:,} bytes"
        elif target.name == "flops":
            amount = units.flops(target.value)
        else:
            amount = f"{target.value:,}"
        texts.append(f"{target.name} {'at most' if target.at_most else '='} {amount}")
    return ", ".join(texts)


def _below(found: Solution) -> list[str]:
    lines = [f"- {note}" for note in found.notes]
    if found.found:
        return lines
    if not found.answers:
        return ["no sizes keep to all that is asked of them", *lines]
    return [f"none is within {float(100 * found.tolerance):g} %; these are the nearest", *lines]


def _explained(model: Model, found: Solution) -> list[str]:
    """The polynomials that are solved, and what the first answer puts into them."""
    kind = type(model.config)
    # Of fields that share a letter (how many layers, and what each of them is) the first is the size.
    fields = {letter(kind, name): name for name in reversed(size_names(kind))}
    names = {"flops": "active", "memory": "params"}
    rules = {
        "flops": "FLOPs of training = 6 · active · tokens",
        "memory": "bytes of the weights = params · bits / 8",
    }
    lines = [""]
    used: set[str] = set()
    for target in found.targets:
        lines.append(f"{names.get(target.name, target.name)} = {target.poly.text(ascii_only=True)}")
        used |= target.poly.letters
        if target.name in rules:
            lines.append(rules[target.name])
    config = (found.answers[0].model if found.answers else model).config
    lines += [
        f"{code:<4} {field} = {getattr(config, field):,}"
        for code, field in reversed(fields.items())
        if code in used and type(getattr(config, field)) is int
    ]
    return [*lines, f"{found.steps:,} combinations looked at; each answer is counted again by the ledger"]
