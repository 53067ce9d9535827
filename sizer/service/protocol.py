"""HTTP with an end to what a client may send, and to how long it may take."""

from __future__ import annotations

import asyncio
from functools import cache
from importlib.util import find_spec
from typing import Any

from sizer.service.settings import Settings, from_environment

# Of the first line and the headers of a request.
MOST_HEADERS = 65_536
# Of a body that is read only to be thrown away, so that its sender sees why.
MOST_DRAINED = 256_000_000


class Bounds:
    """What uvicorn's protocols leave open, for either of them.

    They have a timeout for connections that are idle, and none for those that send a byte at a time;
    and httptools has no bound on headers, nor on those that follow a body.
    """

    settings = Settings()
    _late: asyncio.TimerHandle | None = None
    _received = 0
    # When it began to wait for a request, or for the rest of one.
    _since = 0.0
    # Of uvicorn's protocol.
    cycle: Any
    connections: set[Any]
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for the first request; where there is no room, in the place of who waits longest."""
        super().connection_made(transport)  # type: ignore[misc]
        self._since = self.loop.time()
        if len(self.connections) >= self.settings.connections:
            self._make_room()
        self._watch()

    def _make_room(self) -> None:
        waiting = [each for each in self.connections if each is not self and each.is_owing()]
        if waiting:
            longest = min(waiting, key=lambda each: each._since)
            # It is told later; until then another that arrives must not choose it again.
            self.connections.discard(longest)
            longest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take in what has arrived; where no request is whole yet, the time runs."""
        before = self.cycle
        super().data_received(data)  # type: ignore[misc]
        if self.cycle is not before:
            self._since = self.loop.time()
        self._received = self._received + len(data) if self.cycle is before else 0
        if self._received > self._most():
            self.transport.close()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop()
        super().connection_lost(exc)  # type: ignore[misc]

    def _waits(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def is_owing(self) -> bool:
        """Whether it is the client's turn: no request is there, or not the whole of one."""
        return self._waits() or bool(self.cycle.more_body)

    def _most(self) -> int:
        if not self._waits():
            # Chunks of a byte take six.
            return 6 * self.settings.max_body + MOST_HEADERS
        return MOST_DRAINED if self.cycle is not None and self.cycle.more_body else MOST_HEADERS

    def _watch(self) -> None:
        if not self._waits():
            self._stop()
        elif self._late is None:
            self._late = self.loop.call_later(self.settings.client_timeout, self._close)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self) -> None:
        # A request that had come would have stopped the timer.
        self._late = None
        self.transport.close()


if find_spec("httptools"):
    # Much of it in C, and twice as fast.
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Base
else:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Base


class Protocol(Bounds, _Base):  # type: ignore[misc]
    """The protocol of the service."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.settings = _settings()


@cache
def _settings() -> Settings:
    return from_environment()
