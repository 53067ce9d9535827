"""Clients that mean harm: an answer or a sentence within bounds, and the next request is served."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from service.conftest import PATIENCE, ROOT, Server, until

GPT2 = {"model_type": "gpt2"}


def config(**values: object) -> bytes:
    return json.dumps({"model": {**GPT2, **values}}).encode()


# name -> path, body, status, what the sentence has
BODIES: list[tuple[str, str, bytes, int, str]] = [
    ("a width of 10^300", "count", config(n_embd=10**300), 422, "n_embd"),
    ("a width of 5,000 digits", "count", config(n_embd="9").replace(b'"9"', b"9" * 5000), 400, "digits"),
    ("a width of -1", "count", config(n_embd=-1), 422, ""),
    ("a width of infinity", "count", config(n_embd=float("inf")), 422, ""),
    ("a width that is a list", "count", config(n_embd=[1] * 1000), 422, ""),
    ("an option of 10^400", "flops", b'{"model": "gpt2", "seq_len": 1%s}' % (b"0" * 400), 422, "10^30"),
    ("an option that is an object", "flops", b'{"model": "gpt2", "seq_len": {}}', 422, "neither a number"),
    ("an option that is a list", "flops", b'{"model": "gpt2", "seq_len": [1, 2]}', 422, "takes one"),
    ("100,000 levels", "count", b'{"model":' * 100_000, 400, "nested"),
    ("1,000 levels", "count", config(x=json.loads("[" * 900 + "]" * 900)), 400, "nested"),
    ("10,000 keys", "count", config(**{f"k{i}": 1 for i in range(10_000)}), 422, "10,001 keys"),
    ("a key twice", "count", b'{"model": "gpt2", "model": "gpt2-xl"}', 400, "twice"),
    ("no JSON", "count", b"{'model'}", 400, "JSON"),
    ("no text", "count", b"\xff\xfe{}", 400, "UTF-8"),
    ("a lone surrogate", "count", b'{"model": "\\ud800"}', 404, "no preset"),
    ("a name of 900 KB", "count", b'{"model": "%s"}' % (b"a" * 900_000), 404, "no preset"),
    ("an unknown type", "count", b'{"model": {"model_type": "../../etc"}}', 422, ""),
    ("no type", "count", b'{"model": {}}', 422, ""),
    ("a set of nothing", "count", b'{"model": "gpt2", "set": 3}', 422, "KEY=VALUE"),
    ("a class that is a list", "count", b'{"model": "gpt2", "class": ["a"]}', 422, "class"),
    ("a draft that is a path", "kv-cache", b'{"model": "gpt2", "draft": "/etc/passwd"}', 404, "no preset"),
    ("100,000 models", "compare", json.dumps({"models": ["gpt2"] * 100_000}).encode(), 422, "at most 100"),
    ("one model as a word", "compare", b'{"models": "gpt2-small"}', 422, "compare takes 2"),
    (
        "an option of 100,000 signs",
        "flops",
        b'{"model": "gpt2", "seq_len": "%s"}' % (b"9" * 100_000),
        422,
        "…",
    ),
    (
        "a model in a model",
        "compare",
        b'{"models": ["gpt2", ' + b'{"set": {}, "model": ' * 60 + b'"gpt2"' + b"}" * 60 + b"]}",
        422,
        "model_type",
    ),
    ("an override of a path", "compare", b'{"models": ["gpt2", "/etc/passwd:n_layers=3"]}', 404, "no preset"),
    ("words as an option", "flops", b'{"model": "gpt2", "rule": ["--json", "-h"]}', 422, "rule"),
]


@pytest.mark.parametrize(
    ("path", "body", "status", "part"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES]
)
def test_a_body_that_means_harm(server: Server, path: str, body: bytes, status: int, part: str) -> None:
    begin = time.monotonic()
    response = server.client.post(f"/v1/{path}", content=body, headers={"content-type": "application/json"})

    assert response.status_code == status, response.text[:300]
    assert part in response.json()["detail"]
    assert len(response.content) < 5_000
    assert time.monotonic() - begin < 30
    assert server.client.get("/v1/count?model=gpt2-small").status_code == 200


def test_an_answer_that_takes_too_much(start: Callable[..., Server]) -> None:
    server = start("--deadline", "2")
    body = b'{"model": "gpt2", "set": {"n_layers": 100000000}, "by": "layer"}'
    response = server.client.post("/v1/count", content=body, headers={"content-type": "application/json"})

    # Time, or on a fast machine memory.
    assert (response.status_code, "takes" in response.json()["detail"]) == (422, True)
    assert server.client.get("/v1/count?model=gpt2-small").status_code == 200


NAMES = [
    *("../../../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "https://example.org/config.json"),
    *("~/.ssh/id_rsa", "-", ".", "presets", "C:\\config.json", "gpt2-small\x00.json", "gpt2-small\n", ""),
    *(
        "org/name",
        "%2e%2e",
        "a\r\nset-cookie: x=1",
        '"]\n[gpt2-small',
        "config.json",
        str(ROOT / "README.md"),
    ),
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_the_name_of_a_model_is_the_name_of_a_preset(server: Server, name: str) -> None:
    for response in (
        server.client.get("/v1/count", params={"model": name}),
        server.client.post("/v1/count", json={"model": name}),
        server.client.get("/v1/kv-cache", params={"model": "gpt2-small", "draft": name}),
    ):
        assert response.status_code == 404
        assert response.json()["detail"].startswith("no preset named")
        assert "set-cookie" not in response.headers


def test_no_option_opens_a_file(tmp_path: Path) -> None:
    """Every option of every endpoint as the path of a file: it is never opened."""
    script = """
import json, os, sys
from sizer.service import answers
from sizer.service.endpoints import ENDPOINTS
canary = sys.argv[1]
opened = []
def note(event, args):
    if event == "open" and os.path.basename(str(args[0])) == "canary.json":
        opened.append(args)
sys.addaudithook(note)
statuses = set()
for path, endpoint in ENDPOINTS.items():
    for key in [*endpoint.options, "model", "set", "class"]:
        for value in (canary, "canary.json"):
            body = json.dumps({"model": "gpt2-small", key: value}).encode()
            where = path.replace("{name}", "gpt2-small")
            statuses.add(answers.answer(where, "", "application/json", body).status)
print(json.dumps([len(opened), sorted(statuses)]))
"""
    canary = tmp_path / "canary.json"
    canary.write_text('{"model_type": "gpt2"}')
    done = subprocess.run(
        [sys.executable, "-c", script, str(canary)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    opened, statuses = json.loads(done.stdout or "[-1, []]")

    assert opened == 0, done.stderr
    assert 500 not in statuses


def test_a_calculator_opens_nothing_else(tmp_path: Path) -> None:
    """The second wall, on its own."""
    (tmp_path / "own").mkdir()
    script = """
import os, socket, subprocess, sys
from sizer.service import sandbox
sandbox.close(os.getcwd(), 1 << 31)
attempts = {
    "own file": lambda: open("x", "w").close(),
    "package": lambda: open(sandbox.__file__).close(),
    "passwd": lambda: open("/etc/passwd"),
    "outside": lambda: open("../x", "w"),
    "os.open": lambda: os.open("/etc/hostname", os.O_RDONLY),
    "package write": lambda: open(sandbox.__file__, "a"),
    "list": lambda: os.listdir("/"),
    "connect": lambda: socket.create_connection(("127.0.0.1", 9)),
    "program": lambda: subprocess.run(["true"]),
    "shell": lambda: os.system("true"),
    "fork": lambda: os.fork(),
}
for name, attempt in attempts.items():
    try:
        attempt()
        print(name, "done")
    except PermissionError:
        print(name, "refused")
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path / "own",
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    found = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())

    assert {name for name, what in found.items() if what == "done"} == {"own file", "package"}, done.stderr
    assert len(found) == 11


def test_a_body_of_100_megabytes(server: Server) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1_000_000

    for body, headers in ((b" " * 100_000_000, {}), (chunks(), {"transfer-encoding": "chunked"})):
        response = server.client.post(
            "/v1/count", content=body, headers={"content-type": "application/json", **headers}
        )
        assert response.status_code == 413
        assert "over 1,000,000 bytes" in response.json()["detail"]


def test_a_million_layers_are_counted(server: Server) -> None:
    response = server.client.get("/v1/count?model=gpt2-small&set=n_layers%3D1000000")

    # 7,087,872 a layer, and what stands around the layers (the table of GPT-2's paper, by hand).
    assert response.json()["params"]["total"] == 7_087_872 * 10**6 + 39_383_808 + 1_536


def test_a_client_that_leaves_a_stream(server: Server) -> None:
    path = "/v1/tensors?model=gpt2-small&expand=true&set=n_layers%3D100000"
    begin = time.monotonic()
    for _ in range(3):
        with server.client.stream("GET", path) as response:
            assert next(response.iter_bytes())
    small = server.client.get("/v1/tensors?model=gpt2-small&expand=true")

    assert small.status_code == 200
    # Calculators that went on would be busy until their deadline of 20 seconds.
    assert time.monotonic() - begin < 15


def test_counts_are_answered_while_heavy_answers_are_worked_out(server: Server) -> None:
    path = "/v1/tensors?model=gpt2-small&expand=true&set=n_layers%3D100000"
    with server.client.stream("GET", path), server.client.stream("GET", path + "&dtype=bf16"):
        begin = time.monotonic()
        for depth in range(1, 11):
            assert server.client.get(f"/v1/count?model=gpt2-medium&depth={depth}").status_code == 200
        # Where these waited for those, nobody reads those, so it would be for 20 seconds.
        assert time.monotonic() - begin < 15


def raw(port: int, *parts: bytes, pause: float = 0, shut: bool = False) -> bytes:
    """Send parts, and read until the other side closes."""
    data = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
        try:
            for part in parts:
                client.sendall(part)
                time.sleep(pause)
            if shut:
                client.shutdown(socket.SHUT_WR)
            while part := client.recv(65536):
                data += part
        except ConnectionError:
            pass
        return data


HALF = b"POST /v1/count HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"
RAW: list[tuple[str, list[bytes], bytes]] = [
    ("no HTTP", [b"\x16\x03\x01\x00\xa5 hello\r\n\r\n"], b"HTTP/1.1 400"),
    ("a header over lines", [b"GET / HTTP/1.1\r\nhost: x\r\na b: c\r\n\r\n"], b"HTTP/1.1 400"),
    ("headers without end", [b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 50_000], b""),
    ("two lengths", [HALF.replace(b"50", b"50\r\ncontent-length: 3")], b"HTTP/1.1 400"),
    ("headers that do not come", [b"GET / HTTP/1.1\r\n"], b""),
    ("nothing at all", [], b""),
    ("a body that does not come", [HALF], b"HTTP/1.1 408"),
]


class Plain(Server):
    """Without httptools, uvicorn reads requests in Python."""

    program = ("-c", "import sys; sys.modules['httptools'] = None; from sizer.cli import entry; entry()")


@pytest.fixture(scope="module", params=[Server, Plain], ids=["httptools", "h11"])
def impatient(request: pytest.FixtureRequest) -> Iterator[Server]:
    found: Server = request.param("--client-timeout", "1", "--no-access-log")
    yield found
    assert found.stop() == 0


@pytest.mark.parametrize(("parts", "begin"), [row[1:] for row in RAW], ids=[row[0] for row in RAW])
def test_a_connection_that_means_harm(impatient: Server, parts: list[bytes], begin: bytes) -> None:
    start = time.monotonic()
    answer = raw(impatient.port, *parts)

    assert answer.startswith(begin)
    # A client is usually given 20 seconds.
    assert time.monotonic() - start < 15
    assert impatient.client.get("/v1/count?model=gpt2-small").status_code == 200


def test_headers_a_byte_at_a_time(impatient: Server) -> None:
    start = time.monotonic()
    # 21 seconds of them, where nobody ends it.
    raw(impatient.port, *(bytes([byte]) for byte in b"GET / HTTP/1.1\r\nhost: " + b"x" * 400), pause=0.05)

    assert time.monotonic() - start < 15


def test_a_client_that_closes_its_half(server: Server) -> None:
    raw(server.port, HALF, shut=True)
    raw(server.port, b"GET /v1/count?model=gpt2-small HTTP/1.1\r\nhost: x\r\n\r\n", shut=True)

    assert server.client.get("/v1/count?model=gpt2-small").status_code == 200


def test_a_hundred_that_are_slow_do_not_hold_up_the_next(server: Server) -> None:
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    for each in slow:
        each.sendall(HALF)
    begin = time.monotonic()
    try:
        assert httpx.get(f"{server.base}/v1/count?model=gpt2-small", timeout=PATIENCE).status_code == 200
        # A slow client is given 20 seconds.
        assert time.monotonic() - begin < 15
    finally:
        for each in slow:
            each.close()


def test_those_that_say_nothing_make_room(start: Callable[..., Server]) -> None:
    server = start("--connections", "20", "--deadline", "60", "--no-access-log")
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    try:
        for each in slow:
            each.sendall(HALF)
        # Those that make room take a moment to end; who comes in it may be told to come again.
        until(lambda: httpx.get(f"{server.base}/healthz", timeout=PATIENCE).status_code == 200)
        for depth in range(1, 30):
            # A connection of its own, and an answer that is worked out.
            answer = httpx.get(f"{server.base}/v1/count?model=gpt2-small&depth={depth}", timeout=PATIENCE)
            assert answer.status_code == 200, answer.text
    finally:
        for each in silent + slow:
            each.close()


def test_too_many_that_wait_are_told(start: Callable[..., Server]) -> None:
    assert start  # a lane refuses at once where its queue is full; without a server:
    import asyncio

    from sizer.service.lanes import Busy, Job, Lane

    async def ask() -> list[object]:
        lane = Lane(1, 1, 60.0, 2_000_000_000)
        jobs = [
            lane.answer(Job("count", f"model=gpt2&depth={i + 1}", "", b"", both=False, gzip=False))
            for i in range(4)
        ]
        found = await asyncio.gather(*jobs, return_exceptions=True)
        await lane.close()
        return [type(each) if isinstance(each, Busy) else each.status for each in found]  # type: ignore[union-attr]

    assert asyncio.run(ask()) == [200, 200, Busy, Busy]
