"""`sizer verify`: our tensors against those of the real module, of a checkpoint, of a user's module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sizer.core.fold import fold
from sizer.model import Model
from sizer.oracles import torch as oracle
from sizer.oracles.compare import Difference
from sizer.oracles.verify import Comparison, compare_with, differences, verify
from sizer.report.count import head, notes
from sizer.report.junit import Case
from sizer.report.report import Report, Table, View
from sizer.report.save import check_path, save_to

__all__ = ["compare_with", "differences", "report", "rows_of"]

MOST_SHOWN = 40


def report(
    model: Model,
    *,
    level: str = "names",
    checkpoint: str | None = None,
    module: str | None = None,
    dtype: str | None = None,
    save: str | None = None,
) -> Report:
    """Equal, or a table of what differs; exit 1 where anything does.

    `checkpoint`: a path, compared by its header. `module`: `package.module:factory`, compared in place
    of the public module. `save`: a file to write the answer to as well: .json, .md or .xml (JUnit).
    """
    check_path(save)
    done = verify(model, level=level, checkpoint=checkpoint, module=module, dtype=dtype)
    versions = oracle.versions()
    n_found = sum(len(c.differences) for c in done)
    found_in_all = f"{n_found} difference{'s' * (n_found != 1)}"
    compared = [c for c in done if not any(note.startswith("not compared") for note in c.notes)]

    def view() -> View:
        against = ", ".join(f"{name} {version}" for name, version in versions.items())
        asides = [f"{c.against}: {note}" for c in done for note in c.notes]
        if not n_found:
            sides = [c.against for c in compared if c.against != "torch"]
            with_sides = f" with {', '.join(sides)}" if sides else ""
            line = f"{model.name}: equal{with_sides}, {model.count().total:,} parameters ({level}; {against})"
            return View(below=[line, *asides], notes=notes(model))
        rows = rows_of(done)
        more = len(rows) - MOST_SHOWN
        return View(
            table=Table(("against", "difference", "name", "sizer", "found"), rows[:MOST_SHOWN]),
            above=[f"{model.name}: {found_in_all} ({level}; {against})"],
            below=[*([f"… and {more} more (--json lists all)"] if more > 0 else []), *asides],
            notes=notes(model),
        )

    def document() -> dict[str, Any]:
        return {
            **head(model),
            "ok": not n_found,
            "level": level,
            "compared_with": [c.against for c in compared],
            "differences": [{**d._asdict(), "against": c.against} for c in done for d in c.differences],
            "notes": {c.against: c.notes for c in done if c.notes},
            "versions": versions,
            "assumptions": model.assumptions,
            "sources": model.sources,
        }

    def cases() -> list[Case]:
        return [
            Case(f"{model.name} × {c.against}", failure="\n".join(" ".join(r[1:]) for r in rows_of([c])))
            for c in compared
        ]

    answer = Report("equal" if not n_found else found_in_all, document, view, int(bool(n_found)))
    return save_to(save, answer, "sizer verify", cases)


def rows_of(done: Iterable[Comparison]) -> list[tuple[str, ...]]:
    """What differs as rows of a table, equal layers as one."""
    return [(c.against, *row) for c in done for row in folded(c.differences)]


def folded(found: Iterable[Difference]) -> list[tuple[str, ...]]:
    """Differences with one row for all names that differ in their indices alone."""
    return [
        (kind, name, ours, theirs)
        for name, (kind, ours, theirs) in fold((d.name, (d.kind, d.ours, d.theirs)) for d in found)
    ]
