"""`sizer check`: which totals changed, for people, for CI systems and for programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from sizer import __version__
from sizer.checking import files, lock
from sizer.checking.check import Difference, Result, check, check_one, chosen, nothing_expected
from sizer.checking.entries import Entry
from sizer.checking.files import Watched
from sizer.checking.limits import COUNTS
from sizer.checking.lock import Locked
from sizer.core.record import Record
from sizer.errors import UnknownName
from sizer.report.junit import Case, junit
from sizer.report.report import Report, Table, View, aligned, json

FORMATS = ("text", "json", "github", "junit")
MOST_TENSORS = 30


class Checked(Record):
    """All results of one file, the entries that are wrong, and what an update wrote."""

    __slots__ = ("results", "watched", "written")

    def __init__(self, watched: Watched, results: list[Result], written: str = "") -> None:
        self.watched = watched
        self.results = results
        self.written = written

    @property
    def errors(self) -> list[tuple[int, str]]:
        """Lines of the file, and what is wrong there."""
        wrong = [(w.line, w.reason) for w in self.watched.wrong]
        return sorted(wrong + [(r.entry.line, r.error) for r in self.results if r.error])

    @property
    def exit_code(self) -> int:
        """2 where something could not be checked, else 1 where something differs."""
        return 2 if self.errors else int(any(not r.ok for r in self.results))


def checked(path: str | None = None, names: Sequence[str] = (), *, update: bool = False) -> Checked:
    """Check the models of a file, or those of these names; with `update`, write what was found."""
    watched = files.read(files.find(path))
    locks = lock.read(watched.lock_path) if watched.lock else {}
    entries = chosen(watched, names)
    results = check(watched, entries, locks)
    if update:
        from sizer.checking.update import update as write

        wrote = write(watched, results, locks)
        numbers = f"{wrote.numbers} number{'s' * (wrote.numbers != 1)}"
        said = f"{watched.path}: {numbers} rewritten"
        if wrote.lock:
            said += f"; {watched.lock_path} written"
        # What is left, such as a limit that does not hold, is told by the files as they are now.
        again = checked(watched.path, names)
        return Checked(again.watched, again.results, said)
    results = [
        Result(r.entry, error=str(lacking)) if not r.error and (lacking := nothing_expected(r.entry)) else r
        for r in results
    ]
    return Checked(watched, results)


def report(path: str | None = None, *, names: Sequence[str] = (), update: bool = False) -> Report:
    """The answer of `sizer check`."""
    return _answer(checked(path, names, update=update))


def rendered(path: str | None, names: Sequence[str], *, update: bool, form: str) -> tuple[str, Report]:
    """The text of an answer in one of `FORMATS`, and the answer itself."""
    if form not in FORMATS:
        raise UnknownName("format", form, FORMATS, hint=", ".join(FORMATS))
    done = checked(path, names, update=update)
    answer = _answer(done)
    texts = {
        "text": lambda: text(done),
        "json": lambda: json(document(done)),
        "github": lambda: github(done),
        "junit": lambda: junit("sizer check", cases(done), file=done.watched.path),
    }
    return texts[form](), answer


def why(watched: Watched, entry: Entry, before: Locked | None) -> str:
    """What is wrong with one entry, as text; empty where nothing is."""
    result = check_one(watched, entry, before)
    lacking = None if result.error else nothing_expected(entry)
    if result.error or lacking:
        return f"{watched.path}:{entry.line}: {result.error or lacking}"
    return "" if result.ok else "\n".join(_lines(Checked(watched, [result]), result))


def _answer(done: Checked) -> Report:
    wrong = sum(not r.ok for r in done.results)
    return Report(
        "ok" if not done.exit_code else f"{wrong} of {len(done.results)} differ",
        lambda: document(done),
        lambda: View(above=[text(done)]),
        done.exit_code,
        [f"{done.watched.path}:{line}: {reason}" for line, reason in done.errors],
    )


def text(done: Checked) -> str:
    """For people: each model that differs, by quantity, component and tensor."""
    bad = [r for r in done.results if not r.ok and not r.error]
    parts = [done.written] if done.written else []
    parts += ["\n".join(_lines(done, result)) for result in bad]
    good = [r for r in done.results if r.ok]
    numbers = sum(r.compared for r in good)
    n_entries = len(done.results) + len(done.watched.wrong)
    counted = f", {numbers:,} number{'s' * (numbers != 1)}" if good else ""
    said = [f"{len(good)} of {n_entries} models as expected{counted}"]
    if bad and not done.written:
        said.append("if this is meant: sizer check --update")
    parts.append("\n".join(said))
    return "\n\n".join(parts)


def _lines(done: Checked, result: Result) -> list[str]:
    lines = [f"{result.entry.name}  ({done.watched.path}:{result.entry.line})"]
    rows = [_row(d) for d in (*result.differences, *result.components)]
    if rows:
        table = Table(("quantity", "expected", "found", "difference"), rows, numbers=(1, 2, 3))
        lines += [f"  {line}" for line in aligned(table)]
    if result.tensors:
        lines.append("  tensors")
        lines += [f"  {change}" for change in result.tensors[:MOST_TENSORS]]
        if len(result.tensors) > MOST_TENSORS:
            lines.append(f"  … and {len(result.tensors) - MOST_TENSORS} more (--format json lists all)")
    elif done.watched.lock and any(d.quantity in COUNTS and not d.limit for d in result.differences):
        name = os.path.basename(done.watched.lock_path)
        lines.append(
            f"  the tensors are those of {name}, so the expected number is what changed"
            if result.locked
            else f"  which tensor changed is not known: it is not in {name}, which --update writes"
        )
    return lines


def _row(found: Difference) -> tuple[str, ...]:
    if found.expected is None:
        bound = found.limit.lstrip("_.abcdefghijklmnopqrstuvwxyz ")
        return found.quantity, bound, f"{found.found:,}", "over" if bound[0] == "<" else "not so"
    return found.quantity, f"{found.expected:,}", f"{found.found:,}", f"{found.found - found.expected:+,}"


def github(done: Checked) -> str:
    """Annotations of GitHub Actions, at the lines of the file; then the text, for the log."""
    lines = []
    for line, reason in done.errors:
        lines.append(_annotation(done.watched.path, line, "sizer check", reason))
    for result in done.results:
        if result.ok or result.error:
            continue
        first = result.differences[0].line if result.differences else result.entry.line
        said = [_sentence(d) for d in (*result.differences, *result.components)]
        said += [str(change) for change in result.tensors[:MOST_TENSORS]]
        lines.append(_annotation(done.watched.path, first, result.entry.name, "\n".join(said)))
    return "\n".join([*lines, text(done)])


def _sentence(found: Difference) -> str:
    if found.expected is None:
        return f"{found.quantity} is {found.found:,}, and the limit is {found.limit}"
    return (
        f"{found.quantity}: expected {found.expected:,}, found {found.found:,} "
        f"({found.found - found.expected:+,})"
    )


def _annotation(path: str, line: int, title: str, message: str) -> str:
    """One workflow command; what would end a value is escaped as the runner unescapes it."""

    def data(value: str) -> str:
        return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def value(text: str) -> str:
        return data(text).replace(":", "%3A").replace(",", "%2C")

    return f"::error file={value(path)},line={line},title={value(title)}::{data(message)}"


def cases(done: Checked) -> list[Case]:
    """A test for each entry."""
    wrong = [Case(w.name, error=w.reason, line=w.line) for w in done.watched.wrong]
    return wrong + [
        Case(
            r.entry.name,
            failure="" if r.ok or r.error else "\n".join(_failure(r)),
            error=r.error,
            line=r.entry.line,
        )
        for r in done.results
    ]


def _failure(result: Result) -> list[str]:
    said = [_sentence(d) for d in (*result.differences, *result.components)]
    return [*said, *map(str, result.tensors)]


def document(done: Checked) -> dict[str, Any]:
    """The answer as JSON."""
    return {
        "sizer_version": __version__,
        "file": done.watched.path,
        "ok": done.exit_code == 0,
        "models": [
            {
                "name": r.entry.name,
                "ok": r.ok,
                "line": r.entry.line,
                "error": r.error or None,
                "params": r.measured.value("params") if r.measured else None,
                "checked": [*r.entry.expected, *(limit.text for limit in r.entry.limits)],
            }
            for r in done.results
        ],
        "differences": [d for r in done.results for d in _records(r)],
        "errors": [{"line": line, "reason": reason} for line, reason in done.errors],
    }


def _records(result: Result) -> list[dict[str, Any]]:
    name = result.entry.name
    return [
        *(
            {
                "model": name,
                "kind": "limit" if d.limit else "quantity",
                "name": d.quantity,
                "expected": d.limit or d.expected,
                "found": d.found,
                "difference": d.delta,
                "line": d.line,
            }
            for d in result.differences
        ),
        *(
            {
                "model": name,
                "kind": "component",
                "name": d.quantity.partition(".")[2],
                "expected": d.expected,
                "found": d.found,
                "difference": d.delta,
                "line": d.line,
            }
            for d in result.components
        ),
        *(
            {
                "model": name,
                "kind": "tensor",
                "name": c.name,
                "expected": c.locked or None,
                "found": c.found or None,
                "change": c.sign,
            }
            for c in result.tensors
        ),
    ]
