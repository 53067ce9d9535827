"""The service under load, and its page: `python -m benchmarks.service [--seconds N] [--requests N]`.

Requests a second and times at 100 connections, against an empty FastAPI endpoint of the same server
software in the same run; a count while sweeps run; memory over 100,000 requests; the page in a browser.
The load comes from one process with plain sockets, which is quicker than the server it asks.
`--only PART` runs one part: rates, heavy, memory or page.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import browser

EMPTY = """
import sys
import uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/")
async def empty():
    return {}
uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="info")
"""
COUNT = "/v1/count?model=gpt2-small"
# Heavy: a sweep of 900,000 sizes, which takes many seconds.
HEAVY = "/v1/sweep?model=gpt2-small&axes=d_model%3D96:86400:96&axes=n_layers%3D1:900&what=params,kv_cache"
CONNECTIONS = 100


class Server:
    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.port = 0
        started = False
        for line in self.process.stderr:
            if found := re.search(r"running on http://127.0.0.1:(\d+)", line):
                self.port = int(found[1])
            started = started or "startup complete" in line
            if started and self.port:
                break
        # Whoever logs must be read.
        self.reader = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

        for _ in range(50):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            time.sleep(0.1)

    def processor(self) -> float:
        """Seconds on the processor so far, without those of its calculators."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """KiB in memory of the server, without its calculators."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1])  # type: ignore[index]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self.reader.wait(5)


async def connection(port: int, path: str, times: list[float], more: Callable[[], bool]) -> None:
    """Ask again and again on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\r\n".encode()
    while more():
        begin = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{path}: {head[:40]!r}")
        length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])  # type: ignore[index]
        await reader.readexactly(length)
        times.append(time.perf_counter() - begin)
    writer.close()


async def load(port: int, path: str, connections: int, more: Callable[[], bool]) -> list[float]:
    times: list[float] = []
    await asyncio.gather(*(connection(port, path, times, more) for _ in range(connections)))
    return times


def during(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() < end


def up_to(requests: int) -> Callable[[], bool]:
    left = iter(range(requests))
    return lambda: next(left, None) is not None


def show(name: str, times: list[float], seconds: float) -> float:
    milliseconds = sorted(t * 1e3 for t in times)
    p99 = milliseconds[int(len(milliseconds) * 0.99)]
    rate = len(times) / seconds
    print(
        f"{name:38}{rate:9.0f}/s{statistics.median(milliseconds):9.2f}{p99:9.2f}{milliseconds[-1]:9.2f}",
        flush=True,
    )
    return rate


def serve(*options: str) -> Server:
    return Server([sys.executable, "-m", "sizer", "serve", "--port", "0", "--grace", "2", *options])


def rates(seconds: float, rounds: int) -> None:
    """Alternating rounds, so that what else the machine does falls on both."""
    empty = Server([sys.executable, "-c", EMPTY, "0"])
    ours, quiet = serve(), serve("--no-access-log")
    print(f"{'':38}{'':11}{'ms':>9}{'p99':>9}{'most':>9}")
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for name, server, path in (
            ("an empty FastAPI endpoint", empty, "/"),
            ("/v1/count", ours, COUNT),
            ("/v1/count, no access log", quiet, COUNT),
        ):
            asyncio.run(load(server.port, path, 1, up_to(50)))
            before = server.processor()
            times = asyncio.run(load(server.port, path, CONNECTIONS, during(seconds)))
            each = (server.processor() - before) / len(times)
            found.setdefault(name, []).append((show(name, times, seconds), each))
    base = found.pop("an empty FastAPI endpoint")
    for name, measured in found.items():
        ratio = statistics.median(a / b for (a, _), (b, _) in zip(measured, base, strict=True))
        mine, its = (statistics.median(each * 1e6 for _, each in times) for times in (measured, base))
        print(
            f"{name}: {ratio:.2f} of the empty endpoint's requests a second; {mine:.0f} µs of processor "
            f"each, {its:.0f} µs there"
        )
    for server in (empty, ours, quiet):
        server.stop()


def beside_heavy() -> None:
    """Counts, kept and not kept, while heavy answers are worked out."""
    server = serve("--no-access-log")

    async def heavy() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET {HEAVY} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        while await reader.read(1 << 16):
            pass
        writer.close()

    async def counts(fresh: bool) -> list[float]:
        times: list[float] = []
        for number in range(200):
            # A size that was not asked for before is worked out.
            path = f"/v1/count?model=gpt2-small&depth={number + 1}" if fresh else COUNT
            await connection(server.port, path, times, up_to(1))
            await asyncio.sleep(0.01)
        return times

    async def both(fresh: bool) -> list[float]:
        tasks = [asyncio.create_task(heavy()) for _ in range(4)]
        await asyncio.sleep(1.5)
        times = await counts(fresh)
        for task in tasks:
            task.cancel()
        return times

    asyncio.run(connection(server.port, COUNT, [], up_to(1)))
    for name, fresh in (("kept", False), ("worked out", True)):
        alone = asyncio.run(counts(fresh)) if not fresh else None
        if alone:
            show(f"a count, {name}, alone", alone, sum(alone))
        times = asyncio.run(both(fresh))
        show(f"a count, {name}, beside 4 sweeps", times, sum(times))
    server.stop()


def memory(requests: int) -> None:
    server = serve()
    asyncio.run(load(server.port, COUNT, CONNECTIONS, up_to(requests // 10)))
    before = server.memory()
    asyncio.run(load(server.port, COUNT, CONNECTIONS, up_to(requests)))
    after = server.memory()
    print(f"memory: {before / 1024:.1f} MiB before {requests:,} requests, {after / 1024:.1f} MiB after")
    server.stop()


def page() -> None:
    server = serve("--no-access-log")
    browser.measure(f"http://127.0.0.1:{server.port}")
    server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--only", choices=("rates", "heavy", "memory", "page"))
    options = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "rates": lambda: rates(options.seconds, options.rounds),
        "heavy": beside_heavy,
        "memory": lambda: memory(options.requests),
        "page": page,
    }
    for name, part in parts.items():
        if options.only in (None, name):
            part()


if __name__ == "__main__":
    main()
