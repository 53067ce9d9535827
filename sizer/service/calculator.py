"""A process that works out one request after another: `python -P -m sizer.service.calculator`.

The server asks on standard input and reads the answer on standard output, both in frames: a letter,
the length of what follows, and that. A job is `J` with a JSON object and `B` with the body; an answer
is `H` with a JSON object, `D` with its bytes once or, where it is long, many times, `Z` with the
same bytes in gzip, and `E`. Whatever goes wrong here ends with this process, never with the server.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import signal
import sys
from collections.abc import Iterator
from struct import Struct
from typing import Any, BinaryIO

from sizer.service import answers
from sizer.service.endpoints import ENDPOINTS

FRAME = Struct(">cI")
# Up to here an answer is sent whole, and may be kept.
WHOLE = 1 << 20
CHUNK = 1 << 16
# Less is not worth compressing.
LEAST_GZIP = 500


class Late(BaseException):
    """The deadline of a request; no code that catches errors catches it."""


def frame(letter: bytes, data: bytes) -> bytes:
    """A frame as it is sent.

    >>> frame(b"E", b"")
    b'E\\x00\\x00\\x00\\x00'
    """
    return FRAME.pack(letter, len(data)) + data


def main() -> None:
    """Answer jobs until the server closes the pipe."""
    settings = json.loads(os.environ.pop("SIZER_CALCULATOR"))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The server decides when a calculator ends; a signal to the whole group is not for it.
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _late)
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    # What a library prints must not end up between frames.
    os.dup2(2, 1)
    if settings["nice"]:
        os.nice(settings["nice"])
    _warm()
    from sizer.service import sandbox

    sandbox.close(os.getcwd(), settings["memory"])
    gc.freeze()
    _send(sink, b"R", b"")
    while (job := _read(source, b"J")) is not None:
        body = _read(source, b"B")
        if body is None:
            return
        _work(sink, json.loads(job), body)


def _warm() -> None:
    """Import what every request needs, and read a preset."""
    for endpoint in ENDPOINTS.values():
        assert endpoint.options is not None
    answers.answer("count", "model=gpt2-small", "", b"")
    answers.answer("count", "", "application/json", b'{"model": {"model_type": "llama"}}')


def _late(_number: int, _frame: Any) -> None:
    raise Late


def _work(sink: BinaryIO, job: dict[str, Any], body: bytes) -> None:
    """Answer one job; end the process where it was interrupted, since nobody knows in the middle of what."""
    begun = False
    try:
        signal.setitimer(signal.ITIMER_REAL, job["deadline"])
        found = answers.answer(job["path"], job["query"], job["type"], body, both=job["both"])
        text = found.text
        if not isinstance(text, bytes):
            head, rest = _head_of(text)
            if rest is not None:
                begun = True
                _stream(sink, found, head, rest, zipped=job["gzip"])
                return
            text = head
        whole = _whole(found, text)
    except (Late, MemoryError) as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        what = (
            f"over {job['deadline']:g} s to work out; ask for less of it, or use the command line"
            if isinstance(error, Late)
            else "more memory than a request may use; ask for less of it"
        )
        if not begun:
            found = answers.problem(422, f"the answer takes {what}")
            assert isinstance(found.text, bytes)
            _send(sink, b"", _whole(found, found.text, last=True))
        sys.exit(0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    _send(sink, b"", whole)


def _whole(found: answers.Answer, text: bytes, *, last: bool = False) -> bytes:
    packed = gzip.compress(text, 6, mtime=0) if len(text) >= LEAST_GZIP else b""
    return (
        _start(found, last=last)
        + frame(b"D", text)
        + (frame(b"Z", packed) if packed else b"")
        + frame(b"E", b"")
    )


def _start(found: answers.Answer, *, stream: bool = False, zipped: bool = False, last: bool = False) -> bytes:
    about = {
        "status": found.status,
        "type": found.kind,
        "exit": found.exit_code,
        "stream": stream,
        "gzip": zipped,
        "last": last,
    }
    return frame(b"H", json.dumps(about).encode())


def _head_of(lines: Iterator[bytes]) -> tuple[bytes, Iterator[bytes] | None]:
    """The first lines, and the others where they are more than are sent whole."""
    head: list[bytes] = []
    size = 0
    for line in lines:
        head.append(line)
        size += len(line)
        if size > WHOLE:
            return b"".join(head), lines
    return b"".join(head), None


def _stream(
    sink: BinaryIO, found: answers.Answer, head: bytes, rest: Iterator[bytes], *, zipped: bool
) -> None:
    """Send an answer as it is worked out; the pipe holds back what the client does not read."""
    import zlib

    packer = zlib.compressobj(1, zlib.DEFLATED, 31) if zipped else None
    _send(sink, b"", _start(found, stream=True, zipped=zipped))

    def send(data: bytes) -> None:
        packed = packer.compress(data) if packer else data
        if packed:
            _send(sink, b"D", packed)

    send(head)
    parts: list[bytes] = []
    size = 0
    for line in rest:
        parts.append(line)
        size += len(line)
        if size >= CHUNK:
            send(b"".join(parts))
            parts, size = [], 0
    send(b"".join(parts))
    if packer:
        _send(sink, b"D", packer.flush())
    _send(sink, b"E", b"")


def _send(sink: BinaryIO, letter: bytes, data: bytes) -> None:
    """Write a frame, or frames that are made already."""
    view = memoryview(frame(letter, data) if letter else data)
    while view:
        written = sink.write(view)
        view = view[written or 0 :]


def _read(source: BinaryIO, letter: bytes) -> bytes | None:
    head = source.read(FRAME.size)
    if len(head) < FRAME.size:
        return None
    found, length = FRAME.unpack(head)
    assert found == letter, found
    return source.read(length)


if __name__ == "__main__":
    main()
