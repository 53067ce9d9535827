"""A hub on the loopback for peers that ask one: the listing, the metadata and ranges of files."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.peers.layouts import stored

COMMIT = "0123456789abcdef0123456789abcdef01234567"
API = re.compile(r"/api/models/([^/]+/[^/]+?)(/tree/[^/?]+|/revision/[^/?]+)?(?:\?.*)?")
FILE = re.compile(r"/([^/]+/[^/]+)/(?:resolve|raw)/[^/]+/([\w./-]+)(?:\?.*)?")


def metadata(folder: Path, name: str) -> dict[str, Any]:
    """What a hub says of a repository: its files, its configuration, the elements of each type."""
    config = json.loads((folder / "config.json").read_text())
    types = stored(folder)
    return {
        "id": name,
        "modelId": name,
        "sha": COMMIT,
        "private": False,
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["transformers", "safetensors", config["model_type"]],
        "config": {"architectures": config["architectures"], "model_type": config["model_type"]},
        "safetensors": {"parameters": types, "total": sum(types.values())},
        "siblings": [{"rfilename": f.name, "size": f.stat().st_size} for f in sorted(folder.iterdir())],
    }


def listing(folder: Path) -> list[dict[str, Any]]:
    return [
        {"type": "file", "oid": COMMIT, "path": f.name, "size": f.stat().st_size}
        for f in sorted(folder.iterdir())
    ]


@contextmanager
def running(root: Path) -> Iterator[str]:
    """Serve the folders `root/org/name` until the block ends; gives the address."""
    # What a real hub has at hand is worked out beforehand, so that no peer waits for it.
    names = [f"{folder.parent.name}/{folder.name}" for folder in root.glob("*/*")]
    known = {name: json.dumps(metadata(root / name, name)).encode() for name in names}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if (found := API.fullmatch(self.path)) and found[1] in known:
                tree = (found[2] or "").startswith("/tree")
                body = json.dumps(listing(root / found[1])).encode() if tree else known[found[1]]
                self.answer(200, body, {"content-type": "application/json"})
            elif (found := FILE.fullmatch(self.path)) and found[1] in known:
                self.file(root / found[1] / Path(found[2]).name)
            else:
                self.answer(404, b"", {"x-error-code": "RepoNotFound"})

        def do_HEAD(self) -> None:
            self.do_GET()

        def file(self, file: Path) -> None:
            if not file.is_file():
                return self.answer(404, b"", {"x-error-code": "EntryNotFound"})
            size = file.stat().st_size
            headers = {"etag": f'"{file.name}"', "x-repo-commit": COMMIT, "accept-ranges": "bytes"}
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
            if self.command == "HEAD" or not asked:
                # The body of a checkpoint is never sent whole: it is a hole.
                large = file.suffix == ".safetensors" and self.command != "HEAD"
                body = b"" if large or self.command == "HEAD" else file.read_bytes()
                return self.answer(416 if large else 200, body, headers, size)
            first, last = int(asked[1]), min(int(asked[2] or size - 1), size - 1)
            with file.open("rb") as opened:
                opened.seek(first)
                body = opened.read(last - first + 1)
            headers["content-range"] = f"bytes {first}-{last}/{size}"
            return self.answer(206, body, headers)

        def answer(self, code: int, body: bytes, headers: dict[str, str], size: int | None = None) -> None:
            self.send_response(code)
            length = size if self.command == "HEAD" and size is not None else len(body)
            for key, value in {**headers, "content-length": str(length)}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
