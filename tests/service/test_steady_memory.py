"""Requests without end leave nothing behind in the server."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

from sizer.service.cache import Kept
from sizer.service.door import Door
from sizer.service.metrics import Metrics
from sizer.service.settings import Settings


def _scope(number: int) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        # Paths of a client's own invention, too.
        "path": "/v1/count" if number % 2 else f"/v1/x{number}",
        "query_string": f"model={number % 50}".encode(),
        "headers": [(b"accept", b"*/*")],
        "client": ("127.0.0.1", 1),
    }


def test_the_door_grows_by_nothing() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    async def send(_message: Any) -> None:
        pass

    async def ask(door: Door, begin: int, end: int) -> None:
        for number in range(begin, end):
            await door(_scope(number), None, send)  # type: ignore[arg-type]
            answer = Kept(200, "text/plain", b"x" * 1_000, b"")
            # The loop forgets timers that were stopped when it comes round.
            await asyncio.sleep(0)
            door.cache.put(("/v1/count", f"model={number}".encode(), b"", b"", False), answer)

    async def measured() -> tuple[int, int, Door]:
        door = Door(app, Settings(cache=300_000, access_log=False), None, {}, Metrics())
        tracemalloc.start()
        try:
            # More than there is room for in any cache, so that all of them are full.
            await ask(door, 0, 3_000)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            await ask(door, 3_000, 6_000)
            gc.collect()
            return before, tracemalloc.get_traced_memory()[0], door
        finally:
            tracemalloc.stop()

    before, after, door = asyncio.run(measured())

    assert after - before < 100_000
    assert door.cache.size <= 300_000
    assert set(door.metrics.times) == {"/v1/count", "other"}
