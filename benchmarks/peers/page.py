"""The page: what was measured, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.grading import NOTHING, Cell, grade
from benchmarks.peers.measuring import Asked, Timing
from benchmarks.peers.subjects import SUBJECTS, Subject

QUANTITIES = ("total", "active", "kv")
TEMPLATE = Path(__file__).with_name("page.md")
WAYS = {
    "config": "configuration",
    "cache": "configuration",
    "files": "headers of files",
    "hub": "configuration or metadata on a hub",
    "hub headers": "headers on a hub",
    "name": "a name it knows",
}


@dataclass
class Row:
    """One tool in all the tables."""

    name: str
    version: str
    likeness: str
    ours: bool = False
    problem: str = ""
    patched: bool = False
    better: str = ""
    asked: dict[str, Asked] = field(default_factory=dict)
    timed_on: str = ""
    timing: Timing | None = None
    mib: float = 0
    distributions: int = 0

    def cell(self, quantity: str, subject: Subject) -> Cell:
        asked = self.asked.get(subject.key)
        number = asked.answers.get(quantity) if asked else None
        return grade(number, subject.right(quantity, number.tokens if number else None))

    def answers(self, quantity: str) -> bool:
        return any(quantity in asked.answers for asked in self.asked.values())


@dataclass
class Results:
    """All that a run found."""

    machine: str
    rounds: int
    rows: list[Row]
    growth: list[tuple[str, list[str], list[list[str]]]]
    largest: list[tuple[str, float]] = field(default_factory=list)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; numbers stand right, the first column left."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def correctness(quantity: str, rows: Sequence[Row], subjects: Sequence[Subject] = SUBJECTS) -> str:
    """Marks of those who answer at all, the right answers on top."""
    right = ["right", *(f"{s.right(quantity)[0]:,}" for s in subjects)]
    lines = [
        [row.name, *(row.cell(quantity, s).text for s in subjects)] for row in rows if row.answers(quantity)
    ]
    return table(["", *(s.title for s in subjects)], [right, *lines])


def silent(quantity: str, rows: Iterable[Row]) -> str:
    names = [row.name for row in rows if not row.answers(quantity) and not row.problem and not row.ours]
    return f"\nNo answer from: {', '.join(names)}.\n" if names else ""


def reasons(rows: Iterable[Row]) -> list[str]:
    """Why a peer is not there, or says nothing of some models: each reason once."""
    lines = []
    for row in rows:
        if row.problem:
            lines.append(f"- {row.name}: {row.problem}")
        found: dict[str, list[str]] = {}
        for key, asked in row.asked.items():
            if asked.problem:
                found.setdefault(asked.problem, []).append(key)
        lines += [f"- {row.name}, of {', '.join(keys)}: {why}" for why, keys in found.items()]
    return lines


def costs(rows: Iterable[Row]) -> str:
    lines = []
    for row in rows:
        size = [f"{row.mib:,.1f}", str(row.distributions)] if row.distributions else ["–", "–"]
        if row.timing is None:
            lines.append([row.name, WAYS[row.likeness], *["–"] * 6, *size])
            continue
        t = row.timing
        ratios = ["1", "1"] if row.ours else [f"{t.time_ratio:.2f}", f"{t.memory_ratio:.2f}"]
        measured = [
            f"{t.seconds * 1e3:,.0f}",
            f"{t.spread * 1e3:,.0f}",
            ratios[0],
            f"{t.mib:,.1f}",
            ratios[1],
        ]
        lines.append([row.name, WAYS[row.likeness], row.timed_on, *measured, *size])
    head = ["", "reads", "model", "ms", "spread", "ratio", "MiB", "ratio", "installed MiB", "distributions"]
    return table(head, lines)


def better(rows: Sequence[Row]) -> list[str]:
    """Where a peer is quicker or smaller than sizer, by how much, and what it would take."""
    sizes = {row.likeness: row.mib for row in rows if row.ours}
    lines = []
    for row in rows:
        if row.ours or row.problem or not row.distributions:
            continue
        mine = sizes.get(row.likeness, sizes.get("config", 0))
        t = row.timing
        said = []
        if t and t.time_ratio < 1:
            said.append(f"quicker ({t.time_ratio:.2f} of the time)")
        if t and t.memory_ratio < 1:
            said.append(f"smaller in memory ({t.memory_ratio:.2f})")
        if row.mib < mine:
            said.append(f"smaller on disk ({row.mib / mine:.2f})")
        if said:
            why = row.better or "it does less: see its rows above"
            lines.append(f"- **{row.name}** is {', '.join(said)}: {why}.")
    return lines


def wrong(rows: Iterable[Row], subjects: Sequence[Subject] = SUBJECTS) -> list[str]:
    """The cells in which sizer itself is wrong."""
    return [
        f"{row.name}: {quantity} of {subject.key} {row.cell(quantity, subject).text}"
        for row in rows
        if row.ours
        for quantity in QUANTITIES
        for subject in subjects
        if row.cell(quantity, subject).right is False
    ]


def tally(rows: Iterable[Row], subjects: Sequence[Subject] = SUBJECTS) -> str:
    """Right, wrong and unanswered cells of each tool."""
    lines = []
    for row in rows:
        cells = [row.cell(q, s) for q in QUANTITIES for s in subjects]
        if any(cell is not NOTHING for cell in cells):
            counts = [sum(cell.right is kind for cell in cells) for kind in (True, False, None)]
            lines.append([row.name, *(str(count) for count in counts)])
    return table(["", "right", "wrong", "no answer"], lines)


def sources(subjects: Sequence[Subject] = SUBJECTS) -> str:
    lines = []
    for subject in subjects:
        said = [f"{name}: {text}" for name, text in subject.sources.items()]
        lines.append(f"- **{subject.title}** — {'; '.join(said)}.")
    return "\n".join(lines) + "\n"


def tools(rows: Iterable[Row]) -> str:
    """Who is there, in which version, and how it reads a model; sizer once."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        name = row.name.partition(" ")[0] if row.ours else row.name
        lines.setdefault(name, [row.version or "–"]).append(WAYS[row.likeness])
    return "\n".join(
        f"| {name} | {version} | {', '.join(dict.fromkeys(ways))} |"
        for name, (version, *ways) in lines.items()
    )


def verdict(rows: Sequence[Row]) -> str:
    found = wrong(rows)
    if not found:
        return "sizer is right in every cell in which it answers."
    return "\n".join(["sizer is wrong here:", "", *(f"- {line}" for line in found)])


def page(results: Results) -> str:
    """The whole of `docs/benchmarks.md`."""
    rows = results.rows
    patched = [row.name for row in rows if row.patched]
    parts = {
        "machine": results.machine,
        "rounds": results.rounds,
        "tools": tools(rows),
        "patched": ", ".join(patched) or "none of them",
        **{quantity: correctness(quantity, rows) + silent(quantity, rows) for quantity in QUANTITIES},
        "tally": tally(rows),
        "verdict": verdict(rows),
        "sources": sources(),
        "reasons": "\n".join(reasons(rows)) or "Everybody answers.",
        "costs": costs(rows),
        "better": "\n".join(better(rows)) or "Nowhere.",
        "largest": " and ".join(f"{name} ({mib:.0f} MiB)" for name, mib in results.largest) or "its own",
        "growth": "\n".join(f"### {title}\n\n{table(head, lines)}" for title, head, lines in results.growth),
    }
    text = TEMPLATE.read_text().format_map({name: str(part).strip() for name, part in parts.items()})
    return text.strip() + "\n"
