"""The name of a place on a hub."""

from __future__ import annotations

import re

from sizer.core.record import Record
from sizer.errors import BadInput, clip

PREFIX = "hub:"
_WORD = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,95})"
# Of references with a slash, those of pull requests and conversions stand as they are; others have %2F.
# Compiled when a target is read: this file is on the path of every command.
_TARGET = (
    # A name alone would be the organization of whatever is joined to it.
    rf"hub:(?P<name>{_WORD}/{_WORD}|{_WORD}(?=@))"
    r"(?:@(?P<revision>refs/(?:pr/[0-9]+|convert/[\w.-]+)|[^/@]{1,255}))?"
    r"(?:/(?P<path>.*))?"
)


class Target(Record):
    """A repository, its revision, and a path in it; the path is empty for the repository itself."""

    __slots__ = ("name", "path", "revision")

    def __init__(self, name: str, revision: str, path: str) -> None:
        self.name = name
        self.revision = revision
        self.path = path


def is_hub(path: str) -> bool:
    """Whether a path names a place on a hub, and so allows the network."""
    return path.startswith(PREFIX)


def is_repository(name: str) -> bool:
    """Whether a name has the form of a repository's, `org/name[@revision][/path]`.

    >>> is_repository("openai-community/gpt2"), is_repository("gpt2")
    (True, False)
    """
    return "/" in name and re.fullmatch(_TARGET, PREFIX + name) is not None


def parse(path: str) -> Target:
    """The parts of `hub:org/name[@revision][/path]`.

    >>> found = parse("hub:org/name@v1.0/model.safetensors")
    >>> found.name, found.revision, found.path
    ('org/name', 'v1.0', 'model.safetensors')
    """
    from urllib.parse import unquote

    found = re.fullmatch(_TARGET, path.replace("\\", "/").rstrip("/"))
    revision = unquote(found["revision"] or "main") if found else ""
    inside = (found["path"] or "") if found else ""
    if found is None or not is_plain(revision) or (inside and not is_plain(inside)):
        raise BadInput(
            f"{clip(path)!r} names no place on a hub; write hub:org/name, hub:org/name@revision, "
            "hub:org/name/file, or of an old name without an organization hub:name@main"
        )
    return Target(found["name"], revision, inside)


def is_plain(path: str) -> bool:
    """Whether a path from outside stays where it begins."""
    steps = path.split("/")
    # Backslashes and colons mean something on Windows.
    return path.isprintable() and not {"\\", ":"} & set(path) and not {"", ".", ".."} & set(steps)
