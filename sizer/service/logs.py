"""Logs of the service: one JSON object a line, on standard error."""

from __future__ import annotations

import json
import logging
import sys
import time
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


def request(scope: dict[str, Any], status: int, seconds: float, sent: int, *, kept: bool) -> None:
    """One line about a request that was answered; what a client wrote is escaped and clipped."""
    client = scope.get("client")
    line = {
        "time": _time(time.time()),
        "level": "info",
        "logger": "request",
        "client": client[0] if client else None,
        "method": clip(scope["method"], 16),
        "path": clip(scope["path"], 200),
        "query": clip(scope["query_string"].decode("latin-1"), 300),
        "status": status,
        "ms": round(seconds * 1e3, 3),
        "bytes": sent,
        "kept": kept,
    }
    sys.stderr.write(json.dumps(line) + "\n")


def _time(seconds: float) -> str:
    whole = int(seconds)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int((seconds - whole) * 1000):03}Z"
