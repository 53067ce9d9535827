"""What the service adds to the answers: caches, errors, tokens, logs, metrics, its end."""

from __future__ import annotations

import gzip
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from service.conftest import PATIENCE, ROOT, Server, until

from sizer.service import logs

COUNT = "/v1/count?model=gpt2-small"
Start = Callable[..., Server]

# request -> status, what its sentence has
ERRORS = [
    ("/v1/count", 422, ["name one model"]),
    ("/v1/count?model=gpt2-smal", 404, ["no preset named 'gpt2-smal'", "gpt2-small"]),
    ("/v1/presets/gpt2-smal", 404, ["gpt2-small"]),
    ("/v1/count?model=gpt-4", 422, ["not public"]),
    ("/v1/count?model=gpt2-small&dept=3", 400, ["no option named 'dept'", "depth"]),
    ("/v1/count?model=gpt2-small&by=color", 422, ["'color' is not one of 'component'"]),
    ("/v1/count?model=gpt2-small&depth=0", 422, ["0 is not in the range"]),
    ("/v1/count?model=gpt2-small&set=n_layer", 422, ["KEY=VALUE"]),
    ("/v1/count?model=gpt2-small&set=n_layerz%3D3", 422, ["n_layerz", "did you mean"]),
    ("/v1/count?model=gpt2-small&set=n_layers%3D2&set=n_layers%3D3", 422, ["set twice"]),
    ("/v1/count?model=gpt2-small&model=gpt2-xl", 422, ["neither the name of a preset"]),
    ("/v1/count?model=gpt2-small&with=torch", 400, ["no option named 'with'"]),
    ("/v1/count?model=gpt2-small&json=true", 400, ["no option named 'json'"]),
    ("/v1/flops?model=gpt2-small&seq_len=1.5", 422, ["'1.5' is not a valid integer"]),
    ("/v1/flops?model=gpt2-small&seq_len=-3", 422, ["seq_len = -3"]),
    ("/v1/flops?model=gpt2-small&explain=maybe", 422, ["explain = 'maybe' is not true or false"]),
    ("/v1/formula?model=gpt2-small&latex=1&mathml=1", 422, ["contradicts"]),
    ("/v1/memory?model=gpt2-small&optimizer=adamx", 422, ["adamw"]),
    ("/v1/nothing", 404, ["no such page"]),
    ("/assets/none.js", 404, ["no such page"]),
    ("/v1/count/more", 404, ["no such page"]),
]


@pytest.mark.parametrize(("path", "status", "fragments"), ERRORS, ids=[path for path, _, _ in ERRORS])
def test_an_error_is_a_problem_document(server: Server, path: str, status: int, fragments: list[str]) -> None:
    response = server.client.get(path)
    document = response.json()

    assert (response.status_code, document["status"]) == (status, status)
    assert response.headers["content-type"] == "application/problem+json"
    assert [part for part in fragments if part not in document["detail"]] == []


def test_the_sentence_is_that_of_the_command_line(
    server: Server, sizer_cli: Callable[..., tuple[int, str, str]]
) -> None:
    _, _, err = sizer_cli("count", "gpt2-smal")

    assert err == f"sizer: {server.client.get('/v1/count?model=gpt2-smal').json()['detail']}\n"


def test_a_method_that_a_path_does_not_take(server: Server) -> None:
    response = server.client.delete("/v1/count")

    assert (response.status_code, response.json()["status"]) == (405, 405)
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_a_tag_saves_the_answer(server: Server) -> None:
    first = server.client.get(COUNT, headers={"accept-encoding": "identity"})
    again = server.client.get(
        COUNT, headers={"accept-encoding": "identity", "if-none-match": first.headers["etag"]}
    )
    other = server.client.get(COUNT + "&by=layer", headers={"if-none-match": first.headers["etag"]})

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert "max-age" in again.headers["cache-control"]
    assert other.status_code == 200


def test_gzip_is_the_same_answer_under_another_tag(server: Server) -> None:
    plain = server.client.get(COUNT, headers={"accept-encoding": "identity"})
    with server.client.stream("GET", COUNT, headers={"accept-encoding": "gzip"}) as response:
        packed = b"".join(response.iter_raw())

    assert "content-encoding" not in plain.headers
    assert response.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == plain.content
    assert response.headers["etag"] != plain.headers["etag"]
    refused = server.client.get(COUNT, headers={"accept-encoding": "gzip;q=0"})
    assert "content-encoding" not in refused.headers


def test_head_has_the_headers_and_no_body(server: Server) -> None:
    got, head = server.client.get(COUNT), server.client.head(COUNT)

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["etag"] == got.headers["etag"]


def test_large_integers_come_as_texts_too_where_asked(server: Server) -> None:
    path = "/v1/flops?model=llama-3-8b&batch_size=100000&seq_len=8192"
    plain = server.client.get(path).json()
    both = server.client.get(path, headers={"accept": "application/json; integers=both"}).json()

    assert plain["training"] > 2**53
    assert both["training_str"] == str(plain["training"])
    assert both["training"] == plain["training"]
    assert "training_str" not in plain
    assert "batch_size_str" not in both


def test_a_long_list_is_streamed(server: Server) -> None:
    path = "/v1/tensors?model=gpt2-small&expand=true&set=n_layers%3D1500"
    with server.client.stream("GET", path) as response:
        lines = sum(1 for _ in response.iter_lines())

    assert response.headers["content-type"] == "application/x-ndjson"
    assert "content-length" not in response.headers
    # 12 parameters and a mask a layer; two embeddings, the last norm's two, the tied head.
    assert lines == 1500 * 13 + 5


def test_health_readiness_and_metrics(server: Server) -> None:
    assert server.client.get("/healthz").json()["status"] == "ok"
    assert server.client.get("/readyz").json() == {"status": "ready"}
    server.client.get(COUNT)
    from prometheus_client.parser import text_string_to_metric_families

    families = {f.name: f for f in text_string_to_metric_families(server.client.get("/metrics").text)}
    counts = {
        (s.labels["path"], s.labels["status"]): s.value
        for s in families["sizer_requests"].samples
        if s.name == "sizer_requests_total"
    }
    buckets = [
        s.value
        for s in families["sizer_request_seconds"].samples
        if s.name.endswith("_bucket") and s.labels["path"] == "/v1/count"
    ]

    assert counts["/v1/count", "200"] >= 1
    assert buckets == sorted(buckets)
    assert buckets[-1] == sum(n for (path, _), n in counts.items() if path == "/v1/count")


def test_the_log_has_a_line_of_json_for_each_request(server: Server) -> None:
    server.client.get("/v1/count?model=logged%0A%22line")

    def logged() -> list[dict[str, object]]:
        return [line for line in server.requests() if "logged" in str(line["query"])]

    until(logged)
    found = logged()
    assert (found[0]["method"], found[0]["path"], found[0]["status"]) == ("GET", "/v1/count", 404)


def test_the_documentation_needs_no_network(server: Server) -> None:
    page = server.client.get("/docs")

    assert page.status_code == 200
    assert "<script" not in page.text
    assert all(f">/v1/{name}<" in page.text for name in ("count", "memory", "presets/{name}"))
    assert "http" not in page.text.replace("http://127.0.0.1", "")
    assert "default-src 'self'" in page.headers["content-security-policy"]


def test_a_token_is_asked_for(start: Start, tmp_path: object) -> None:
    path = os.path.join(str(tmp_path), "token")
    with open(path, "w") as file:
        file.write("s3cret\n")
    server = start("--token-file", path)
    bearer = {"authorization": "Bearer s3cret"}

    for wrong in ({}, {"authorization": "Bearer s3cre"}, {"authorization": "Basic s3cret"}):
        refused = server.client.get(COUNT, headers=wrong)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert server.client.get(COUNT, headers=bearer).status_code == 200
    assert server.client.get(COUNT, headers=bearer).headers["cache-control"].startswith("private")
    # Also where the answer is kept.
    assert server.client.get(COUNT).status_code == 401
    assert server.client.get("/metrics").status_code == 401
    assert server.client.get("/healthz").status_code == 200
    assert "s3cret" not in "".join(server.log)


def test_a_prefix_of_a_proxy_and_no_cors(start: Start) -> None:
    server = start("--root-path", "/tools/sizer", SIZER_TOKEN="t")
    bearer = {"authorization": "bearer t", "origin": "https://example.org"}

    for path in (COUNT, f"/tools/sizer{COUNT}"):
        response = server.client.get(path, headers=bearer)
        assert response.status_code == 200
        assert "access-control-allow-origin" not in response.headers
        assert server.client.get(path).status_code == 401
    described = server.client.get("/tools/sizer/openapi.json", headers=bearer).json()
    assert described["servers"] == [{"url": "/tools/sizer"}]
    moved = server.client.get("/tools/sizer")
    assert (moved.status_code, moved.headers["location"]) == (308, "/tools/sizer/")
    assert server.client.get("/tools/sizer/js/main.js").headers["content-type"].startswith("text/javascript")


def test_cors_where_it_is_asked_for(start: Start) -> None:
    server = start("--cors", "https://example.org")
    allowed = server.client.get(COUNT, headers={"origin": "https://example.org"})
    other = server.client.get(COUNT, headers={"origin": "https://example.com"})

    assert allowed.headers["access-control-allow-origin"] == "https://example.org"
    assert "access-control-allow-origin" not in other.headers


def test_sigterm_finishes_what_is_being_answered(start: Start) -> None:
    server = start()
    # More than is sent to who does not read.
    path = "/v1/tensors?model=gpt2-small&expand=true&set=n_layers%3D3000"
    lines: list[int] = []
    begun, told = threading.Event(), threading.Event()

    def ask() -> None:
        with httpx.stream("GET", server.base + path, timeout=PATIENCE) as response:
            begun.set()
            told.wait(PATIENCE)
            lines.append(sum(1 for _ in response.iter_lines()))

    thread = threading.Thread(target=ask)
    thread.start()
    assert begun.wait(PATIENCE)
    server.process.send_signal(signal.SIGTERM)
    until(lambda: any("Shutting down" in line for line in server.log))
    assert server.process.poll() is None
    told.set()

    assert server.process.wait(PATIENCE) == 0
    thread.join(PATIENCE)
    assert lines == [3000 * 13 + 5]
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.base + "/healthz")


def test_workers_are_replaced_and_share_their_counts(start: Start) -> None:
    server = start("--workers", "2")
    for _ in range(6):
        assert httpx.get(server.base + COUNT).status_code == 200

    def total() -> int:
        return sum(
            int(line.split()[-1])
            for line in httpx.get(server.base + "/metrics").text.splitlines()
            if line.startswith('sizer_requests_total{path="/v1/c')
        )

    def started() -> int:
        return sum("Application startup complete" in line for line in server.log)

    # Workers tell each other their counts from time to time.
    until(lambda: total() == 6)
    until(lambda: started() == 2)
    pids = {
        line["message"].split("[")[1][:-1]
        for line in map(json.loads, server.log)
        if line.get("message", "").startswith("Started server process")
    }

    assert len(pids) == 2
    os.kill(int(pids.pop()), signal.SIGKILL)
    until(lambda: started() == 3)
    assert httpx.get(server.base + COUNT).status_code == 200
    assert server.stop() == 0


@pytest.mark.parametrize("module", ["fastapi", "uvicorn"])
def test_without_the_extra(
    monkeypatch: pytest.MonkeyPatch, sizer_cli: Callable[..., tuple[int, str, str]], module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    code, out, err = sizer_cli("serve")

    assert (code, out) == (2, "")
    assert "model-sizer[serve]" in err


@pytest.mark.parametrize(
    ("data", "part"),
    [(b" \n", "holds no token"), (b"\xff\xfe", "cannot read the token")],
    ids=["none", "binary"],
)
def test_a_file_without_a_token(
    tmp_path: Path, sizer_cli: Callable[..., tuple[int, str, str]], data: bytes, part: str
) -> None:
    path = tmp_path / "token"
    path.write_bytes(data)

    code, out, err = sizer_cli("serve", "--token-file", str(path))

    assert (code, out) == (2, "")
    assert part in err


def test_an_error_in_the_log_is_one_line() -> None:
    try:
        raise KeyError("two\nlines")
    except KeyError:
        record = logging.LogRecord("uvicorn", logging.ERROR, "", 0, "it %s", ("broke",), sys.exc_info())
    line = logs.Formatter().format(record)
    document = json.loads(line)

    assert "\n" not in line
    assert (document["level"], document["message"]) == ("error", "it broke")
    assert document["exception"].splitlines()[-1] == r"KeyError: 'two\nlines'"


def test_a_port_in_use(server: Server, sizer_cli: Callable[..., tuple[int, str, str]]) -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "sizer", "serve", "--port", str(server.port)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"sizer: cannot listen on 127.0.0.1:{server.port}")


def test_a_connection_is_kept_and_requests_may_follow_each_other(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as client:
        one = f"GET {COUNT} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
        client.sendall(one + one.replace(b"gpt2-small", b"gpt2-smal"))
        data = b""
        while data.count(b"HTTP/1.1 ") < 2 or not data.endswith(b"}"):
            data += client.recv(65536)

    assert data.index(b"HTTP/1.1 200") < data.index(b"HTTP/1.1 404")
