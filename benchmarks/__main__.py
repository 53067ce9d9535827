"""Run all benchmarks: `python -m benchmarks [--rounds N]`."""

from __future__ import annotations

import argparse

from benchmarks import inside, processes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    processes.report(rounds)
    inside.report()


if __name__ == "__main__":
    main()
