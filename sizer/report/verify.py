"""`sizer verify`: our tensors against those of the real torch module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sizer import __version__
from sizer.errors import SizerError
from sizer.model import Model
from sizer.oracles import torch as oracle
from sizer.oracles.compare import Difference, Found, compare, is_old_mask
from sizer.report.count import head, notes
from sizer.report.report import Report, Table, View

MOST_SHOWN = 40


def differences(model: Model, *, level: str = "names") -> list[Difference]:
    """What differs between a model and the module it describes."""
    return compare_with(model, oracle.tensors(oracle.build(model)), level=level)


def compare_with(model: Model, theirs: Iterable[Found], *, level: str = "names") -> list[Difference]:
    """What differs between a model and the tensors of a module."""
    found = list(theirs)
    ours = model.tensors(layout="transformers")
    # The masks that old checkpoints carry are no part of today's modules.
    names = {tensor.name for tensor in found}
    ours = [
        t for t in ours if t.kind == "param" or t.name in names or not t.persistent or not is_old_mask(t.name)
    ]
    return compare(ours, found, level=level)


def report(model: Model, *, level: str = "names") -> Report:
    """Equal, or a table of what differs; exit 1 where anything does."""
    found = differences(model, level=level)
    versions = oracle.versions()

    def view() -> View:
        against = ", ".join(f"{name} {version}" for name, version in versions.items())
        if not found:
            return View(
                below=[f"{model.name}: equal, {model.count().total:,} parameters ({level}; {against})"],
                notes=notes(model),
            )
        return View(
            table=Table(("difference", "name", "sizer", "torch"), [tuple(d) for d in found[:MOST_SHOWN]]),
            above=[f"{model.name}: {len(found)} differences ({level}; {against})"],
            below=[f"… and {len(found) - MOST_SHOWN} more (--json lists all)"]
            if len(found) > MOST_SHOWN
            else [],
            notes=notes(model),
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "ok": not found,
            "level": level,
            "differences": [d._asdict() for d in found],
            "versions": versions,
            "assumptions": model.assumptions,
            "sources": model.sources,
        }

    return Report("equal" if not found else f"{len(found)} differences", document, view, int(bool(found)))


class Outcome:
    """What became of one model of many."""

    def __init__(self, name: str, found: list[Difference], reason: str = "") -> None:
        self.name = name
        self.differences = found
        self.reason = reason

    @property
    def word(self) -> str:
        """In one word."""
        return "nothing to compare with" if self.reason else "differs" if self.differences else "equal"


def outcome(model: Model, *, level: str = "names") -> Outcome:
    """One model of many: a reason, rather than an error, where it has no public module."""
    try:
        return Outcome(model.name, differences(model, level=level))
    except SizerError as error:
        return Outcome(model.name, [], str(error))


def report_all(outcomes: list[Outcome], *, level: str) -> Report:
    """All presets, a row each."""
    bad = [o for o in outcomes if o.differences]

    def view() -> View:
        rows = [
            (o.name, o.word, "; ".join(f"{d.kind} {d.name}" for d in o.differences[:2]) or o.reason)
            for o in outcomes
        ]
        equal = sum(o.word == "equal" for o in outcomes)
        unknown = len(outcomes) - equal - len(bad)
        return View(
            table=Table(("model", "result", ""), rows),
            below=[f"{equal} equal, {len(bad)} differ, {unknown} without a module ({level})"],
        )

    def document() -> dict[str, Any]:
        return {
            "sizer_version": __version__,
            "ok": not bad,
            "level": level,
            "versions": oracle.versions(),
            "models": [
                {
                    "model": o.name,
                    "result": o.word,
                    "reason": o.reason,
                    "differences": [d._asdict() for d in o.differences],
                }
                for o in outcomes
            ],
            "differences": [{"model": o.name, **d._asdict()} for o in bad for d in o.differences],
        }

    return Report("equal" if not bad else f"{len(bad)} differ", document, view, int(bool(bad)))
