"""`sizer verify --all`: every preset and every text model type of transformers, a row each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sizer import __version__
from sizer.errors import UnknownName
from sizer.oracles.many import Outcome, Target, presets_to_verify, types_to_verify, verify_all
from sizer.report.junit import Case
from sizer.report.report import Report, Table, View
from sizer.report.save import check_path, save_to
from sizer.report.verify import folded

SETS = ("everything", "presets", "types")


def targets(which: str = "everything") -> list[Target]:
    """What `--all` stands for: presets, text model types, or both."""
    if which not in SETS:
        raise UnknownName("set", which, SETS, hint=", ".join(SETS))
    found = [] if which == "types" else presets_to_verify()
    return found + ([] if which == "presets" else types_to_verify())


def report(
    *,
    which: str = "everything",
    level: str = "names",
    jobs: int = 1,
    resume: str | None = None,
    save: str | None = None,
    watched: Callable[[Iterable[Outcome], int], Iterable[Outcome]] = lambda outcomes, n: outcomes,
) -> Report:
    """Compare all with their modules; exit 1 where anything differs or fails.

    `watched` may show how far it is: it is given the outcomes as they come, and how many there will be.
    """
    check_path(save)
    chosen = targets(which)
    outcomes = list(watched(verify_all(chosen, level=level, jobs=jobs, resume=resume), len(chosen)))
    order = {target.label: i for i, target in enumerate(chosen)}
    outcomes.sort(key=lambda o: order[o.name])
    return save_to(save, summary(outcomes, level=level), "sizer verify", lambda: [case(o) for o in outcomes])


def summary(outcomes: list[Outcome], *, level: str) -> Report:
    """The outcomes as an answer: totals, and a row for each that is not equal."""
    bad = [o for o in outcomes if not o.ok]
    versions = next((o.versions for o in outcomes if o.versions), {})
    numbers = {
        word: sum(o.result == result for o in outcomes)
        for word, result in (
            ("equal", "equal"),
            ("differ", "differs"),
            ("without a public module", "no module"),
            ("failed", "error"),
        )
    }
    said = ", ".join(f"{n} {word}" for word, n in numbers.items() if n or word in ("equal", "differ"))

    def view() -> View:
        # Those that are equal are told by their number.
        rows = [(o.name, o.result, first) for o in outcomes if o.result != "equal" for first in _what(o)]
        against = ", ".join(f"{name} {version}" for name, version in versions.items())
        return View(
            table=Table(("model", "result", ""), rows) if rows else None,
            below=[f"{said} ({level}; {against})"],
        )

    def document() -> dict[str, Any]:
        return {
            "sizer_version": __version__,
            "ok": not bad,
            "level": level,
            "versions": versions,
            "models": [
                {
                    "model": o.name,
                    "result": o.result,
                    "params": o.params,
                    "reason": o.reason,
                    "differences": [d._asdict() for d in o.differences],
                }
                for o in outcomes
            ],
            "differences": [{"model": o.name, **d._asdict()} for o in bad for d in o.differences],
        }

    return Report("equal" if not bad else f"{len(bad)} not equal", document, view, int(bool(bad)))


def case(found: Outcome) -> Case:
    """One outcome as a test."""
    return Case(
        found.name,
        failure="\n".join(" ".join(row) for row in folded(found.differences)),
        error=found.reason if found.result == "error" else "",
        skipped=found.reason if found.result == "no module" else "",
    )


def _what(found: Outcome, most: int = 3) -> list[str]:
    """What is wrong with one of many, in a few lines."""
    rows = folded(found.differences)
    lines = [f"{kind} {name}: {ours} / {theirs}" for kind, name, ours, theirs in rows[:most]]
    if len(rows) > most:
        lines.append(f"… and {len(rows) - most} more")
    return lines or [found.reason]
