"""What every request passes: the token, the bounds, the answers that are kept, metrics and logs."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import lru_cache
from typing import Any

from starlette.responses import RedirectResponse, Response, StreamingResponse

from sizer.service import logs, problems
from sizer.service.cache import MAX_KEY, Cache, Kept, Key, accepts_gzip
from sizer.service.endpoints import Endpoint, find
from sizer.service.lanes import Busy, Failed, Job, Lane
from sizer.service.metrics import Metrics
from sizer.service.settings import Settings

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

# Asked for by machines that hold no token.
OPEN = ("/healthz", "/readyz")
# An answer follows from its request and the version, so it stays true until the next version.
MAX_AGE = 300
# Bytes that the connection takes without waiting for the client to read.
AT_ONCE = 65_536
# In logs and metrics: the answer broke off, or its client did.
CUT_OFF = 499


class Sent(Response):  # type: ignore[misc]
    """An answer that is kept, as a client wants it: in gzip or not, or not at all where it has it."""

    def __init__(self, kept: Kept, scope: Scope) -> None:
        super().__init__()
        wanted = headers_of(scope)
        self.status_code, self.raw_headers, self.body = kept.for_client(
            wanted.get(b"accept-encoding", b""), wanted.get(b"if-none-match")
        )


class Streamed(StreamingResponse):  # type: ignore[misc]
    """An answer that is sent as it is worked out; its calculator is given back however the client leaves."""

    def __init__(self, parts: AsyncGenerator[bytes], kind: str, *, zipped: bool) -> None:
        headers = {"vary": "accept, accept-encoding", "cache-control": "no-store"}
        if zipped:
            headers["content-encoding"] = "gzip"
        super().__init__(parts, 200, headers, kind)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and end the calculation if it has not ended."""
        async with contextlib.aclosing(self.body_iterator):
            await super().__call__(scope, receive, send)


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers of a request; the last of those that are there twice."""
    return dict(scope["headers"])


def _is_guarded(path: str) -> bool:
    """Whether a path needs the token; the page itself has no secrets, and asks for it."""
    return path.startswith("/v1/") or path in ("/metrics", "/openapi.json", "/docs")


def _wants_texts(headers: dict[bytes, bytes]) -> bool:
    """`Accept: application/json; integers=both`."""
    return b"integers" in (accept := headers.get(b"accept", b"")) and b"integers=both" in accept.replace(
        b" ", b""
    )


class Door:
    """The outermost application."""

    def __init__(
        self, app: Any, settings: Settings, token: bytes | None, lanes: dict[str, Lane], metrics: Metrics
    ) -> None:
        self.app = app
        self.settings = settings
        self.token = token
        self.lanes = lanes
        self.metrics = metrics
        self.cache = Cache(settings.cache)
        self.log = logs.Requests()
        self.root = settings.root_path.rstrip("/")
        self.control = f"{'private' if token else 'public'}, max-age={MAX_AGE}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        begin = time.perf_counter()
        path: str = scope["path"]
        if self.root and path == self.root:
            # The page names its files beside its own address, so that needs its last stroke.
            moved = RedirectResponse(f"{self.root}/", 308)
            await self._answered(moved, scope, receive, send, begin)
            return
        if self.root and path.startswith(f"{self.root}/"):
            # Whether the proxy in front takes its prefix off or leaves it.
            path = scope["path"] = path[len(self.root) :]
        headers = headers_of(scope)
        if self.token is not None and _is_guarded(path) and not self._admitted(headers):
            refused = problem(401, "this service needs a token: Authorization: Bearer …")
            refused.headers["www-authenticate"] = "Bearer"
            await self._answered(refused, scope, receive, send, begin)
            return
        if scope["method"] == "GET":
            kept = self.cache.get((path, scope["query_string"], b"", b"", _wants_texts(headers)))
            if kept is not None:
                await self._again(kept, headers, scope, send, begin)
                return
        await self._answered(self.app, scope, receive, send, begin)

    async def _again(
        self, kept: Kept, headers: dict[bytes, bytes], scope: Scope, send: Send, begin: float
    ) -> None:
        """Send what is kept, with as little around it as may be."""
        self.metrics.counters["hits"] += 1
        status, sent_headers, body = kept.for_client(
            headers.get(b"accept-encoding", b""), headers.get(b"if-none-match")
        )
        await send({"type": "http.response.start", "status": status, "headers": sent_headers})
        last = {"type": "http.response.body", "body": body}
        if len(body) < AT_ONCE:
            await send(last)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.send_timeout):
                    await send(last)
        self._note(scope, status, begin, len(body), kept=True)

    async def _answered(self, app: Any, scope: Scope, receive: Receive, send: Send, begin: float) -> None:
        status, sent = 500, 0

        async def counting(message: dict[str, Any]) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                sent += len(message.get("body", b""))
            async with asyncio.timeout(self.settings.send_timeout):
                await send(message)

        self.metrics.in_flight += 1
        try:
            await app(scope, receive, counting)
        except (Failed, TimeoutError):
            # The answer has begun: that it does not end says that it is not whole.
            status = CUT_OFF
        finally:
            self.metrics.in_flight -= 1
            self._note(scope, status, begin, sent, kept=False)

    def _note(self, scope: Scope, status: int, begin: float, sent: int, *, kept: bool) -> None:
        seconds = time.perf_counter() - begin
        self.metrics.count(_label(scope["path"]), status, seconds)
        if self.settings.access_log:
            self.log.add(scope, status, seconds, sent, kept=kept)

    def _admitted(self, headers: dict[bytes, bytes]) -> bool:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self.token or b"")

    async def respond(self, scope: Scope, receive: Receive, name: str, endpoint: Endpoint) -> Response:
        """The answer to a request for an endpoint, kept from before or worked out now."""
        headers = headers_of(scope)
        body = await self._body(headers, receive)
        if isinstance(body, Response):
            return body
        query = scope["query_string"]
        kind = headers.get(b"content-type", b"") if body else b""
        both = _wants_texts(headers)
        key: Key = (scope["path"], query, body, kind, both)
        kept = self.cache.get(key)
        if kept is not None:
            self.metrics.counters["hits"] += 1
            return Sent(kept, scope)
        self.metrics.counters["misses"] += 1
        lane = "heavy" if endpoint.heavy else "config" if body or b"set" in query else "quick"
        job = Job(
            scope["path"].removeprefix("/v1/"),
            query.decode("latin-1"),
            kind.decode("latin-1"),
            body,
            both=both,
            gzip=accepts_gzip(headers.get(b"accept-encoding", b"")),
        )
        try:
            found = await self.lanes[lane].answer(job)
        except Busy:
            self.metrics.counters["refused"] += 1
            busy = problem(503, "too many requests wait for an answer; ask again in a second")
            busy.headers["retry-after"] = "1"
            return busy
        except Failed:
            return problem(500, "the calculation ended without an answer; please report the request")
        if found.parts is not None:
            return Streamed(found.parts, found.kind, zipped=found.gzip)
        exits = [] if found.exit_code is None else [(b"sizer-exit", str(found.exit_code).encode())]
        answer = Kept(found.status, found.kind, found.data, found.packed, control=self.control, more=exits)
        if found.status < 500 and not found.last and len(body) <= MAX_KEY:
            self.cache.put(key, answer)
        return Sent(answer, scope)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | Response:
        """The body of a request, within bounds of size and time."""
        most = self.settings.max_body
        too_large = f"the body is over {most:,} bytes; of a file of weights, send the header alone"
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > most:
            return problem(413, too_large)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.settings.client_timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return problem(400, "the client left before its request ended")
                    part = message.get("body", b"")
                    size += len(part)
                    if size > most:
                        return problem(413, too_large)
                    parts.append(part)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            slow = problem(408, f"the body did not arrive within {self.settings.client_timeout:g} s")
            slow.headers["connection"] = "close"
            return slow


def problem(status: int, detail: str) -> Response:
    """An error that the door itself answers."""
    return Response(problems.document(status, detail), status, media_type=problems.MEDIA_TYPE)


@lru_cache(maxsize=512)
def _label(path: str) -> str:
    """The path as metrics count it: no more of them than there are endpoints."""
    if path.startswith("/v1/"):
        found = find(path.removeprefix("/v1/"))
        return f"/v1/{found[0]}" if found else "other"
    return path if path in ("/", "/docs", "/metrics", "/openapi.json", *OPEN) else "other"
