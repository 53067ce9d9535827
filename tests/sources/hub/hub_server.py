"""A small hub on the loopback, with the routes and headers of Hugging Face's, and a log of what is sent."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_API = re.compile(r"/api/models/([^/]+/[^/]+|[^/]+)/revision/([^/?]+)(?:\?.*)?")
_RESOLVE = re.compile(r"/([^/]+/[^/]+|[^/]+)/resolve/([^/]+)/(.+)")


class Request:
    """What was asked, and how many bytes of a body were sent."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self.path = handler.path
        self.host = handler.headers.get("host", "")
        self.token = handler.headers.get("authorization", "")
        self.range = handler.headers.get("range", "")
        self.sent = 0
        self.over = threading.Event()

    @property
    def span(self) -> tuple[int, int]:
        """The first byte and the one after the last."""
        first, last = self.range.removeprefix("bytes=").split("-")
        return int(first), int(last) + 1


class Hub:
    """Repositories as folders of files; `behaviour` says how it misbehaves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log: list[Request] = []
        self.behaviour = ""
        self.gated: set[str] = set()
        self.busy = 0
        self.retry_after = "0"
        self.stated: dict[str, Any] = {}
        self.sizes = True

    @contextmanager
    def running(self) -> Iterator[str]:
        """Answer requests until the block ends; gives the address."""
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                request = Request(self)
                hub.log.append(request)
                try:
                    Answer(hub, self, request).send()
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                finally:
                    request.over.set()

            def log_message(self, *_: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass

        server = Quiet(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.port = server.server_port
        try:
            yield f"http://127.0.0.1:{self.port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def requests(self, ending: str) -> list[Request]:
        """The requests of files whose name ends so, redirects aside."""
        # Whoever asked has its answer a moment before what was sent is noted.
        return [r for r in self.log if r.path.endswith(ending) and r.over.wait(60) and r.sent]


class Answer:
    """One answer of the hub."""

    def __init__(self, hub: Hub, handler: BaseHTTPRequestHandler, request: Request) -> None:
        self.hub, self.handler, self.request = hub, handler, request

    def send(self) -> None:
        hub, path = self.hub, self.request.path
        if hub.busy:
            hub.busy -= 1
            self.status(429, {"retry-after": hub.retry_after})
        elif hub.behaviour == "loop":
            self.status(302, {"location": path})
        elif hub.behaviour == "file":
            self.status(302, {"location": "file:///etc/passwd"})
        elif hub.behaviour == "bad token":
            self.status(401)
        elif hub.behaviour == "broken":
            self.status(500)
        elif found := _API.fullmatch(path):
            self.listing(found[1], found[2])
        elif found := _RESOLVE.fullmatch(path):
            self.resolve(found[1], found[2], found[3])
        elif path.startswith("/cdn/"):
            self.file(hub.root / path.removeprefix("/cdn/"))
        else:
            self.status(404)

    def allowed(self, name: str) -> bool:
        return name not in self.hub.gated or self.request.token == "Bearer hf_right"

    def listing(self, name: str, revision: str) -> Any:
        folder = self.hub.root / name
        if not folder.is_dir():
            return self.status(401, {"x-error-code": "RepoNotFound"})
        if revision not in ("main", "v1.0", "refs%2Fpr%2F1", COMMIT):
            return self.status(404, {"x-error-code": "RevisionNotFound"})
        siblings: list[dict[str, Any]] = [
            {"rfilename": str(file.relative_to(folder)), "size": file.stat().st_size}
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        ]
        if not self.hub.sizes:
            siblings = [{"rfilename": entry["rfilename"]} for entry in siblings]
        if self.hub.behaviour == "traversal":
            siblings.append({"rfilename": "../../outside.json", "size": 3})
        body = json.dumps({"id": name, "sha": COMMIT, "siblings": siblings, **self.hub.stated}).encode()
        if self.hub.behaviour == "endless list":
            return self.endless(b'{"siblings": [' + b'{"rfilename": "a"},' * 1000)
        if self.hub.behaviour == "no list":
            body = b"<html>welcome</html>"
        if self.hub.behaviour == "other list":
            body = b"[1]"
        if self.hub.behaviour == "ghost":
            body = json.dumps({"sha": COMMIT, "siblings": [{"rfilename": "config.json"}]}).encode()
        return self.status(200, {"content-type": "application/json"}, body)

    def resolve(self, name: str, revision: str, path: str) -> Any:
        file = self.hub.root / name / path
        if not self.allowed(name):
            status = 403 if self.request.token else 401
            return self.status(status, {"x-error-code": "GatedRepo"})
        if not file.is_file():
            return self.status(404, {"x-error-code": "EntryNotFound"})
        if path.endswith((".safetensors", ".gguf", ".bin")):
            # Large files lie on another host.
            location = f"http://localhost:{self.hub.port}/cdn/{name}/{path}"
            return self.status(302, {"location": location, "x-linked-size": str(file.stat().st_size)})
        return self.file(file)

    def file(self, file: Path) -> Any:
        hub, size = self.hub, file.stat().st_size
        first, after = self.request.span if self.request.range else (0, size)
        after = min(after, size)
        weights = self.request.path.startswith("/cdn/")
        if weights and hub.behaviour == "endless":
            return self.endless(file.read_bytes()[:8])
        if weights and hub.behaviour == "compressed":
            return self.status(200, {"content-encoding": "gzip"}, b"\x1f\x8b")
        if hub.behaviour == "no length":
            self.handler.close_connection = True
            return self.status(200, {"content-length": None}, file, 0, size)
        if hub.behaviour == "no size":
            headers = {"content-range": f"bytes {first}-{after - 1}/*"}
            return self.status(206, headers, file, first, after)
        if weights and hub.behaviour == "few":
            return self.status(206, {"content-range": f"bytes {first}-{after - 1}/{size}"}, b"\1\0")
        if weights and hub.behaviour == "other range":
            first = after // 2
        if (weights and hub.behaviour == "no ranges") or not self.request.range:
            return self.status(200, {}, file, 0, size)
        headers = {"content-range": f"bytes {first}-{after - 1}/{size}"}
        if weights and hub.behaviour == "short":
            self.handler.close_connection = True
            return self.status(206, {**headers, "content-length": str(after - first)}, b"\1\0")
        if weights and hub.behaviour == "long":
            headers |= {"content-length": str(10**12)}
        if weights and hub.behaviour == "other size":
            headers = {"content-range": f"bytes {first}-{after - 1}/{size + 1}"}
        return self.status(206, headers, file, first, after)

    def status(
        self,
        code: int,
        headers: dict[str, str | None] | dict[str, str] | None = None,
        body: bytes | Path = b"",
        first: int = 0,
        after: int = 0,
    ) -> None:
        out = self.handler
        length = after - first if isinstance(body, Path) else len(body)
        out.send_response(code)
        for key, value in {"content-length": str(length), **(headers or {})}.items():
            if value is not None:
                out.send_header(key, value)
        out.end_headers()
        if isinstance(body, bytes):
            out.wfile.write(body)
            self.request.sent += len(body)
            return
        with body.open("rb") as file:
            file.seek(first)
            while first < after:
                piece = file.read(min(65_536, after - first))
                out.wfile.write(piece)
                self.request.sent += len(piece)
                first += len(piece)

    def endless(self, start: bytes) -> None:
        self.handler.close_connection = True
        self.handler.send_response(200)
        self.handler.end_headers()
        while True:
            self.handler.wfile.write(start + bytes(65_536))
            self.request.sent += len(start) + 65_536
