"""Run all benchmarks: `python -m benchmarks [--rounds N]`."""

from __future__ import annotations

import argparse

from benchmarks import checkpoints, inside, processes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    processes.report(rounds)
    checkpoints.report(max(3, rounds // 3))
    inside.report()


if __name__ == "__main__":
    main()
