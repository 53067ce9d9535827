"""Logs of the service: one JSON object a line, on standard error."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import time
from functools import lru_cache
from typing import Any

from sizer.errors import clip


class Formatter(logging.Formatter):
    """A record of `logging` as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


FLUSH_EVERY = 0.1
# For uvicorn's own lines; its lines about requests are ours, below.
CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "sizer.service.logs.Formatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {
        "uvicorn": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "uvicorn.access": {"handlers": [], "level": "CRITICAL", "propagate": False},
    },
}


class Requests:
    """Lines about requests, written together a few times a second: a line each takes as long as an answer."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, scope: dict[str, Any], status: int, seconds: float, sent: int, *, kept: bool) -> None:
        """A request that was answered; what a client wrote is escaped and clipped."""
        if not self._lines:
            asyncio.get_running_loop().call_later(FLUSH_EVERY, self.flush)
        client, method = scope.get("client"), scope["method"]
        line = {
            "time": _time(time.time()),
            "level": "info",
            "logger": "request",
            "client": client[0] if client else None,
            "method": method if len(method) < 8 else clip(method, 16),
            "path": _short(scope["path"], 200),
            "query": _short(scope["query_string"].decode("latin-1"), 300),
            "status": status,
            "ms": round(seconds * 1e3, 3),
            "bytes": sent,
            "kept": kept,
        }
        self._lines.append(json.dumps(line))

    def flush(self) -> None:
        """Write what has gathered."""
        if self._lines:
            text = "\n".join(self._lines)
            self._lines = []
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(text + "\n")
                sys.stderr.flush()


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else clip(text, most)


def _time(seconds: float) -> str:
    whole = int(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * 1000):03}Z"


@lru_cache(maxsize=2)
def _second(whole: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
