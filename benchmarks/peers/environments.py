"""Environments of the peers, made once and kept in a cache outside the repository."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
VARIABLE = "SIZER_BENCHMARKS_CACHE"
DONE = "installed.json"
PATIENCE = 1800


def cache_folder(given: str | None = None) -> Path:
    """Where environments live: the option, the variable, or the user's cache."""
    chosen = given or os.environ.get(VARIABLE) or "~/.cache/sizer-benchmarks"
    folder = Path(chosen).expanduser().resolve()
    if folder == ROOT or ROOT in folder.parents:
        raise SystemExit(f"{folder} lies in the repository; name a folder outside it with --cache")
    return folder


@dataclass(frozen=True)
class Environment:
    """A folder with its own packages; `problem` says why it is not there."""

    folder: Path
    problem: str = ""

    @property
    def packages(self) -> Path:
        return next(self.folder.glob("lib/python*/site-packages"), self.folder / "missing")

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def script(self, name: str) -> str:
        return str(self.folder / "bin" / name)


def last_line(text: str) -> str:
    """What went wrong, in one line: the last that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no message"])[-1][:200]


def key(requirements: tuple[str, ...]) -> str:
    """Changes when the requirements do, or sizer's own code where that is what is installed."""
    found = hashlib.sha256(repr(requirements).encode())
    if any(str(ROOT) in requirement for requirement in requirements):
        for path in [ROOT / "pyproject.toml", *sorted((ROOT / "sizer").rglob("*.py"))]:
            found.update(path.read_bytes())
    return found.hexdigest()


def install(cache: Path, name: str, requirements: tuple[str, ...], again: bool = False) -> Environment:
    """The environment with these packages; made if it is not there, or was made of others.

    A failure is kept too: it is tried again with `again`.
    """
    folder = cache / name
    wanted = key(requirements)
    done = folder / DONE
    if done.exists():
        known = json.loads(done.read_text())
        if known["key"] == wanted and not (again and known["problem"]):
            return Environment(folder, known["problem"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"installing {name}", flush=True)
    problem = _make(folder, requirements)
    done.write_text(json.dumps({"key": wanted, "problem": problem}))
    return Environment(folder, problem)


def _make(folder: Path, requirements: tuple[str, ...]) -> str:
    """Make the folder; what went wrong, or nothing."""
    python = str(folder / "bin" / "python")
    steps = (
        # Without pip of its own, so that what is measured is the peer.
        [sys.executable, "-m", "venv", "--without-pip", str(folder)],
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *requirements],
    )
    for step in steps:
        try:
            ran = subprocess.run(step, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return f"not installed within {PATIENCE} s"
        if ran.returncode:
            return f"not installed: {last_line(ran.stderr)}"
    return ""


def needed(packages: Path, names: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that these ones need, themselves among them."""
    there = {canonicalize_name(d.metadata["Name"]): d for d in distributions(path=[str(packages)])}
    found: dict[str, Distribution] = {}
    todo = [(canonicalize_name(name), frozenset[str]()) for name in names]
    seen = set(todo)
    while todo:
        name, extras = todo.pop()
        if name not in there:
            continue
        found[name] = there[name]
        for text in there[name].requires or ():
            wanted = Requirement(text)
            markers = [{"extra": extra} for extra in (extras or {""})]
            if wanted.marker is None or any(wanted.marker.evaluate(m) for m in markers):
                step = (canonicalize_name(wanted.name), frozenset(wanted.extras))
                if step not in seen:
                    seen.add(step)
                    todo.append(step)
    return found


def size(found: Iterable[Distribution]) -> int:
    """Bytes of the files of distributions, without the bytecode that Python writes beside them."""
    total = 0
    for distribution in found:
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if path.suffix != ".pyc" and path.is_file():
                total += path.stat().st_size
    return total
