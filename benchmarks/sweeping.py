"""A sweep in one process and over workers: `python -m benchmarks sweeping [--points N]`.

Memory at the peak of a grid and of one a hundred times as long, each in a process of its own; and the
time that one and two Dask workers take to write the same file, in turns. The clocks say something only
on a machine with two free cores; the processor's time says what the work costs anywhere.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# Prints points, seconds on the clock and on the processor, and the peak in KiB.
ALONE = """
import resource, sys, time
import sizer
from sizer.planning.sweeping.sweep import Sweep
wide = int(sys.argv[1])
axes = {"d_model": "128:12800:128", "n_layers": "1:100", "d_ff": f"128:{128 * wide}:128"}
grid = Sweep(sizer.load("llama-3-8b"), axes, ["params"])
begun, points = time.perf_counter(), 0
for chunk in grid.chunks():
    points += len(chunk.column("params"))
spent = time.perf_counter() - begun
print(points, spent, time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
# Prints the seconds of one written file after another, for each number of workers in turns, and how
# long processes were at work: the workers in all, and the one that asks them.
SPREAD = """
import os, sys, time
import dask
from distributed import Client, LocalCluster
import sizer
from sizer.planning.sweeping.spread import SETTINGS
from sizer.planning.sweeping.sweep import Sweep
from sizer.report.sweep import stream

if __name__ == "__main__":
    wide, rounds, path, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4].split(",")
    axes = {"d_model": "1024:12800:1024", "n_layers": "1:100", "d_ff": f"128:{128 * wide}:128"}
    dask.config.set(SETTINGS)
    options = dict(threads_per_worker=1, processes=True, dashboard_address=None)
    with LocalCluster(n_workers=1, **options) as one, LocalCluster(n_workers=2, **options) as two:
        clients = {1: Client(one), 2: Client(two)}
        for turn in range(-1, rounds):
            for number, cluster in ((1, one), (2, two)):
                before, mine = clients[number].run(time.process_time), time.process_time()
                grid = Sweep(sizer.load("llama-3-8b"), axes, what)
                begun = time.perf_counter()
                with open(f"{path}{number}", "wb") as file:
                    stream(grid, "csv", file, scheduler=cluster.scheduler_address)
                spent, mine = time.perf_counter() - begun, time.process_time() - mine
                after = clients[number].run(time.process_time)
                # The first turn is of workers that have imported nothing yet.
                if turn >= 0:
                    print(number, spent, sum(after[one] - before[one] for one in before), mine, flush=True)
                if turn < rounds - 1:
                    os.unlink(f"{path}{number}")
"""
ACROSS = 100 * 100
# What is shared by workers: memory, which takes milliseconds a point, and closed forms, of which
# millions a second have to get into the file. Points of the second and third axis.
SHARED = (("memory_train", 1), ("params,active,kv_cache", 10_000))


def ask(script: str, *words: object) -> list[list[float]]:
    """The numbers that a script prints."""
    done = subprocess.run(
        [sys.executable, script, *map(str, words)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]


def report(points: int, rounds: int = 5) -> None:
    """Print both tables; `points` of the longest grid."""
    with tempfile.TemporaryDirectory() as folder:
        alone, spread = Path(folder, "alone.py"), Path(folder, "spread.py")
        alone.write_text(ALONE)
        spread.write_text(SPREAD)
        print(f"\n{'points':>14}{'seconds':>10}{'processor':>11}{'points a second':>18}{'peak':>12}")
        peaks = []
        for wide in (points // 100 // ACROSS, points // 10 // ACROSS, points // ACROSS):
            [(count, clock, processor, peak)] = ask(str(alone), max(1, wide))
            peaks.append(peak)
            rate = f"{count / processor:18,.0f}"
            print(f"{count:14,.0f}{clock:10.2f}{processor:11.2f}{rate}{peak / 1024:8.0f} MiB")
        print(f"memory of the longest over that of the shortest: {peaks[-1] / peaks[0]:.2f}")

        for what, wide in SHARED:
            shared(str(spread), what, wide, rounds, f"{folder}/rows")


def shared(script: str, what: str, wide: int, rounds: int, path: str) -> None:
    """Print how long one worker takes and two, for the same file."""
    times: dict[int, list[float]] = {1: [], 2: []}
    work: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for number, seconds, theirs, mine in ask(script, wide, rounds, path, what):
        times[int(number)].append(seconds)
        work[int(number)].append((theirs, mine))
    one, two = (Path(f"{path}{number}").read_bytes() for number in (1, 2))
    if one != two:
        raise SystemExit("one worker and two do not write the same file")
    ratio = statistics.median(b / a for a, b in zip(times[1], times[2], strict=True))
    points = len(one.splitlines()) - 1
    alone, both = (statistics.median(times[number]) for number in (1, 2))
    print(f"{what}: {points:,} points as the same {len(one):,} bytes")
    print(f"  {alone:.2f} s by one worker, {both:.2f} s by two: {ratio:.2f} of the time")
    for number in (1, 2):
        theirs, mine = (statistics.median(each) for each in zip(*work[number], strict=True))
        print(f"  at work: {number} of them for {theirs:.2f} s, the process that asks for {mine:.2f} s")


def main(words: list[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sweeping", description=__doc__)
    parser.add_argument("--points", type=int, default=100_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(words)
    report(options.points, options.rounds)
