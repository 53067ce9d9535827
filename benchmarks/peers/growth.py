"""How sizer's time and memory grow: layers, experts, tensors, points of a grid, requests."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.environments import ROOT
from benchmarks.peers.layouts import Entry, header

Table = tuple[str, list[str], list[list[str]]]
LAYERS = (10, 100, 1_000, 10_000)
EXPERTS = (8, 64, 512, 4_096)
TENSORS = (100, 1_000, 10_000, 100_000)
POINTS = (1_000, 10_000, 100_000, 1_000_000)

# Work, then its median time on the processor and the peak of the process; `n` is the size.
CHILD = """
import json, re, statistics, sys, time
n, repeats = int(sys.argv[1]), int(sys.argv[2])
{setup}
times = []
for _ in range(repeats):
    {fresh}
    start = time.process_time()
    {work}
    times.append(time.process_time() - start)
# Not `ru_maxrss`, which begins at the peak of the process that started this one.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(json.dumps([statistics.median(times), peak]))
"""
MODEL = "import sizer; model = sizer.load({name!r}, {field}=n); from sizer.model import Model"
FRESH = "one = Model(model.name, model.architecture, model.given)"


class Point(NamedTuple):
    seconds: float
    kib: int


def child(size: int | str, repeats: int, setup: str, work: str, fresh: str = "pass") -> Point:
    """Time and peak memory of some work in a process of its own."""
    code = CHILD.format(setup=setup, work=work, fresh=fresh)
    ran = subprocess.run(
        [sys.executable, "-c", code, str(size), str(repeats)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return Point(*json.loads(ran.stdout))


def row(size: int, point: Point, first: Point) -> list[str]:
    """A line of a table: the time, the memory, and both beside the first line."""
    milliseconds = point.seconds * 1e3
    return [
        f"{size:,}",
        f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}",
        f"{point.seconds / first.seconds:,.2f}",
        f"{point.kib / 1024:,.1f}",
        f"{point.kib / first.kib:,.2f}",
    ]


def table(title: str, what: str, points: dict[int, Point]) -> Table:
    first = next(iter(points.values()))
    return title, [what, "ms", "ratio", "MiB", "ratio"], [row(n, p, first) for n, p in points.items()]


def of_model(title: str, what: str, name: str, field: str, sizes: tuple[int, ...]) -> Table:
    """A count of a fresh model; and for layers, the list of its tensors."""
    setup = MODEL.format(name=name, field=field)
    return table(title, what, {n: child(n, 51, setup, "one.count()", FRESH) for n in sizes})


def of_tensors(folder: Path) -> Table:
    """A count of a file of weights, from its header."""
    points = {}
    for n in TENSORS:
        entries: list[Entry] = [(f"layers.{i}.weight", "BF16", (64, 64)) for i in range(n)]
        text, size = header(entries)
        path = folder / f"{n}.safetensors"
        with path.open("wb") as file:
            file.write(text)
            file.truncate(len(text) + size)
        setup = f"import sizer; path = {str(path)!r}"
        points[n] = child(n, 5, setup, "sizer.load_checkpoint(path).count()")
    return table("Tensors: a count of a file of weights", "tensors", points)


def of_points() -> Table:
    setup = (
        "import sizer, numpy as np; "
        "model = sizer.load('gpt2-small', d_model=np.arange(1, n + 1) * 12); from sizer.model import Model"
    )
    points = {n: child(n, 3, setup, "one.count()", FRESH) for n in POINTS}
    return table("Grid: a count over so many widths at once", "points", points)


def of_requests(most: int) -> Table | None:
    """Requests to the service, one after the other on a hundred connections, and the server's memory."""
    if not find_spec("fastapi") or not Path("/proc/self").exists():
        return None
    from benchmarks.service import CONNECTIONS, COUNT, load, serve, up_to

    server = serve("--no-access-log")
    points = {}
    try:
        asyncio.run(load(server.port, COUNT, CONNECTIONS, up_to(CONNECTIONS)))
        for requests in (most // 100, most // 10, most):
            begin = time.perf_counter()
            asyncio.run(load(server.port, COUNT, CONNECTIONS, up_to(requests)))
            points[requests] = Point(time.perf_counter() - begin, server.memory())
    finally:
        server.stop()
    return table(f"Requests: a count over HTTP, {CONNECTIONS} connections", "requests", points)


def tables(requests: int) -> list[Table]:
    """All tables of growth; those whose extras are not there are left out."""
    with tempfile.TemporaryDirectory() as place:
        found = [
            of_model(
                "Layers: a count of Llama 3 8B with so many", "layers", "llama-3-8b", "n_layers", LAYERS
            ),
            of_model(
                "Experts: a count of Mixtral with so many", "experts", "mixtral-8x7b", "n_experts", EXPERTS
            ),
            of_tensors(Path(place)),
        ]
    if find_spec("numpy"):
        found.append(of_points())
    served = of_requests(requests) if requests else None
    return [*found, *([served] if served else [])]
