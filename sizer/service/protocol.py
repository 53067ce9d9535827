"""HTTP with an end to how long a client may take to say what it wants."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from sizer.service.settings import Settings


class Protocol(H11Protocol):  # type: ignore[misc]
    """uvicorn's protocol; a connection whose headers do not arrive in time is closed.

    uvicorn has a timeout for connections that are idle, and none for those that send a byte at a time.
    """

    header_timeout = Settings.header_timeout
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take in what has arrived; where no request is whole yet, the time runs."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        waits = self.cycle is None or self.cycle.response_complete
        if not waits:
            self._stop()
        elif self._late is None:
            self._late = self.loop.call_later(self.header_timeout, self._close)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self) -> None:
        self._late = None
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.transport.close()
