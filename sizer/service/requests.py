"""What a client sends, read within bounds: a query, a JSON object, or a form with a file."""

from __future__ import annotations

from email.parser import HeaderParser
from typing import Any
from urllib.parse import parse_qsl

from sizer.errors import BadInput, SizerError, clip
from sizer.sources.json_text import parse_object

MAX_PARTS = 100
MAX_FIELDS = 500
# Of the headers of one part of a form.
MAX_PART_HEAD = 4_096


class Unreadable(SizerError):
    """A request that is not of the form that it says it is; a status of HTTP says how."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class Upload:
    """A file of a form: what the client calls it, and its first bytes or all of them."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.data = data


def values_of(query: str, content_type: str, body: bytes) -> tuple[dict[str, Any], Upload | None]:
    """The values of a request, and its file where it has one."""
    values = _from_query(query)
    kind = content_type.partition(";")[0].strip().lower()
    upload: Upload | None = None
    more: dict[str, Any] = {}
    if kind == "multipart/form-data":
        more, upload = _from_form(content_type, body)
    elif body and (kind == "application/json" or kind.endswith("+json")):
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Unreadable(400, "the body is not text in UTF-8, so it is no JSON") from None
        try:
            more = parse_object(text, "the body")
        except BadInput as error:
            raise Unreadable(400, str(error)) from None
    elif body:
        raise Unreadable(
            415,
            f"the body is {clip(kind) or 'of no stated type'}; send application/json, or multipart/form-data "
            "with a file",
        )
    for key in more:
        if key in values:
            raise Unreadable(400, f"{clip(key)!r} is in the query and in the body; give it once")
    return {**values, **more}, upload


def _from_query(query: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except UnicodeDecodeError:
        raise Unreadable(400, "the query is not text in UTF-8") from None
    except ValueError:
        raise Unreadable(400, f"the query has over {MAX_FIELDS} fields") from None
    return _gathered(pairs)


def _gathered(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Pairs as values; a key that is there more than once has a list."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            before = found[key]
            found[key] = [*before, value] if isinstance(before, list) else [before, value]
        else:
            found[key] = value
    return found


def _from_form(content_type: str, body: bytes) -> tuple[dict[str, Any], Upload | None]:
    head = HeaderParser().parsestr(f"Content-Type: {content_type}\n\n")
    boundary = head.get_param("boundary")
    if not isinstance(boundary, str) or not 1 <= len(boundary) <= 70 or not boundary.isascii():
        raise Unreadable(400, "the form names no boundary between its parts")
    first, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode(), MAX_PARTS)
    if first.strip() or not parts or parts[-1][:2] != b"--":
        raise Unreadable(400, f"the form does not end with its boundary, or has over {MAX_PARTS} parts")
    pairs: list[tuple[str, str]] = []
    upload: Upload | None = None
    for part in parts[:-1]:
        begin, gap, data = part.partition(b"\r\n\r\n")
        if not gap or len(begin) > MAX_PART_HEAD:
            raise Unreadable(400, "a part of the form has no headers, or too many")
        about = HeaderParser().parsestr(begin.strip().decode("utf-8", "replace"))
        name = about.get_param("name", header="content-disposition")
        filename = about.get_param("filename", header="content-disposition")
        if not isinstance(name, str):
            raise Unreadable(400, "a part of the form has no name")
        if filename is None:
            try:
                pairs.append((name, data.decode()))
            except UnicodeDecodeError:
                raise Unreadable(400, f"the field {clip(name)!r} of the form is not text") from None
        elif upload is not None:
            raise Unreadable(400, "the form has two files; send one")
        else:
            upload = Upload(filename if isinstance(filename, str) else "file", data)
    return _gathered(pairs), upload
