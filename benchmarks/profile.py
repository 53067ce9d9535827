"""What an import and a count cost, function by function: `python -m benchmarks profile`."""

from __future__ import annotations

import compileall
import cProfile
import io
import pstats
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import sizer
from benchmarks.inside import fresh

COUNT = ["-m", "sizer", "count", "gpt2-small", "-q"]
TOP = 15
ROUNDS = 9


class Import(NamedTuple):
    """Microseconds of one module: its own, and with what it imports."""

    name: str
    own: int
    whole: int


def imports(text: str) -> list[Import]:
    """The lines of `python -X importtime`.

    >>> imports("import time:       120 |        340 |   click.core")
    [Import(name='click.core', own=120, whole=340)]
    """
    found = re.findall(r"^import time:\s+(\d+) \|\s+(\d+) \|\s+(\S+)$", text, flags=re.M)
    return [Import(name, int(own), int(whole)) for own, whole, name in found]


def packages(found: list[Import]) -> dict[str, int]:
    """Microseconds of each top-level package, its own modules' together, most first."""
    sums: dict[str, int] = {}
    for one in found:
        top = one.name.partition(".")[0]
        sums[top] = sums.get(top, 0) + one.own
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def quickest(runs: list[list[Import]]) -> list[Import]:
    """Each module in its quickest run, as everything else that the machine does only adds.

    >>> quickest([[Import("re", 90, 100)], [Import("re", 50, 120)]])
    [Import(name='re', own=50, whole=100)]
    """
    found: dict[str, Import] = {}
    for one in (one for run in runs for one in run):
        best = found.get(one.name, one)
        found[one.name] = Import(one.name, min(one.own, best.own), min(one.whole, best.whole))
    return list(found.values())


def import_times(command: list[str]) -> list[Import]:
    """What the imports of a command cost, over some runs."""
    asked = [sys.executable, "-X", "importtime", *command]
    runs = [subprocess.run(asked, capture_output=True, text=True, check=True) for _ in range(ROUNDS)]
    return quickest([imports(run.stderr) for run in runs])


def functions(work: Any, repeats: int) -> str:
    """The functions of some work, by their own time."""
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(repeats):
        work()
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime").print_stats(TOP)
    return text.getvalue()


def whole_command() -> str:
    """The functions of a whole `sizer count`, imports among them, in a process of its own."""
    code = (
        "import cProfile, pstats, sys; sys.argv = ['sizer', 'count', 'gpt2-small', '-q']\n"
        "p = cProfile.Profile(); p.enable()\n"
        "from sizer.cli import main\n"
        "main(sys.argv[1:]); p.disable()\n"
        f"pstats.Stats(p).strip_dirs().sort_stats('tottime').print_stats({TOP})"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def report() -> None:
    # An installed package has its bytecode; a clone may not.
    compileall.compile_dir(Path(sizer.__file__).parent, quiet=1)
    found = import_times(COUNT)
    total = sum(one.own for one in found)
    print(f"\nimports of `sizer count`: {len(found)} modules, {total / 1e3:.1f} ms\n")
    for name, micros in list(packages(found).items())[:TOP]:
        print(f"{name:32}{micros / 1e3:8.2f} ms")
    print("\nsingle modules, their own time\n")
    for one in sorted(found, key=lambda one: -one.own)[:TOP]:
        print(f"{one.name:48}{one.own / 1e3:8.2f} ms {one.whole / 1e3:8.2f} with what it imports")
    print("\na whole `sizer count`, by function\n")
    print(whole_command())
    model = sizer.load("deepseek-v3")
    print("200 counts of deepseek-v3, each a model of its own, by function\n")
    print(functions(lambda: fresh(model).count(), 200))


if __name__ == "__main__":
    report()
