"""The files of the page, read once: `page/index.html` at `/`, the others under their own names."""

from __future__ import annotations

import gzip
import mimetypes
import os

from sizer.service.cache import Kept

FOLDER = os.path.join(os.path.dirname(__file__), "page")
# Kinds of which gzip makes less.
_TEXT = ("text/", "application/javascript", "application/json", "application/manifest", "image/svg")
_KINDS = {".js": "text/javascript", ".mjs": "text/javascript", ".webmanifest": "application/manifest+json"}

# Nothing from elsewhere, nothing inside another page; scripts and styles only as files of our own.
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; object-src 'none'; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
]


def files(control: str) -> dict[str, Kept]:
    """Every file of the page by its path, as it is sent; `index.html` is `/`."""
    found: dict[str, Kept] = {}
    for parent, _, names in os.walk(FOLDER):
        for name in names:
            path = os.path.join(parent, name)
            with open(path, "rb") as handle:
                sent = file(name, handle.read(), control)
            found["/" + os.path.relpath(path, FOLDER).replace(os.sep, "/")] = sent
    return found | {"/": found["/index.html"]}


def file(name: str, data: bytes, control: str) -> Kept:
    """A file as it is sent; its name says of what kind it is."""
    ending = os.path.splitext(name)[1]
    kind = _KINDS.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    packed = gzip.compress(data, 9, mtime=0) if kind.startswith(_TEXT) and len(data) >= 500 else b""
    shown = f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
    return Kept(200, shown, data, packed, control=control, more=HEADERS)
