"""A server on the loopback address, as a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from repository import ROOT
from service.browsing import Open, browser, visits

# Seconds after which what a test waits for is missing, on a machine that is slow and busy too.
PATIENCE = 60


def until(happened: Callable[[], object]) -> None:
    """Wait for something of another process."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


class Server:
    """`sizer serve` on a free port; `log` are its lines so far."""

    # How Python starts it, before the options of the command.
    program: tuple[str, ...] = ("-m", "sizer")

    def __init__(self, *options: str, **variables: str) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in ("SIZER_TOKEN", "SIZER_SERVICE")}
        path = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH", ""))))
        self.process = subprocess.Popen(
            [sys.executable, *self.program, "serve", "--port", "0", *options],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**environment, "PYTHONPATH": path, **variables},
        )
        self.log: list[str] = []
        self.base = ""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self._wait()
        self.client = httpx.Client(base_url=self.base, timeout=PATIENCE)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"running on (http://[0-9.:]+)", line):
                self.base = found[1]

    def _wait(self) -> None:
        def ready() -> bool:
            try:
                return bool(self.base) and httpx.get(f"{self.base}/readyz").status_code == 200
            except httpx.TransportError:
                return False

        until(lambda: self.process.poll() is not None or ready())
        if self.process.poll() is not None:
            raise AssertionError("the server did not start:\n" + "".join(self.log))

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    def requests(self) -> list[dict[str, object]]:
        """The lines of the log about requests."""
        return [line for line in map(json.loads, self.log) if line["logger"] == "request"]

    def stop(self) -> int:
        """SIGTERM, unless it has ended, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        finally:
            self._close()

    def _close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.client.close()
        self.reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for the tests that leave it as it was."""
    found = Server("--max-body", "1000000", "--deadline", "10", "--heavy-deadline", "20")
    yield found
    assert found.stop() == 0


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Start servers of other options."""
    started: list[Server] = []

    def begin(*options: str, **variables: str) -> Server:
        started.append(Server(*options, **variables))
        return started[-1]

    yield begin
    for each in started:
        assert each.stop() == 0


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, as long as one file of tests needs it."""
    pytest.importorskip("playwright", reason="the tests of the page need playwright")
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("the tests of the page need chromium")
    with browser(found) as opened:
        yield opened


@pytest.fixture
def visit(chromium: Any, server: Server) -> Iterator[Open]:
    """Open the page in tabs that must not complain."""
    with visits(chromium, server.base) as begin:
        yield begin
