"""A request worked out: the document of the command's `--json`, or a problem document."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import click

from sizer.errors import SizerError
from sizer.report import report
from sizer.service import problems
from sizer.service.endpoints import Endpoint, find
from sizer.service.models import loaded, model_of
from sizer.service.requests import values_of

JSON, LINES = "application/json", "application/x-ndjson"
# The largest whole number that every reader of JSON keeps exact (IEEE 754 doubles).
MOST_EXACT = 2**53
# Lines of one answer; a list of a million tensors says no more than its shorter form.
MAX_LINES = 1_000_000


class Answer:
    """A status, a media type, and a text: whole, or line by line where it is long."""

    def __init__(
        self, status: int, kind: str, text: bytes | Iterator[bytes], exit_code: int | None = None
    ) -> None:
        self.status = status
        self.kind = kind
        self.text = text
        self.exit_code = exit_code


def answer(path: str, query: str, content_type: str, body: bytes, *, both: bool = False) -> Answer:
    """The answer to a request to a path below /v1/; `both`: large integers as texts too."""
    try:
        found = find(path)
        if found is None:
            return Answer(404, problems.MEDIA_TYPE, problems.document(404, "there is no such endpoint"))
        _, endpoint, in_path = found
        values, upload = values_of(query, content_type, body)
        if upload is not None and not endpoint.has_model:
            raise click.UsageError("this endpoint takes no file")
        return _rendered(_report(endpoint, {**values, **in_path}, upload), both)
    except (SizerError, click.ClickException) as error:
        status, text = problems.of(error)
        return Answer(status, problems.MEDIA_TYPE, text)
    except MemoryError:
        return problem(422, "the answer takes more memory than a request may use; ask for less of it")
    except PermissionError:
        return problem(422, "the request names a file; the service opens no file of a client's choice")
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return problem(500, f"a bug in sizer: {type(error).__name__} ({_place(error)}); please report it")


def problem(status: int, detail: str) -> Answer:
    """An answer that is a problem document."""
    return Answer(status, problems.MEDIA_TYPE, problems.document(status, detail))


def _report(endpoint: Endpoint, values: dict[str, Any], upload: Any) -> report.Report:
    model = None
    if endpoint.has_model:
        names = {param.name for param in endpoint.command.params}
        model = model_of(values, upload, checkpoints=bool({"by", "layout"} & names))
    return endpoint.report(values, model, loaded)


def _rendered(found: report.Report, both: bool) -> Answer:
    document = found.document()
    if isinstance(document, Iterator):
        return Answer(200, LINES, _lines(document, both), found.exit_code)
    text = report.json(with_texts(document) if both else document)
    return Answer(200, JSON, (text + "\n").encode("utf-8", "backslashreplace"), found.exit_code)


def _lines(entries: Iterator[Any], both: bool) -> Iterator[bytes]:
    for number, entry in enumerate(entries):
        if number == MAX_LINES:
            yield (
                problems.document(422, f"the answer is cut off after {MAX_LINES:,} lines").replace(b"\n", b"")
                + b"\n"
            )
            return
        line = report.json_line(with_texts(entry) if both else entry)
        yield (line + "\n").encode("utf-8", "backslashreplace")


def with_texts(value: Any) -> Any:
    """A document in which each key with integers beyond 2⁵³ has a second one with them as texts.

    >>> with_texts({"forward": 2**60, "batch": 8})
    {'forward': 1152921504606846976, 'forward_str': '1152921504606846976', 'batch': 8}
    >>> with_texts({"forward": [2**60, 0.5]})
    {'forward': [1152921504606846976, 0.5], 'forward_str': ['1152921504606846976', 0.5]}
    """
    if isinstance(value, list | tuple):
        return [with_texts(item) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, item in value.items():
        found[key] = with_texts(item)
        if _large(item):
            found[f"{key}_str"] = str(item)
        elif isinstance(item, list | tuple) and any(map(_large, item)):
            found[f"{key}_str"] = [str(each) if isinstance(each, int) else each for each in item]
    return found


def _large(value: object) -> bool:
    return isinstance(value, int) and abs(value) > MOST_EXACT


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "unknown place"
