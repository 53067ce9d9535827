"""An answer written to a file beside being printed: JSON, Markdown, or JUnit XML, by its ending."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from sizer.errors import BadInput, UnknownName, clip
from sizer.report.junit import Case, junit
from sizer.report.report import Report, formatted, json

ENDINGS = (".json", ".md", ".xml")


def save_to(path: str | None, answer: Report, suite: str, cases: Callable[[], Sequence[Case]]) -> Report:
    """The same answer, also written to a file where a path is given."""
    if path is None:
        return answer
    check_path(path)
    ending = os.path.splitext(path)[1]
    if ending == ".json":
        text = json(answer.document())
    elif ending == ".md":
        text = _markdown(answer)
    else:
        text = junit(suite, cases())
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text + "\n")
    except OSError as error:
        raise BadInput(f"cannot write {clip(path)}: {error.strerror}") from None
    return answer


def check_path(path: str | None) -> None:
    """Refuse an ending nobody writes, before the work is done."""
    if path is not None and os.path.splitext(path)[1] not in ENDINGS:
        raise UnknownName(
            "form of a report", clip(path), (), hint="a file ending in .json, .md or .xml (JUnit)"
        )


def _markdown(answer: Report) -> str:
    view = answer.view()
    parts = ["\n".join(view.above)]
    if view.table is not None:
        parts.append(formatted(view.table, "github"))
    parts.append("  \n".join(view.below))
    return "\n\n".join(part for part in parts if part)
