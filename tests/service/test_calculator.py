"""A calculator asked over its pipes, without the server around it, and the rules of its wall."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from service.conftest import ROOT

from sizer.service import sandbox
from sizer.service.calculator import FRAME, frame

# Without the wall, whose rules are below: behind it nothing can be traced.
SCRIPT = """
from sizer.service import calculator, sandbox
sandbox.close = lambda folder, memory: None
calculator.main()
"""


class Asked:
    """The frames of one answer."""

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self.data = b""
        self.packed = b""


class Pipes:
    """A calculator and both ends of its pipes."""

    def __init__(self, folder: Path, nice: int = 0) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": path,
                "SIZER_CALCULATOR": json.dumps({"nice": nice, "memory": 0}),
            },
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.sink, self.source = self.process.stdin, self.process.stdout
        assert self.frame() == (b"R", b"")

    def frame(self) -> tuple[bytes, bytes]:
        letter, length = FRAME.unpack(self.source.read(FRAME.size))
        return letter, self.source.read(length)

    def ask(self, path: str, query: str = "", body: bytes = b"", **more: Any) -> Asked:
        self.send(path, query, body, **more)
        return self.read()

    def send(self, path: str, query: str = "", body: bytes = b"", **more: Any) -> None:
        job = {"path": path, "query": query, "type": "application/json" if body else "", "both": False}
        job |= {"gzip": False, "deadline": 30.0, **more}
        self.sink.write(frame(b"J", json.dumps(job).encode()) + frame(b"B", body))
        self.sink.flush()

    def read(self) -> Asked:
        found = Asked()
        while (one := self.frame())[0] != b"E":
            if one[0] == b"H":
                found.about = json.loads(one[1])
            elif one[0] == b"D":
                found.data += one[1]
            else:
                found.packed += one[1]
        return found

    def close(self) -> int:
        self.sink.close()
        self.source.close()
        return self.process.wait(60)


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[Pipes]:
    found = Pipes(tmp_path)
    yield found
    found.close()


def test_one_answer_after_another(pipes: Pipes) -> None:
    first = pipes.ask("count", "model=gpt2-small")
    second = pipes.ask("count", body=b'{"model": "gpt2-small"}')
    wrong = pipes.ask("count", "model=gpt2-smal")
    whole = pipes.ask("flops", "model=gpt2-xl&seq_len=1000000", both=True)

    assert first.about == {
        "status": 200,
        "type": "application/json",
        "exit": 0,
        "stream": False,
        "gzip": False,
        "last": False,
    }
    assert json.loads(first.data)["params"]["total"] == 124_439_808
    assert first.data == second.data == gzip.decompress(first.packed)
    assert wrong.about["status"] == 404
    assert wrong.packed == b"", "a sentence is not worth it"
    assert any(key.endswith("_str") for key in json.loads(whole.data))
    assert pipes.close() == 0


@pytest.mark.parametrize("nice", [0, 7])
def test_heavy_answers_give_way(tmp_path: Path, nice: int) -> None:
    with closing(Pipes(tmp_path, nice)) as pipes:
        found = pipes.ask("tensors", "model=gpt2-small&expand=true")
        # Field 19 of proc(5).
        stat = Path(f"/proc/{pipes.process.pid}/stat").read_text().rpartition(")")[2].split()

    assert int(stat[16]) == os.getpriority(os.PRIO_PROCESS, 0) + nice
    assert (found.about["type"], found.about["stream"]) == ("application/x-ndjson", False)
    assert json.loads(found.data.splitlines()[0])["name"] == "transformer.wte.weight"


@pytest.mark.parametrize("zipped", [False, True])
def test_a_long_answer_comes_in_pieces(pipes: Pipes, zipped: bool) -> None:
    found = pipes.ask("tensors", "model=gpt2-small&expand=true&set=n_layers%3D1500", gzip=zipped)
    text = gzip.decompress(found.data) if zipped else found.data
    lines = [json.loads(line) for line in text.splitlines()]

    assert (found.about["stream"], found.about["gzip"]) == (True, zipped)
    # The weights of a block of GPT-2 are 12 tensors, and four stand around the blocks.
    assert sum(line["kind"] == "param" and line["tied_to"] is None for line in lines) == 12 * 1500 + 4
    assert pipes.ask("count", "model=gpt2-small").about["status"] == 200


def test_what_takes_too_long_is_said_and_ends_the_process(pipes: Pipes) -> None:
    found = pipes.ask("count", "model=llama-3-8b&by=module&depth=9", deadline=0.0001)

    assert (found.about["status"], found.about["last"]) == (422, True)
    assert b"over 0.0001 s to work out" in found.data
    assert pipes.process.wait(60) == 0


def test_a_long_answer_that_takes_too_long_is_cut_off(pipes: Pipes) -> None:
    query = "model=gpt2-small&expand=true&set=n_layers%3D100000"
    # The pipe is full until the time is over, however fast the machine.
    pipes.send("tensors", query, deadline=3.0)
    assert pipes.process.wait(60) == 0
    with pytest.raises(Exception, match="unpack requires"):
        pipes.read()


def test_a_job_without_its_body_ends_it(pipes: Pipes) -> None:
    pipes.sink.write(frame(b"J", b"{}"))
    assert pipes.close() == 0


OWN, ROOTS = ("/own/",), ("/package/", "/python/")
REFUSED = [
    *((event, ()) for event in ("socket.connect", "subprocess.Popen", "os.fork", "os.symlink", "os.kill")),
    *(("open", ("/etc/passwd", mode, 0)) for mode in ("r", "rb", "w", None)),
    *(("open", ("/package/x", mode, 0)) for mode in ("w", "a", "x", "r+", "wb")),
    *(("open", (b"/package/x", None, flag)) for flag in (os.O_WRONLY, os.O_RDWR, os.O_CREAT)),
    *(
        ("open", (path, "r", 0))
        for path in ("/own/../etc/passwd", "/ownership", "/packages/x", "/proc/1/environ")
    ),
    *((event, ("/package/x",)) for event in ("os.remove", "os.rename", "os.mkdir")),
    *((event, ("/",)) for event in ("os.listdir", "os.scandir")),
]
ALLOWED = [
    ("import", ("os", None, None, None, None)),
    ("open", (3, "r", 0)),
    ("os.listdir", (None,)),
    *(
        ("open", (path, "r", 0))
        for path in ("/package/x", "/python/lib/x.py", "/dev/null", "/proc/self/status")
    ),
    ("open", (b"/package/x", None, os.O_RDONLY)),
    *(("open", ("/own/x", mode, 0)) for mode in ("r", "w", "x", "a+")),
    *((event, ("/own/x",)) for event in ("os.remove", "os.mkdir", "os.scandir", "os.listdir")),
    ("os.listdir", ("/package",)),
]


@pytest.mark.parametrize(("event", "args"), REFUSED, ids=repr)
def test_the_wall_refuses(event: str, args: tuple[Any, ...]) -> None:
    with pytest.raises(PermissionError, match="a request may not"):
        sandbox.check(event, args, OWN, ROOTS)


@pytest.mark.parametrize(("event", "args"), ALLOWED, ids=repr)
def test_the_wall_lets_through(event: str, args: tuple[Any, ...]) -> None:
    sandbox.check(event, args, OWN, ROOTS)
