"""Run benchmarks: `python -m benchmarks [NAME] [OPTIONS]`; without a name, all of them.

processes    whole processes against importing click
checkpoints  reading checkpoints
inside       counts a second, a sweep
sweeping     a grid of 10⁸ points, and workers that share one
profile      what an import and a count cost, function by function
peers        the public peers, and docs/benchmarks.md
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import checkpoints, inside, processes, profile, sweeping

NAMES = ("processes", "checkpoints", "inside", "sweeping", "profile", "peers")


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["peers"]:
        return _peers(words[1:])
    if words[:1] == ["sweeping"]:
        return sweeping.main(words[1:])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", choices=NAMES)
    parser.add_argument("--rounds", type=int, default=21)
    options, rest = parser.parse_known_args(words)
    if rest and options.name:
        parser.error(f"unknown: {' '.join(rest)}")
    wanted = (options.name,) if options.name else NAMES
    if "processes" in wanted:
        processes.report(options.rounds)
    if "checkpoints" in wanted:
        checkpoints.report(max(3, options.rounds // 3))
    if "inside" in wanted:
        inside.report()
    if "sweeping" in wanted:
        sweeping.main([])
    if "profile" in wanted:
        profile.report()
    if "peers" in wanted:
        _peers(rest)
    return None


def _peers(words: list[str]) -> None:
    # They need what the other benchmarks do without.
    from benchmarks.peers import command

    command.main(words)


if __name__ == "__main__":
    main()
