"""Whole processes: time on the clock, time on the processor, peak memory, against importing click.

With llm-flops installed in the same environment (`pip install llm-flops`, the fastest peer, no
dependencies) it runs in the same rounds.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import NamedTuple

SCRIPTS = Path(sysconfig.get_path("scripts"))


class Run(NamedTuple):
    clock: float
    processor: float
    memory_kib: int


def commands() -> dict[str, list[str]]:
    python, sizer = sys.executable, str(SCRIPTS / "sizer")
    found = {
        "python -c pass": [python, "-c", "pass"],
        "import click": [python, "-c", "import click"],
        "import click, sympy": [python, "-c", "import click, sympy"],
        "sizer count -q": [sizer, "count", "--preset", "gpt2-small", "-q"],
        "sizer count --json": [sizer, "count", "--preset", "gpt2-small", "--json"],
        "sizer count": [sizer, "count", "--preset", "gpt2-small"],
        "sizer formula": [sizer, "formula", "gpt2-small"],
        "sizer explain": [sizer, "explain", "gpt2-small"],
    }
    peer = shutil.which("llm-flops", path=str(SCRIPTS))
    if peer:
        found["llm-flops estimate"] = [peer, "estimate", "gpt2", "--no-hf", "--json"]
    return found


@cache
def spawner() -> subprocess.Popen[str]:
    """The process that starts all that is measured; it ends with this one, when its input does."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("spawner.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run(command: list[str], env: dict[str, str] | None = None, cwd: Path | None = None) -> Run:
    """Run a command to its end, silently; a failure stops the program that asks."""
    process = spawner()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([command, env, str(cwd or Path.cwd())]) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    if isinstance(answer, str) or answer[0]:
        said = answer if isinstance(answer, str) else f"exit code {answer[0]}"
        raise SystemExit(f"{' '.join(command)} failed: {said}")
    return Run(*answer[1:])


def report(rounds: int) -> None:
    compare(commands(), "import click", rounds)


def compare(chosen: dict[str, list[str]], against: str, rounds: int) -> None:
    """Run commands in turn, round after round, and print their medians and ratios to one of them."""
    # As anybody runs them: the first run, which is not counted, leaves what Python compiled.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    for command in chosen.values():
        run(command, env)
    results: dict[str, list[Run]] = {name: [] for name in chosen}
    for _ in range(rounds):
        for name, command in chosen.items():
            results[name].append(run(command, env))
    base = results[against]
    print(f"whole processes, {rounds} paired rounds; ratios to `{against}`\n")
    print(f"{'':24}{'ms':>8}{'spread':>9}{'ratio':>8}{'cpu ratio':>11}{'memory':>9}")
    for name, runs in results.items():
        clocks = sorted(r.clock * 1e3 for r in runs)
        spread = clocks[3 * len(clocks) // 4] - clocks[len(clocks) // 4]
        ratio = statistics.median(r.clock / b.clock for r, b in zip(runs, base, strict=True))
        cpu = statistics.median(r.processor / b.processor for r, b in zip(runs, base, strict=True))
        memory = statistics.median(r.memory_kib / b.memory_kib for r, b in zip(runs, base, strict=True))
        print(f"{name:24}{statistics.median(clocks):8.1f}{spread:9.1f}{ratio:8.2f}{cpu:11.2f}{memory:9.2f}")
