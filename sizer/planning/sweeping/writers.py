"""Where the rows of a sweep go: CSV, JSON lines, or Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import IO, Any, Protocol

from sizer.core.dims import is_array
from sizer.errors import BadInput, MissingExtra, clip
from sizer.planning.sweeping.chunk import Chunk
from sizer.planning.sweeping.text import joined, keep_pages, numbers, words

FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
# Rows that are made into text at once: what they take stays near the processor.
ROWS = 16_384
# Parquet's decimals have 38 digits; integers beyond them are no size of a model.
DECIMAL = 38


def format_of(path: str) -> str:
    """The format that a file's name asks for.

    >>> format_of("grid.csv"), format_of("grid.parquet")
    ('csv', 'parquet')
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in FORMATS:
        raise BadInput(f"{clip(path)} ends in no format that is known; use {', '.join(FORMATS)}")
    return FORMATS[ending]


def encoder(form: str, names: Sequence[str]) -> Encoder:
    """What turns chunks into the bytes of "csv" or "jsonl"."""
    return Csv(names) if form == "csv" else JsonLines(names)


class Encoder(Protocol):
    """Chunks as bytes, one after the other."""

    def begin(self) -> bytes:
        """What stands before the first chunk."""
        ...

    def chunk(self, chunk: Chunk) -> bytes:
        """The rows of a chunk."""
        ...


class Csv:
    """Comma-separated values with a line of names; `error` is the last column."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)

    def begin(self) -> bytes:
        """The line of names."""
        return (",".join(map(_quoted, [*self.names, "error"])) + "\n").encode()

    def chunk(self, chunk: Chunk) -> bytes:
        """A line for each point; no numbers where there is an error."""
        return _text(self._rows, chunk)

    def _rows(self, chunk: Chunk) -> bytes:
        fields = _fields(chunk, self.names, _quoted, b"")
        columns = [part for field in fields for part in (field, b",")]
        return joined([*columns, _errors(chunk, _quoted), b"\n"], chunk.shape)


class JsonLines:
    """A JSON object on each line; `error` is there where there is one, and the measures are null."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)

    def begin(self) -> bytes:
        """Nothing."""
        return b""

    def chunk(self, chunk: Chunk) -> bytes:
        """A line for each point."""
        return _text(self._rows, chunk)

    def _rows(self, chunk: Chunk) -> bytes:
        columns: list[Any] = []
        for i, (name, field) in enumerate(
            zip(self.names, _fields(chunk, self.names, _json, b"null"), strict=True)
        ):
            columns += [f"{', ' if i else '{'}{_json(name)}: ".encode(), field]
        columns.append(_errors(chunk, lambda text: f', "error": {_json(text)}'))
        return joined([*columns, b"}\n"], chunk.shape)


def _text(rows: Callable[[Chunk], bytes], chunk: Chunk) -> bytes:
    keep_pages()
    return b"".join(map(rows, chunk.parts(ROWS)))


def _fields(chunk: Chunk, names: Sequence[str], quoted: Callable[[str], str], empty: bytes) -> list[Any]:
    """The columns of a chunk as bytes; `empty` for a measure without an answer."""
    found: list[Any] = []
    # Two measures may be the same array, such as active and all parameters.
    done: dict[int, Any] = {}
    for name in names:
        if name in chunk.constants:
            found.append(quoted(chunk.constants[name]).encode())
        elif name in chunk.axes:
            found.append(_field(chunk.axes[name], quoted))
        elif name in chunk.measures:
            value = chunk.measures[name]
            if id(value) not in done:
                done[id(value)] = _instead(_field(value, quoted), chunk.errors.codes, empty)
            found.append(done[id(value)])
        else:
            found.append(empty)
    return found


def _field(value: Any, quoted: Callable[[str], str]) -> Any:
    """Numbers or words as bytes."""
    import numpy

    if not is_array(value):
        value = numpy.array([value], dtype=object if value >= 2**63 else None)
    if value.dtype != object:
        return numbers(value)
    return words([quoted(one) if isinstance(one, str) else _word(one) for one in value.ravel()], value.shape)


def _instead(field: Any, codes: Any, empty: bytes) -> Any:
    """A column with `empty` where there is an error."""
    import numpy

    wrong = numpy.asarray(codes != 0)
    if not wrong.any():
        return field
    width = max(field.shape[-1], len(empty))
    shape = numpy.broadcast_shapes(field.shape[:-1], wrong.shape)
    out = numpy.zeros((*shape, width), numpy.uint8)
    out[..., : field.shape[-1]] = field
    out[numpy.broadcast_to(wrong, shape)] = numpy.frombuffer(empty.ljust(width, b"\0"), numpy.uint8)
    return out


def _errors(chunk: Chunk, quoted: Callable[[str], str]) -> Any:
    """The messages, and nothing where there is none."""
    import numpy

    if len(chunk.errors.messages) == 1:
        return b""
    used, places = numpy.unique(chunk.errors.codes, return_inverse=True)
    messages = [chunk.errors.messages[code] for code in used.tolist()]
    texts = words([quoted(text) if text else "" for text in messages], (-1,))
    return texts[places.reshape(numpy.shape(chunk.errors.codes))] if any(messages) else b""


def _word(value: Any) -> str:
    """A value of an axis as JSON and CSV write it: true, null, 12."""
    return json.dumps(value) if not isinstance(value, int) or isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    """A field of a CSV file."""
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\r\n') else text


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """A file that is there once all of it is written."""
    part = f"{path}.part"
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def write_parquet(file: IO[bytes], names: Sequence[str], chunks: Iterable[Chunk], most: int) -> None:
    """Chunks as a Parquet file.

    Whole numbers are int64 where none is beyond it, or decimals of 38 digits: `most` is the largest.
    """
    if find_spec("pyarrow") is None:
        raise MissingExtra("parquet", "writing Parquet")
    import pyarrow
    import pyarrow.parquet

    number = pyarrow.int64() if most < 2**63 else pyarrow.decimal128(DECIMAL, 0)
    writer: Any = None
    with ExitStack() as until_the_end:
        for chunk in chunks:
            if writer is None:
                kinds = {**dict.fromkeys(chunk.constants, pyarrow.string())}
                kinds |= {n: _arrow_kind(v, pyarrow) for n, v in chunk.axes.items()}
                kinds |= dict.fromkeys(chunk.measures, number)
                schema = pyarrow.schema(
                    [(name, kinds.get(name, number)) for name in names] + [("error", pyarrow.string())]
                )
                writer = until_the_end.enter_context(pyarrow.parquet.ParquetWriter(file, schema))
            writer.write_table(_table(chunk, schema, pyarrow))


def _table(chunk: Chunk, schema: Any, pyarrow: Any) -> Any:
    import numpy

    codes = chunk.error_codes()
    wrong = codes != 0
    columns = []
    for field in schema:
        if field.name == "error":
            texts = pyarrow.array([None, *chunk.errors.messages[1:]], pyarrow.string())
            columns.append(texts.take(pyarrow.array(codes)))
        elif field.name in chunk.constants:
            columns.append(pyarrow.array([chunk.constants[field.name]] * len(chunk), field.type))
        elif field.name not in chunk.axes and field.name not in chunk.measures:
            columns.append(pyarrow.nulls(len(chunk), field.type))
        else:
            values: Any = chunk.column(field.name)
            if values.dtype == object or str(field.type).startswith("decimal"):
                values = _plain(values.tolist(), field.type)
            mask = wrong if field.name in chunk.measures else numpy.zeros(len(chunk), bool)
            columns.append(pyarrow.array(values, field.type, mask=mask))
    return pyarrow.table(columns, schema=schema)


def _plain(values: list[Any], kind: Any) -> list[Any]:
    if str(kind).startswith("decimal"):
        from decimal import Decimal

        return [Decimal(value) for value in values]
    return [value if value is None or str(kind) != "string" else str(value) for value in values]


def _arrow_kind(values: Any, pyarrow: Any) -> Any:
    if values.dtype != object:
        return pyarrow.int64()
    if all(isinstance(value, bool) for value in values.ravel()):
        return pyarrow.bool_()
    return pyarrow.string()
