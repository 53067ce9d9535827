"""The worked changes of CONTRIBUTING.md, each applied to a copy of the repository and run there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from consoles import blocks

# What a change, its test and the tools read.
COPIED = (
    "sizer",
    "presets",
    "tools",
    "docs",
    "tests/conftest.py",
    "tests/repository.py",
    "README.md",
    "README.zh-CN.md",
    "sizer.toml",
)
MEASURED = ("architectures", "measures")


def worked() -> list[tuple[str, list[str]]]:
    """Each change, with the lines that are run after it."""
    changes: list[tuple[str, list[str]]] = []
    for info, body in blocks((ROOT / "CONTRIBUTING.md").read_text()):
        if info == "diff":
            changes.append((body, []))
        elif info == "sh" and changes:
            changes[-1][1].extend(body.splitlines())
    return changes


def ran(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def copied(to: Path) -> None:
    for name in COPIED:
        source, target = ROOT / name, to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for name in MEASURED:
        (to / "tests" / name).mkdir()
    shutil.copy(ROOT / "pyproject.toml", to)


@pytest.mark.parametrize(("change", "lines"), worked(), ids=["preset", "architecture", "quantity"])
def test_a_worked_change_works(tmp_path: Path, change: str, lines: list[str]) -> None:
    copied(tmp_path)
    (tmp_path / "change.diff").write_text(change)
    ran(["git", "apply", "--whitespace=nowarn", "change.diff"], tmp_path)

    # Each brings something to run, and what is run comes from the copy.
    assert len(lines) >= 3
    assert str(tmp_path) in ran([sys.executable, "-c", "import sizer; print(sizer.__file__)"], tmp_path)
    for line in lines:
        written, _, shown = line.partition("#")
        program, *words = shlex.split(written)
        command = [sys.executable, *(["-m", "sizer"] if program == "sizer" else []), *words]
        printed = ran(command, tmp_path)

        assert not shown or shown.strip() == printed.strip(), line
