"""One type for every answer, rendered as a table, JSON, CSV or any format of tabulate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from sizer.core.record import Record
from sizer.errors import UnknownName

MARKDOWN = dict.fromkeys(("markdown", "md"), "github")
TABULATE_FORMATS = (
    "asciidoc",
    "fancy_grid",
    "fancy_outline",
    "github",
    "grid",
    "heavy_grid",
    "html",
    "jira",
    "latex",
    "latex_booktabs",
    "latex_longtable",
    "mediawiki",
    "moinmoin",
    "orgtbl",
    "outline",
    "pipe",
    "plain",
    "presto",
    "pretty",
    "psql",
    "rounded_grid",
    "rounded_outline",
    "rst",
    "simple",
    "simple_grid",
    "simple_outline",
    "textile",
    "tsv",
    "unsafehtml",
    "youtrack",
)


class Table(Record):
    """Rows of text under headers. `numbers` are the columns that are set to the right.

    `records` are the same rows as plain values, for CSV.
    """

    __slots__ = ("headers", "numbers", "records", "rows")

    def __init__(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        numbers: Sequence[int] = (),
        records: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.headers = headers
        self.rows = rows
        self.numbers = numbers
        self.records = records


class View(Record):
    """An answer for people: a table, and lines above and below it."""

    __slots__ = ("above", "below", "notes", "table")

    def __init__(
        self,
        table: Table | None = None,
        above: Sequence[str] = (),
        below: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> None:
        self.table = table
        self.above = above
        self.below = below
        self.notes = notes


class Report(Record):
    """An answer, of which only the form that is asked for is worked out.

    `value`: the one number or formula, printed alone with `-q`. `document`: the answer as JSON.
    `view`: the answer for people, and its table. `exit_code`: 1 where the answer is no.
    `talk`: lines to say beside the answer, on standard error.
    """

    __slots__ = ("document", "exit_code", "talk", "value", "view")

    def __init__(
        self,
        value: str,
        document: Callable[[], Any],
        view: Callable[[], View],
        exit_code: int = 0,
        talk: Sequence[str] = (),
    ) -> None:
        self.value = value
        self.talk = talk
        self.document = document
        self.view = view
        self.exit_code = exit_code

    def _repr_html_(self) -> str:
        from sizer.core.html import table

        view = self.view()
        grid = view.table or Table((), ())
        return table(grid.headers, grid.rows, grid.numbers, [*view.above, *self.talk], view.below)


def text(view: View, *, verbose: bool = False) -> str:
    """A report for people; assumptions and sources with `verbose`."""
    table = aligned(view.table) if view.table is not None and view.table.rows else []
    parts = [list(view.above), table, list(view.below)]
    parts.append(list(view.notes) if verbose else [])
    return "\n\n".join("\n".join(part) for part in parts if part)


def aligned(table: Table) -> list[str]:
    """A table in columns. (tabulate does this too, and takes 30 ms to import.)

    >>> aligned(Table(("name", "params"), (("wte", "38,597,376"), ("wpe", "786,432")), numbers=(1,)))
    ['name      params', '────  ──────────', 'wte   38,597,376', 'wpe      786,432']
    """
    rows = [table.headers, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.headers))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if i in table.numbers else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("─" * width for width in widths)
    return [line(table.headers), rule, *(line(row) for row in table.rows)]


def formatted(table: Table, name: str) -> str:
    """A table in a format of tabulate: github (also under the name markdown), latex, html, …"""
    if name not in TABULATE_FORMATS and name not in MARKDOWN:
        hint = "json, csv, markdown, latex, html, tsv, rst, plain, grid and others of tabulate"
        raise UnknownName("table format", name, TABULATE_FORMATS, hint=hint)
    from tabulate import tabulate

    align = ["right" if i in table.numbers else "left" for i in range(len(table.headers))]
    return str(
        tabulate(
            table.rows,
            headers=table.headers,
            tablefmt=MARKDOWN.get(name, name),
            colalign=align,
            disable_numparse=True,
        )
    )


def csv(table: Table) -> str:
    """A table as comma-separated values, numbers plain."""
    import csv as csv_module
    import io

    out = io.StringIO()
    names = list(table.records[0]) if table.records else list(table.headers)
    writer = csv_module.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.records or (dict(zip(names, row, strict=True)) for row in table.rows))
    return out.getvalue().rstrip("\n")


def json_line(document: Any) -> str:
    """A document as JSON on one line, for lists of records."""
    from json import dumps

    return dumps(document, ensure_ascii=False)


def json(document: Any) -> str:
    """A document as JSON, indented by two; integers stay exact, letters stay letters.

    Written here since importing the library takes a twentieth of the time of a count; it is
    imported for texts that need escapes.

    >>> json({"params": {"total": 124439808}, "sources": []})
    '{\\n  "params": {\\n    "total": 124439808\\n  },\\n  "sources": []\\n}'
    """
    return _json(document, "\n")


def _json(value: Any, newline: str) -> str:
    inner = newline + "  "
    if isinstance(value, dict) and value:
        pairs = (f"{_json(str(key), inner)}: {_json(item, inner)}" for key, item in value.items())
        return f"{{{inner}{f',{inner}'.join(pairs)}{newline}}}"
    if isinstance(value, list | tuple) and value:
        return f"[{inner}{f',{inner}'.join(_json(item, inner) for item in value)}{newline}]"
    if isinstance(value, str) and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and isfinite(value):
        return repr(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    from json import dumps

    return dumps(value, ensure_ascii=False)
