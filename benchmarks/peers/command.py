"""`python -m benchmarks peers`."""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from pathlib import Path

from benchmarks.peers import growth, hub, layouts
from benchmarks.peers.asking import Peer
from benchmarks.peers.environments import ROOT, Environment, cache_folder, install, key, needed, size
from benchmarks.peers.measuring import Kept, Runner, interleaved, timing
from benchmarks.peers.page import Results, Row, page, wrong
from benchmarks.peers.roster import OURS, PEERS, TORCH
from benchmarks.peers.subjects import SUBJECTS, Subject

PAGE = ROOT / "docs" / "benchmarks.md"
# What everybody is timed on, where it answers.
PREFERRED = "llama-3-8b"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=9, help="paired rounds of each command")
    parser.add_argument("--cache", help="folder of the peers' environments, outside the repository")
    parser.add_argument("--only", help="names of peers, with commas")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    parser.add_argument("--torch", default=TORCH, help="the requirement that brings torch without CUDA")
    parser.add_argument(
        "--again", action="store_true", help="install again what failed, ask again what is known"
    )
    parser.add_argument("--requests", type=int, default=30_000, help="the most requests of the service")


def machine() -> str:
    """The processor, its cores, the memory, the system and the Python."""
    name, memory = platform.processor() or platform.machine(), 0
    for path, field in (("/proc/cpuinfo", "model name"), ("/proc/meminfo", "MemTotal")):
        if not Path(path).exists():
            continue
        line = next((line for line in Path(path).read_text().splitlines() if line.startswith(field)), "")
        value = line.partition(":")[2].strip()
        if field == "MemTotal":
            memory = int(value.split()[0]) * 1024
        elif value:
            name = value
    room = f", {memory / 2**30:.0f} GiB" if memory else ""
    return (
        f"{name}, {os.cpu_count()} cores{room}, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )


def version(peer: Peer, environment: Environment) -> str:
    found = needed(environment.packages, peer.distributions[:1])
    return next((d.version for d in found.values() if d.metadata["Name"] == peer.distributions[0]), "?")


def row_of(peer: Peer, environment: Environment) -> Row:
    row = Row(peer.name, "", peer.likeness, ours=peer in OURS, problem=environment.problem)
    row.patched, row.better = bool(peer.patched), peer.better
    if not environment.problem:
        found = needed(environment.packages, peer.distributions)
        row.mib, row.distributions = size(found.values()) / 2**20, len(found)
        row.version = version(peer, environment)
    return row


def largest(cache: Path) -> list[tuple[str, float]]:
    """The distributions that make up most of sizer's size, with their MiB."""
    found = needed(Environment(cache / OURS[0].home).packages, OURS[0].distributions)
    sizes = {name: size([one]) / 2**20 for name, one in found.items()}
    return sorted(sizes.items(), key=lambda item: -item[1])[:2]


def ask_all(runner: Runner, row: Row, kept: Kept, made_of: str) -> Subject | None:
    """Ask about every model; the one that it is timed on."""
    for subject in SUBJECTS:
        row.asked[subject.key] = kept.asked(runner, subject, made_of)
    able = [s for s in SUBJECTS if row.asked[s.key].answers]
    print(f"{row.name}: {len(able)} of {len(SUBJECTS)} models answered", flush=True)
    return next((s for s in able if s.key == PREFERRED), able[0] if able else None)


def time_all(chosen: dict[str, tuple[Runner, Subject]], rows: dict[str, Row], rounds: int) -> None:
    """Time every peer beside the sizer that reads the same model in the same way."""
    ours = {peer.likeness: peer.name for peer in OURS}
    pairs, partner = dict(chosen), {}
    for name, (runner, subject) in chosen.items():
        if ours[runner.peer.likeness] not in chosen:
            continue
        mine = chosen[ours[runner.peer.likeness]][0]
        beside = mine.peer.name if subject.key == PREFERRED else f"{mine.peer.name} of {subject.key}"
        pairs[beside], partner[name] = (mine, subject), beside
    results = interleaved(pairs, rounds)
    for name in chosen:
        if name in results and partner.get(name) in results:
            rows[name].timing = timing(results[name], results[partner[name]])
            rows[name].timed_on = chosen[name][1].title


def report(options: argparse.Namespace) -> Results:
    """Install, ask, time, and write the page."""
    known = [peer.name for peer in PEERS]
    only = set(options.only.split(",") if options.only else known)
    if unknown := only - set(known):
        raise SystemExit(f"no peer {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    cache = cache_folder(options.cache)
    kept = Kept(cache / "answers.json", options.again)
    rows: dict[str, Row] = {}
    chosen: dict[str, tuple[Runner, Subject]] = {}
    with tempfile.TemporaryDirectory() as place:
        models, scratch = Path(place, "models"), Path(place, "scratch")
        scratch.mkdir()
        for subject in SUBJECTS:
            layouts.write(models / subject.repo, subject)
        with hub.running(models) as address:
            for peer in (*OURS, *PEERS):
                if peer.name not in only and peer not in OURS:
                    rows[peer.name] = Row(peer.name, "", peer.likeness, problem="left out of this run")
                    continue
                wanted = tuple(options.torch if r == TORCH else r for r in peer.requirements)
                environment = install(cache, peer.home, wanted, options.again)
                rows[peer.name] = row_of(peer, environment)
                if environment.problem:
                    print(f"{peer.name}: {environment.problem}", flush=True)
                    continue
                runner = Runner(peer, environment, models, address, scratch)
                if found := ask_all(runner, rows[peer.name], kept, key(wanted)):
                    chosen[peer.name] = (runner, found)
            time_all(chosen, rows, options.rounds)
    grown = growth.tables(options.requests)
    results = Results(machine(), options.rounds, list(rows.values()), grown, largest(cache))
    options.out.write_text(page(results))
    for line in wrong(results.rows):
        print(f"sizer is wrong: {line}")
    print(f"written: {options.out}")
    return results


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    arguments(parser)
    results = report(parser.parse_args(words))
    if wrong(results.rows):
        raise SystemExit(1)
