"""Calculators in lanes: a request in one lane never waits for those in another.

An answer is worked out in a process of its own, so that the server goes on reading and writing
whatever a request asks for, and so that time and memory have an end.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator
from typing import Any

import sizer
from sizer.service.calculator import FRAME, frame
from sizer.service.settings import TOKEN_VARIABLE, VARIABLE

# What a calculator may take beyond its own deadline before it is killed.
GRACE = 2.0
# A calculator is replaced after so many jobs, so that none can grow without end.
MOST_JOBS = 10_000
# One that does not start within this does not start.
START = 30.0


class Busy(Exception):
    """As many requests wait as may."""


class Failed(Exception):
    """A calculator that ended without an answer."""


class Job:
    """What a calculator is asked."""

    def __init__(self, path: str, query: str, kind: str, body: bytes, *, both: bool, gzip: bool) -> None:
        self.path = path
        self.query = query
        self.kind = kind
        self.body = body
        self.both = both
        self.gzip = gzip

    def frames(self, deadline: float) -> bytes:
        """As it is sent."""
        about = {
            "path": self.path,
            "query": self.query,
            "type": self.kind,
            "both": self.both,
            "gzip": self.gzip,
            "deadline": deadline,
        }
        return frame(b"J", json.dumps(about).encode()) + frame(b"B", self.body)


class Found:
    """An answer: whole, with the same in gzip where that is shorter, or a stream of parts."""

    def __init__(self, about: dict[str, Any], parts: AsyncGenerator[bytes] | None = None) -> None:
        self.status: int = about["status"]
        self.kind: str = about["type"]
        self.exit_code: int | None = about["exit"]
        self.gzip: bool = about["gzip"]
        self.stream: bool = about["stream"]
        self.last: bool = about["last"]
        self.parts = parts
        self.data = b""
        self.packed = b""


class _Calculator:
    def __init__(self, memory: int, nice: int) -> None:
        self.memory = memory
        self.nice = nice
        self.folder = ""
        self.process: Any = None
        self.jobs = 0

    async def start(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="sizer-")
        package = os.path.dirname(os.path.dirname(os.path.abspath(sizer.__file__)))
        hidden = (TOKEN_VARIABLE, VARIABLE)
        variables = {key: value for key, value in os.environ.items() if key not in hidden}
        variables |= {
            "SIZER_CALCULATOR": json.dumps({"memory": self.memory, "nice": self.nice}),
            "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", "")))),
            "OPENBLAS_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "sizer.service.calculator"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env=variables,
            start_new_session=True,
        )
        try:
            await asyncio.wait_for(self._read(b"R"), START)
        except (TimeoutError, asyncio.IncompleteReadError):
            raise Failed("a calculator does not start") from None

    @property
    def alive(self) -> bool:
        return bool(self.process.returncode is None)

    async def _read(self, *letters: bytes) -> tuple[bytes, bytes]:
        letter, length = FRAME.unpack(await self.process.stdout.readexactly(FRAME.size))
        assert letter in letters, letter
        return letter, await self.process.stdout.readexactly(length)

    async def ask(self, job: Job, deadline: float) -> Found:
        self.jobs += 1
        self.process.stdin.write(job.frames(deadline))
        await self.process.stdin.drain()
        _, about = await self._read(b"H")
        return Found(json.loads(about))

    async def next(self) -> tuple[bytes, bytes]:
        return await self._read(b"D", b"Z", b"E")

    async def end(self) -> None:
        """Stop the process and remove its folder."""
        if self.process is not None:
            # Kills it. While a pipe is open and full, asyncio does not see that a process has ended.
            self.process._transport.close()
            await self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Lane:
    """At most `most` calculators, started when they are needed and replaced when they end."""

    def __init__(self, most: int, queue: int, deadline: float, memory: int, nice: int = 0) -> None:
        self.most = most
        self.queue = queue
        self.deadline = deadline
        self.memory = memory
        self.nice = nice
        self.idle: list[_Calculator] = []
        self.waiting = 0
        self._places = asyncio.Semaphore(most)
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, job: Job) -> Found:
        """The answer to a job; raises `Busy` at once where too many wait, and `Failed`."""
        await self._enter()
        calculator: _Calculator | None = None
        clean = streams = False
        try:
            calculator = await self._take()
            async with asyncio.timeout(self.deadline + GRACE):
                found = await calculator.ask(job, self.deadline)
                if found.stream:
                    streams = True
                    found.parts = self._parts(calculator)
                    # What has begun also ends where nobody asks for a part.
                    await anext(found.parts)
                    return found
                while True:
                    letter, data = await calculator.next()
                    if letter == b"E":
                        clean = not found.last
                        return found
                    if letter == b"Z":
                        found.packed = data
                    else:
                        found.data = data
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            raise Failed("the calculation ended without an answer") from None
        finally:
            if not streams:
                self._leave(calculator, clean=clean)

    async def _parts(self, calculator: _Calculator) -> AsyncGenerator[bytes]:
        clean = False
        try:
            yield b""
            async with asyncio.timeout(self.deadline + GRACE):
                while True:
                    letter, data = await calculator.next()
                    if letter == b"E":
                        clean = True
                        return
                    yield data
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            raise Failed("the answer is cut off") from None
        finally:
            self._leave(calculator, clean=clean)

    async def _enter(self) -> None:
        if self._places.locked() and self.waiting >= self.queue:
            raise Busy
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1

    async def _take(self) -> _Calculator:
        while self.idle:
            calculator = self.idle.pop()
            if calculator.alive:
                return calculator
            await calculator.end()
        return await self._started()

    async def _started(self) -> _Calculator:
        calculator = _Calculator(self.memory, self.nice)
        try:
            await calculator.start()
        except BaseException:
            # Also where whoever waited for it has left.
            await calculator.end()
            raise
        return calculator

    def _leave(self, calculator: _Calculator | None, *, clean: bool) -> None:
        """Give the place to the next; a calculator that is not clean ends."""
        if calculator is not None and clean and calculator.alive and calculator.jobs < MOST_JOBS:
            self.idle.append(calculator)
        elif calculator is not None:
            task = asyncio.ensure_future(calculator.end())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._places.release()

    async def start(self) -> None:
        """Start one calculator, so that the first request need not wait for it."""
        self.idle.append(await self._started())

    async def close(self) -> None:
        """Stop all calculators."""
        for task in list(self._tasks):
            await task
        while self.idle:
            await self.idle.pop().end()
