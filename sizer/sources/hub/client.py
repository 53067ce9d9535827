"""Requests to a hub, bounded in bytes, time, redirects and retries.

The session, the endpoint, the token and the headers are those of `huggingface_hub`, the official
client; its own calls read whole bodies, however long, so the bodies are read here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from sizer import __version__
from sizer.errors import BadInput, MissingExtra, clip

# Seconds to wait for a connection or the next piece of an answer, and for a whole answer: so many, and
# one for each of so many bytes.
TIMEOUT = 10.0
PATIENCE = 30.0
SLOWEST = 100_000
MAX_REDIRECTS = 5
RETRIES = 3
# The longest wait that a hub may ask for before another try.
MAX_WAIT = 30.0
# What is passed over where a hub ignores the range that was asked for.
MAX_SKIP = 1 << 20
# All that is read of one repository: Kimi-K2's headers and index take a tenth.
MAX_TOTAL = 1_000_000_000
MAX_REQUESTS = 50_000
# The list of files.
MAX_LISTING = 20_000_000
_TRUE = ("1", "ON", "YES", "TRUE")
_AGAIN = (408, 429, 500, 502, 503, 504)


class Unreachable(BadInput):
    """A hub that does not answer; what is in the cache may do."""


class NotFound(BadInput):
    """What a hub does not have."""


def constants() -> Any:
    """The settings of the official client, which an extra brings."""
    # The client parses the variable while it is imported, and ends there where it is no address.
    _check_endpoint(os.environ.get("HF_ENDPOINT", ""))
    try:
        import huggingface_hub.constants
    except ImportError:
        raise MissingExtra("hub", "a repository on a hub") from None
    return huggingface_hub.constants


def _check_endpoint(address: str) -> None:
    try:
        parts = urlsplit(address)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if address and not is_one:
        raise BadInput(
            f"HF_ENDPOINT is {clip(address)!r}, which is no address such as https://huggingface.co"
        )


def endpoint() -> str:
    """The address of the hub: `HF_ENDPOINT`, or Hugging Face's."""
    found = os.environ.get("HF_ENDPOINT") or constants().ENDPOINT
    return str(found).rstrip("/")


def is_offline() -> bool:
    """Whether `HF_HUB_OFFLINE` forbids the network."""
    asked = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return asked.upper() in _TRUE


def _token() -> dict[str, str]:
    """The header with the user's token: `HF_TOKEN`, or the one that `hf auth login` keeps."""
    from huggingface_hub import get_token

    token = None if constants().HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    if token is not None and not (token.isascii() and token.isprintable()):
        raise BadInput("HF_TOKEN holds characters that no token has; set it again")
    return {"authorization": f"Bearer {token}"} if token else {}


class Client:
    """Reads of one repository; `where` names it in messages."""

    def __init__(self, name: str, revision: str, where: str) -> None:
        self.name = name
        self.revision = revision
        self.where = clip(where)
        self.endpoint = endpoint()
        # The client reads the variable once a process, which may have been to build a module offline.
        constants().HF_HUB_OFFLINE = is_offline()
        # A compressed answer may be of any size when it is unpacked.
        self.headers = {"user-agent": f"sizer/{__version__}", "accept-encoding": "identity", **_token()}
        self.bytes = self.requests = 0

    def listing(self) -> Any:
        """What the hub says of the repository: its commit, its files and their sizes."""
        import json

        url = f"{self.endpoint}/api/models/{self.name}/revision/{quote(self.revision, safe='')}?blobs=true"
        data, _ = self._get(url, None, MAX_LISTING)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise self._bad("answers with no list of files") from None

    def read(self, commit: str, path: str, start: int, length: int) -> tuple[bytes, int | None]:
        """Bytes of a file from a place on, fewer only at its end; and its size, where the hub says it."""
        url = f"{self.endpoint}/{self.name}/resolve/{quote(commit, safe='')}/{quote(path)}"
        return self._get(url, start, length)

    def _get(self, url: str, start: int | None, length: int) -> tuple[bytes, int | None]:
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

        # The client is made on httpx or its successor, by its version.
        transport_error = HfHubHTTPError.__mro__[1]
        http = import_module(transport_error.__module__.partition(".")[0])
        wait, left = 0.5, RETRIES
        while True:
            try:
                found = self._once(url, start, length, last=not left)
            except OfflineModeIsEnabled:
                raise Unreachable(offline(self.where)) from None
            except (transport_error, http.InvalidURL, OSError, ValueError) as error:
                # An address that is none is a ValueError where a proxy is looked up for it.
                kind = type(error).__name__
                if not left or kind in ("ConnectError", "InvalidURL", "UnsupportedProtocol", "ValueError"):
                    raise Unreachable(
                        f"{self.where}: {self.endpoint} does not answer as a hub ({kind}: {clip(error)}); "
                        "check the network and HF_ENDPOINT"
                    ) from None
                found = wait
            if not isinstance(found, float):
                return found
            time.sleep(max(found, wait))
            wait, left = 2 * wait, left - 1

    def _once(self, url: str, start: int | None, length: int, last: bool) -> tuple[bytes, int | None] | float:
        """One try, redirects included; a number is the seconds to wait before the next one."""
        from huggingface_hub.utils import get_session

        headers = dict(self.headers)
        if start is not None:
            headers["range"] = f"bytes={start}-{start + length - 1}"
        until = time.monotonic() + PATIENCE + length / SLOWEST
        for _ in range(MAX_REDIRECTS + 1):
            self.requests += 1
            if self.requests > MAX_REQUESTS:
                raise BadInput(f"{self.where} takes over {MAX_REQUESTS:,} requests, more than sizer makes")
            with get_session().stream(
                "GET", url, headers=headers, timeout=TIMEOUT, follow_redirects=False
            ) as answer:
                status = answer.status_code
                if status in (301, 302, 303, 307, 308):
                    url = self._next(url, answer.headers.get("location", ""), headers)
                    continue
                if status in _AGAIN and not last:
                    return self._pause(answer)
                if status not in (200, 206):
                    raise self._refusal(status, answer.headers)
                return self._body(answer, start, length, until)
        raise self._bad(f"redirects over {MAX_REDIRECTS} times")

    def _next(self, url: str, location: str, headers: dict[str, str]) -> str:
        """Where a redirect leads; the token stays with the hub."""
        try:
            target = urljoin(url, location)
            old, new = urlsplit(url), urlsplit(target)
        except ValueError:
            location, target, old, new = "", location, urlsplit(url), urlsplit("")
        weaker = old.scheme == "https" and new.scheme == "http"
        if not location or weaker or new.scheme not in ("http", "https"):
            raise self._bad(f"redirects to {clip(target)!r}, which sizer does not follow")
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            headers.pop("authorization", None)
        return target

    def _pause(self, answer: Any) -> float:
        wait = float(_number(answer.headers.get("retry-after", "")) or 0)
        if wait > MAX_WAIT:
            raise self._bad(
                f"asks to wait {wait:,.0f} seconds (status {answer.status_code}); "
                "try again then, or set HF_TOKEN"
            )
        return wait

    def _body(self, answer: Any, start: int | None, length: int, until: float) -> tuple[bytes, int | None]:
        stated = str(answer.headers.get("content-length", ""))
        size = _number(stated)
        skip, wanted = 0, length
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise self._bad("compresses what it was asked to send as it is")
        if answer.status_code == 206:
            first, size = self._range(answer.headers.get("content-range", ""))
            if first != start:
                raise self._bad("sends other bytes than it was asked for")
        elif start:
            if start > MAX_SKIP:
                raise self._bad("ignores ranges, so only the beginnings of files can be read")
            skip = start
        if size is not None:
            wanted = max(0, min(length, size - (start or 0)))
        data = bytearray()
        for piece in self._pieces(answer, until):
            data += piece
            # An answer that ends by itself leaves its connection open for the next.
            if len(data) > skip + wanted or (len(data) == skip + wanted and stated != str(len(data))):
                break
        if start is None and len(data) > length:
            raise self._bad(f"lists files in over {length:,} bytes")
        if start is not None and size is None and len(data) < skip + length:
            # An answer without a length ends where the file does.
            size = start - skip + len(data)
        elif size is not None and len(data) < skip + wanted:
            raise self._bad(f"sends {len(data) - skip:,} bytes of {wanted:,}; try again")
        return bytes(data[skip : skip + length]), size

    def _pieces(self, answer: Any, until: float) -> Iterator[bytes]:
        for piece in answer.iter_raw():
            self.bytes += len(piece)
            if self.bytes > MAX_TOTAL:
                raise BadInput(f"{self.where} takes over {MAX_TOTAL:,} bytes to read, more than sizer reads")
            if time.monotonic() > until:
                raise Unreachable(f"{self.where}: {self.endpoint} sends too slowly; try again")
            yield piece

    def _range(self, text: str) -> tuple[int | None, int | None]:
        """The first byte and the size of the whole in `bytes 0-99/1234`."""
        span, _, whole = text.removeprefix("bytes ").partition("/")
        return _number(span.partition("-")[0]), _number(whole)

    def _refusal(self, status: int, headers: Any) -> BadInput:
        code = headers.get("x-error-code", "")
        page = f"{self.endpoint}/{self.name}"
        if code == "RevisionNotFound":
            return NotFound(
                f"{self.where}: the repository {self.name} has no revision {clip(self.revision)!r}; "
                f"its branches and tags are at {page}/tree/main"
            )
        if code == "EntryNotFound":
            return NotFound(f"{self.where}: the hub lists a file and does not have it; try again")
        if code == "GatedRepo" or status == 403:
            return BadInput(
                f"{self.where} is gated (status {status}): accept its terms at {page} and set HF_TOKEN to a "
                "token that may read it"
            )
        if status == 401 and "authorization" in self.headers and code != "RepoNotFound":
            return self._bad("does not accept the token (status 401); check HF_TOKEN")
        if status in (401, 404):
            return NotFound(
                f"{self.where}: {self.endpoint} has no model repository {self.name}, or it is private "
                f"(status {status}); check the name, or set HF_TOKEN to a token that may read it"
            )
        if status == 429:
            return self._bad("limits requests (status 429); try again later, or set HF_TOKEN")
        return self._bad(f"answers with status {status}; try again later")

    def _bad(self, what: str) -> BadInput:
        return BadInput(f"{self.where}: {self.endpoint} {what}")


def offline(where: str) -> str:
    """What to say where the network is forbidden and the cache has nothing."""
    return (
        f"{where} is not in the local cache and HF_HUB_OFFLINE is set; unset it, or download the "
        "repository first (hf download)"
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
