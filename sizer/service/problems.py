"""Errors as RFC 9457 problem documents, with the sentences of the command line."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import click

from sizer.errors import MissingExtra, SizerError, UnknownName, sentence
from sizer.report import report
from sizer.service.requests import Unreadable

MEDIA_TYPE = "application/problem+json"


def document(status: int, detail: str, **more: Any) -> bytes:
    """A problem document; `detail` is the sentence for people.

    >>> print(document(404, "there is no such page").decode())
    {
      "type": "about:blank",
      "title": "Not Found",
      "status": 404,
      "detail": "there is no such page"
    }
    """
    return report.json(
        {
            "type": "about:blank",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            **more,
        }
    ).encode("utf-8", "backslashreplace")


def status_of(error: Exception) -> int:
    """404 for an unknown preset, 400 for a request that cannot be read, 422 for values that are wrong."""
    if isinstance(error, Unreadable):
        return error.status
    if isinstance(error, UnknownName) and error.kind == "preset":
        return 404
    if isinstance(error, UnknownName) and error.kind == "option":
        return 400
    return 501 if isinstance(error, MissingExtra) else 422


def of(error: SizerError | click.ClickException) -> tuple[int, bytes]:
    """The status and the document of an error that a client can cause."""
    status = status_of(error)
    detail = sentence(error.format_message() if isinstance(error, click.ClickException) else str(error))
    more = {"nearest": error.nearest} if isinstance(error, UnknownName) else {}
    return status, document(status, detail, **more)
