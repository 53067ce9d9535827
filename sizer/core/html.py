"""A table as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Collection[int] = (),
    above: Iterable[str] = (),
    below: Iterable[str] = (),
) -> str:
    """A table with lines above and below it; `numbers` are the columns that are set to the right.

    >>> table(("name",), [("w<e",)])[-50:]
    'white-space: pre">w&lt;e</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in headers)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align: {"right" if i in numbers else "left"}; white-space: pre">'
            f"{escape(cell)}</td>"
            for i, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    grid = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if headers else ""
    return f"{lines(above)}{grid}{lines(below)}"


def lines(texts: Iterable[str]) -> str:
    """Lines as they are, or nothing."""
    text = escape("\n".join(texts))
    return f"<pre>{text}</pre>" if text else ""
