"""Lanes of calculators where clients leave, and calculators die: each place is given to the next."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sizer.service.app import create
from sizer.service.lanes import Busy, Failed, Job, Lane
from sizer.service.settings import Settings

MEMORY = 2_000_000_000
# More than is sent at once, so it holds its calculator until it is read or closed.
LONG = "model=gpt2-small&expand=true&set=n_layers%3D1500"


def job(path: str = "count", query: str = "model=gpt2-small") -> Job:
    return Job(path, query, "", b"", both=False, gzip=False)


@asynccontextmanager
async def lane(queue: int = 2, deadline: float = 60.0) -> AsyncIterator[Lane]:
    """One place."""
    found = Lane(1, queue, deadline, MEMORY)
    try:
        yield found
    finally:
        await found.close()


def test_who_leaves_while_waiting_makes_room() -> None:
    async def run() -> int:
        async with lane(queue=1) as one:
            held = await one.answer(job("tensors", LONG))
            waits = asyncio.create_task(one.answer(job()))
            await asyncio.sleep(0)
            with pytest.raises(Busy):
                await one.answer(job())
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            follows = asyncio.create_task(one.answer(job()))
            await asyncio.sleep(0)
            assert held.parts is not None
            await held.parts.aclose()
            return (await follows).status

    assert asyncio.run(run()) == 200


@pytest.mark.parametrize("leaves_first", [True, False])
def test_who_leaves_in_the_moment_of_its_turn(leaves_first: bool) -> None:
    async def run() -> int:
        async with lane() as one:
            held = await one.answer(job("tensors", LONG))
            waits = asyncio.create_task(one.answer(job()))
            follows = asyncio.create_task(one.answer(job()))
            await asyncio.sleep(0)
            assert held.parts is not None
            if leaves_first:
                waits.cancel()
            await held.parts.aclose()
            if not leaves_first:
                waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            return (await follows).status

    assert asyncio.run(run()) == 200


@pytest.mark.parametrize("after", [0, 0.1])
def test_who_leaves_while_a_calculator_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, after: float
) -> None:
    folders = tmp_path / "folders"
    folders.mkdir()
    # Python runs this before anything else, so that a calculator is still starting on any machine.
    (tmp_path / "sitecustomize.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(tempfile, "tempdir", str(folders))

    async def run() -> int:
        async with lane() as one:
            with monkeypatch.context() as slow:
                slow.setenv("PYTHONPATH", str(tmp_path))
                asked = asyncio.create_task(one.answer(job()))
                await asyncio.sleep(after)
            assert len(list(folders.iterdir())) == 1
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert list(folders.iterdir()) == []
            return (await one.answer(job())).status

    assert asyncio.run(run()) == 200
    assert list(folders.iterdir()) == []


def test_a_calculator_that_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def run() -> int:
        async with lane() as one:
            with monkeypatch.context() as broken:
                broken.setenv("PYTHONHOME", str(tmp_path / "no python"))
                with pytest.raises(Failed, match="does not start"):
                    await one.answer(job())
            assert list(tmp_path.iterdir()) == []
            return (await one.answer(job())).status

    assert asyncio.run(run()) == 200


def test_a_calculator_that_died_is_replaced() -> None:
    async def run() -> tuple[int, bool]:
        async with lane() as one:
            await one.start()
            first = one.idle[0].process
            first.send_signal(signal.SIGKILL)
            await first.wait()
            found = await one.answer(job())
            return found.status, one.idle[0].process.pid != first.pid

    assert asyncio.run(run()) == (200, True)


def test_a_calculator_that_dies_at_work() -> None:
    async def run() -> int:
        async with lane() as one:
            held = await one.answer(job("tensors", LONG))
            assert held.parts is not None
            for folder in Path("/proc").glob("[0-9]*"):
                if _asks(folder):
                    os.kill(int(folder.name), signal.SIGKILL)
            with pytest.raises(Failed, match="cut off"):
                [part async for part in held.parts]
            return (await one.answer(job())).status

    assert asyncio.run(run()) == 200


def _asks(folder: Path) -> bool:
    """Whether a process is a calculator of this one."""
    try:
        parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == os.getpid() and b"sizer.service.calculator" in (folder / "cmdline").read_bytes()
    except OSError:
        return False


Receive = Callable[[], Awaitable[dict[str, Any]]]


async def _asked(app: Any, path: str, query: str, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    scope = {"type": "http", "asgi": {"spec_version": "2.3"}, "method": "GET", "path": path, "headers": []}
    scope |= {"query_string": query.encode(), "scheme": "http", "server": ("x", 80), "root_path": ""}
    given = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        for message in given:
            return message
        return await asyncio.Future()

    await app({**scope, "client": ("y", 1)}, receive, send)


@asynccontextmanager
async def living(app: Any) -> AsyncIterator[None]:
    """The application between its start and its end, as a server of ASGI calls it."""
    said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"spec_version": "2.0"}}
    task = asyncio.create_task(app(scope, said.get, heard.put))
    await said.put({"type": "lifespan.startup"})
    assert (await heard.get())["type"] == "lifespan.startup.complete"
    yield
    await said.put({"type": "lifespan.shutdown"})
    assert (await heard.get())["type"] == "lifespan.shutdown.complete"
    await task


def test_a_client_that_takes_nothing_of_a_long_answer() -> None:
    async def never(_message: dict[str, Any]) -> None:
        await asyncio.Future()

    async def run() -> list[dict[str, Any]]:
        taken: list[dict[str, Any]] = []

        async def take(message: dict[str, Any]) -> None:
            taken.append(message)

        app = create(Settings(calculators=1, send_timeout=0.2, access_log=False))
        async with living(app):
            for _ in range(2):
                await _asked(app, "/v1/tensors", LONG, never)
            async with asyncio.timeout(60):
                await _asked(app, "/v1/tensors", "model=gpt2-small", take)
        return taken

    assert asyncio.run(run())[0]["status"] == 200
