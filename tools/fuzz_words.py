"""Throw spoilt words at the command line and at the service.

    python tools/fuzz_words.py line|request|connection [--seconds N] [--seed N]

`line`: words after `sizer`; `request`: queries, JSON and forms for every endpoint, worked out in this
process; `connection`: bytes to a server that runs, whole or slowly, which must stay well. What is not
answered or refused as it should be is printed with its number; a find belongs into the tests.
"""

from __future__ import annotations

import argparse
import random
import resource
import socket
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import hostile  # noqa: E402
import test_cli_fuzz  # noqa: E402
from service import test_request_fuzz  # noqa: E402
from service.conftest import Server  # noqa: E402

# What one answer may take of memory, as in a calculator of the service.
MOST_BYTES = 4 << 30
# Longer than the server below waits for a client or an answer.
PATIENCE = 15
METHODS = (b"GET", b"POST", b"HEAD", b"PUT", b"OPTIONS", b"get", b"\xff", b"PRI", b"")
HEADERS = [
    *(b"host: x", b"content-type: application/json", b"accept-encoding: gzip", b"expect: 100-continue"),
    *(
        b"transfer-encoding: chunked",
        b"content-length: 3",
        b"content-length: -1",
        b"content-length: 99999999999999",
    ),
    *(
        b"if-none-match: *",
        b'if-none-match: "' + b"a" * 5000,
        b"connection: close",
        b"upgrade: h2c",
        b"range: bytes=0-1",
    ),
    *(
        b"x: " + b"y" * 70_000,
        b"bad header",
        b": empty",
        b"a: \x00",
        b" folded",
        b"accept: integers=both",
        b"te: \xff",
    ),
]


def connection(chance: random.Random, server: Server) -> None:
    """One client; the server answers it or closes, and answers the next."""
    path, query, kind, body = hostile.any_request(chance)
    target = (
        b"/v1/"
        + path.encode("utf-8", "replace").replace(b" ", b"%20")
        + (b"?" + query.encode("latin-1") if query else b"")
    )
    head = [
        b" ".join((chance.choice((*METHODS, b"GET", b"POST", b"POST")), target[:5000], b"HTTP/1.1")),
        b"host: x",
    ]
    if body and chance.random() < 0.8:
        head += [b"content-type: " + kind.encode("utf-8"), b"content-length: %d" % len(body)]
    head += chance.sample(HEADERS, chance.choice((0, 0, 1, 2, 4)))
    data = hostile.spoilt_bytes(chance, b"\r\n".join(head) + b"\r\n\r\n") + body
    answer = b""
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as client:
        try:
            step = chance.choice((len(data) or 1, len(data) or 1, 500, len(data) // 4 or 1))
            for at in range(0, min(len(data), 20 * step), step):
                client.sendall(data[at : at + step])
                time.sleep(chance.choice((0, 0, 0.05)))
            if chance.random() < 0.7:
                client.shutdown(socket.SHUT_WR)
            if chance.random() < 0.9:
                while part := client.recv(65536):
                    answer += part
                    kept_open = b"connection: close" not in data and b"\r\n\r\n" in answer
                    if kept_open or len(answer) > 1_000_000:
                        break
        except TimeoutError:
            raise
        except OSError:
            pass  # closed by the other side
    assert b" 500 " not in answer[:20], (data[:2000], answer[:1000])
    assert not answer or answer.startswith(b"HTTP/1.1 "), (data[:2000], answer[:200])
    assert time.monotonic() - begin < PATIENCE, data[:2000]
    assert server.process.poll() is None
    assert server.client.get("/healthz").status_code == 200


def main() -> int:
    """Fuzz until the time is over; the exit code is 1 where something was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("line", "request", "connection"))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    server = None
    if given.what == "connection":
        server = Server(
            "--client-timeout", "1", "--deadline", "4", "--heavy-deadline", "6", "--no-access-log"
        )
    else:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    count = found = 0
    until = time.monotonic() + given.seconds
    while time.monotonic() < until:
        seed = given.seed + count
        count += 1
        clock = time.process_time()
        try:
            if server is not None:
                connection(random.Random(seed), server)
            else:
                (test_cli_fuzz if given.what == "line" else test_request_fuzz).check(seed)
        except Exception:
            found += 1
            print(f"{given.what} {seed}: {traceback.format_exc(limit=-1)[-3000:]}", flush=True)
        if (took := time.process_time() - clock) > 5:
            print(f"{given.what} {seed}: {took:.0f} s", flush=True)
    print(f"{count:,} of {given.what}, from {given.seed}: {found:,} finds")
    stopped = server is None or server.stop() == 0
    return int(found > 0 or not stopped)


if __name__ == "__main__":
    sys.exit(main())
