"""Asks every peer about every model, and times them in turn."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.asking import HOST, Peer, Place
from benchmarks.peers.environments import Environment, last_line
from benchmarks.peers.grading import Answers, Number
from benchmarks.peers.subjects import Subject
from benchmarks.processes import Run, run

# An answer is kept while what asks for it and what it is asked about stay the same.
CODE = "".join(
    Path(__file__).with_name(f"{name}.py").read_text() for name in ("asking", "drivers", "hub", "layouts")
)
PATIENCE = 120
# One peer fills memory with what it should not build; the machine is shared.
MEMORY = 16 * 2**30


@dataclass
class Asked:
    """What one peer said of one model, or why it said nothing."""

    answers: Answers = field(default_factory=dict)
    problem: str = ""


class Kept:
    """Answers of earlier runs, in a file: the same version asked in the same way says the same."""

    def __init__(self, path: Path, again: bool = False) -> None:
        self.path = path
        self.known: dict[str, Any] = {}
        if path.exists() and not again:
            self.known = json.loads(path.read_text())

    def asked(self, runner: Runner, subject: Subject, made_of: str) -> Asked:
        """What was said before, or what is said now; what did not answer in time is asked again."""
        command = [word.replace(str(runner.scratch.parent), "") for word in runner.command(subject) or []]
        told = repr((made_of, command, subject.config, CODE))
        key = f"{runner.peer.name} {hashlib.sha256(told.encode()).hexdigest()[:16]}"
        if found := self.known.get(key):
            return Asked({name: Number(*n) for name, n in found["answers"].items()}, found["problem"])
        asked = runner.asked(subject)
        if not asked.problem.startswith("no answer within"):
            answers = {name: (n.value, n.half, n.tokens) for name, n in asked.answers.items()}
            self.known[key] = {"answers": answers, "problem": asked.problem}
            self.path.write_text(json.dumps(self.known, indent=1))
        return asked


def plainly(text: str) -> str:
    """A message without the addresses and folders of this run."""
    text = re.sub(r"https?://\S+", "the hub", text)
    text = re.sub(r"(?<![\w.])(?:/[\w.+@-]+){2,}/?", "…", text)
    return text.replace("|", "/").strip()[:160]


class Runner:
    """Runs the commands of one peer in its environment, away from the user's own files."""

    def __init__(self, peer: Peer, environment: Environment, models: Path, hub: str, scratch: Path) -> None:
        self.peer = peer
        self.place = Place(environment, models, scratch)
        self.hub = hub
        self.scratch = scratch
        self.patch = str(self._patched(environment)) if peer.patched else ""

    def _patched(self, environment: Environment) -> Path:
        """A copy of the package in which one string, the hub's address, is the loopback's."""
        folder = self.scratch / f"patched-{self.peer.name}"
        if not folder.exists():
            # Addresses of one length, written within a second, would leave the old bytecode believed.
            without = shutil.ignore_patterns("__pycache__")
            shutil.copytree(
                environment.packages / self.peer.patched, folder / self.peer.patched, ignore=without
            )
            for path in folder.rglob("*.py"):
                text = path.read_text()
                if HOST in text:
                    path.write_text(text.replace(HOST, self.hub))
        return folder

    def variables(self) -> dict[str, str]:
        """Nothing of the user's, and an empty cache, so that every run begins alike."""
        home = tempfile.mkdtemp(dir=self.scratch)
        found = {"PATH": os.environ["PATH"], "HOME": home, "HF_HOME": home, "HF_ENDPOINT": self.hub}
        found |= {"LANG": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "200", "NO_PROXY": "127.0.0.1,localhost"}
        found |= {"HF_HUB_DISABLE_TELEMETRY": "1"}
        return found | ({"PYTHONPATH": self.patch} if self.patch else {})

    def command(self, subject: Subject) -> list[str] | None:
        return self.peer.ask(self.place, subject)

    def asked(self, subject: Subject) -> Asked:
        command = self.command(subject)
        if command is None:
            return Asked(problem="not among the models it knows")
        try:
            ran = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                env=self.variables(),
                cwd=self.scratch,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
            )
        except subprocess.TimeoutExpired:
            return Asked(problem=f"no answer within {PATIENCE} s")
        except OSError as error:
            return Asked(problem=f"does not start: {error.strerror}")
        if ran.returncode:
            return Asked(problem=plainly(last_line(ran.stderr or ran.stdout)))
        try:
            return Asked(self.peer.read(ran.stdout, subject))
        except (ValueError, LookupError, TypeError, AssertionError) as error:
            said = last_line(ran.stderr) if ran.stderr else str(error)
            return Asked(problem=plainly(f"no number in its output ({said})"))

    def timed(self, subject: Subject) -> Run:
        command = self.command(subject)
        assert command is not None
        return run(command, self.variables(), self.scratch)


@dataclass(frozen=True)
class Timing:
    """Medians over rounds: seconds, their quartiles' distance, MiB, and ratios to sizer round by round."""

    seconds: float
    spread: float
    mib: float
    rounds: int
    time_ratio: float
    memory_ratio: float


def timing(runs: Sequence[Run], ours: Sequence[Run]) -> Timing:
    """What the runs of a peer come to beside those of sizer in the same rounds."""
    clocks = sorted(r.clock for r in runs)
    return Timing(
        statistics.median(clocks),
        clocks[3 * len(clocks) // 4] - clocks[len(clocks) // 4],
        statistics.median(r.memory_kib for r in runs) / 1024,
        len(clocks),
        statistics.median(r.clock / o.clock for r, o in zip(runs, ours, strict=True)),
        statistics.median(r.memory_kib / o.memory_kib for r, o in zip(runs, ours, strict=True)),
    )


def interleaved(pairs: dict[str, tuple[Runner, Subject]], rounds: int) -> dict[str, list[Run]]:
    """Every command once a round, in turn; one that fails is left out from then on."""
    results: dict[str, list[Run]] = {name: [] for name in pairs}
    for number in range(-1, rounds):
        for name, (runner, subject) in pairs.items():
            if name not in results:
                continue
            try:
                one = runner.timed(subject)
            except SystemExit as error:
                print(error)
                del results[name]
                continue
            # The first round fills the system's caches and is not counted.
            if number >= 0:
                results[name].append(one)
        print(f"round {number + 1} of {rounds}", flush=True)
    return results
