"""Command lines and requests that mean harm: good ones, spoilt in a few places by chance."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shlex
import signal
import tempfile
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest.mock import patch
from urllib.parse import quote_from_bytes, urlencode

import click
from lines import LINES, request

from sizer.cli import COMMANDS, cli, main
from sizer.service import answers
from sizer.service.endpoints import ENDPOINTS
from sizer.sources.hf_config import record_of

# They wait for requests, or build modules of torch, or read all files of a folder.
LEFT_OUT = {"serve", "mcp", "verify", "check", "derive"}
WORDS = [
    *(
        "0",
        "1",
        "-1",
        "8",
        "1e400",
        "3.5",
        "nan",
        "inf",
        "-inf",
        "-0",
        "1e-400",
        "0x10",
        "1_000",
        "+7",
        " 7 ",
    ),
    *(
        "99999999999999999999",
        "9" * 300,
        "9" * 5000,
        "7B",
        "1e30T",
        "-80GiB",
        "80GiB",
        "5%",
        "1/0",
        "1/3",
        "٣",
        "²",
    ),
    *(
        "x",
        "",
        " ",
        "é",
        "a=b",
        "=",
        "a=",
        "=b",
        ":",
        ",",
        ",,",
        "1:2",
        "1:",
        "4:1",
        "1:9:0",
        "1:9:-1",
        "2:8:*2",
    ),
    *(
        "-",
        "--",
        "---",
        "--json",
        "{}",
        "[]",
        "[[[[",
        '{"a": 1}',
        "null",
        "true",
        "\u202e",
        "\x1b[31m",
        "\ud800",
    ),
    *(
        "\0",
        "a\nb",
        "%00",
        "../../etc/passwd",
        "/etc/passwd",
        "/dev/null",
        ".",
        "~",
        "hub:a/b",
        "a" * 100_000,
    ),
    *(
        "gpt2-small",
        "llama-3-8b",
        "mixtral-8x7b",
        "t5-small",
        "mamba-130m",
        "h100-80gb",
        "n_layers=0",
        "n_layers=2",
    ),
    *("d_model=2:3", "bf16", "fp32", "nf4", "q4_k_m", "adamw", "megatron", "train", "tp=2", "n_layers=null"),
]
SIGNS = "0123456789eE.+-=:,;*%{}[]()'\"\\~ \0\n\t²é\u202e\ud800"
# Values as JSON has them; numbers that Python's own writer does not make stand as text between marks.
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2**53 + 1,
        2**63,
        10**15,
        10**30,
        10**400,
        1.5,
        -0.0,
        1e300,
        "@1e999@",
        "@NaN@",
    ),
    *("@-Infinity@", "@9" * 1 + "9" * 5000 + "@", "@1.0000000000000000000000001@", [], {}, [1], [[]], [None]),
    *(
        {"a": 1},
        {"__float__": "Infinity"},
        [1] * 1000,
        {"set": {}},
        {"model_type": "llama"},
        {"model": "gpt2"},
    ),
]
TYPES = [
    "llama",
    "gpt2",
    "mixtral",
    "t5",
    "bert",
    "mamba",
    "deepseek_v3",
    "gemma3",
    "llava",
    "whisper",
    "zamba2",
]
# Seconds of a processor after which the service would have given up, and a person too.
SOON = 20


class Late(BaseException):
    """An answer that takes longer than anybody waits."""


@contextlib.contextmanager
def soon(seconds: float = SOON) -> Iterator[None]:
    """End what takes longer, in a place where no code that catches errors catches it."""

    def late(*_: object) -> None:
        raise Late

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@cache
def options_of(name: str) -> list[click.Option]:
    """The options of a command, but for those that write a file or ask the network."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return [
        option
        for option in command.params
        if isinstance(option, click.Option)
        and not {"hub", "output", "out", "plot"} & set(option.name.split("_"))
    ]


def any_line(chance: random.Random) -> list[str]:
    """The words after `sizer`: a line that is answered, with a few words spoilt."""
    if chance.random() < 0.2:
        words = [chance.choice(sorted(set(COMMANDS) - LEFT_OUT))]
    else:
        words = shlex.split(chance.choice(LINES))
    for _ in range(chance.choice((0, 1, 1, 2, 3, 5))):
        words = [words[0], *_spoilt(chance, words[1:], words[0])]
    return words + ["--json"] * (chance.random() < 0.3)


def _spoilt(chance: random.Random, words: list[str], command: str) -> list[str]:
    at = chance.randrange(len(words) + 1)
    how = chance.randrange(7)
    if how == 0 or not words:
        return [*words[:at], chance.choice(WORDS), *words[at:]]
    if how == 1 and (options := options_of(command)):
        option = chance.choice(options)
        more = [chance.choice([*option.opts, *option.secondary_opts])]
        if not option.is_flag and not option.count:
            more.append(chance.choice([*WORDS, *map(str, getattr(option.type, "choices", ()))]))
        return [*words[:at], *more, *words[at:]]
    at = chance.randrange(len(words))
    if how == 2:
        return [*words[:at], chance.choice(WORDS), *words[at + 1 :]]
    if how == 3:
        return [*words[:at], *words[at + 1 :]]
    if how == 4:
        return [*words[:at], *[words[at]] * chance.choice((2, 3, 200)), *words[at + 1 :]]
    if how == 5:
        return [*words[:at], chance.choice(shlex.split(chance.choice(LINES))[1:]), *words[at + 1 :]]
    return [*words[:at], with_a_sign(chance, words[at]), *words[at + 1 :]]


def with_a_sign(chance: random.Random, word: str) -> str:
    """A word with one character more, less, or another."""
    at = chance.randrange(len(word) + 1)
    return word[:at] + chance.choice([*SIGNS, ""]) + word[at + chance.randrange(2) :]


def said(words: list[str]) -> tuple[int | None, str, str]:
    """What a command line answers, in an empty folder; no exit code where it takes too long."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as empty, patch("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{}"))):
        os.chdir(empty)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), soon():
                code: int | None = main(words)
        except Late:
            code = None
        finally:
            os.chdir(before)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return code, *texts


def any_request(chance: random.Random) -> tuple[str, str, str, bytes]:
    """Path below /v1/, query, type and body of a request."""
    path, fields = request(chance.choice(LINES))
    values: dict[str, Any] = {}
    for key, value in fields:
        before = values.get(key)
        values[key] = value if before is None else [*([before] if isinstance(before, str) else before), value]
    if "model" in values and chance.random() < 0.4:
        values["model"] = a_configuration(chance)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        key = chance.choice([*values, *_keys(path), "x", "", "__class__"])
        values[key] = chance.choice([*VALUES, *WORDS])
    if chance.random() < 0.05:
        path = chance.choice(
            [*ENDPOINTS, "presets/" + chance.choice(WORDS), "hardware/" + chance.choice(WORDS)]
        )
    form = chance.random()
    if form < 0.5:
        return path, "", "application/json", spoilt_bytes(chance, as_json(values))
    pairs = [
        (key, value if isinstance(value, str) else as_json(value).decode()) for key, value in values.items()
    ]
    if form < 0.75:
        query = urlencode([(_sent(key), _sent(value)) for key, value in pairs])
        return path, spoilt_bytes(chance, query.encode()).decode("latin-1"), "", b""
    return path, "", *_form(chance, pairs)


def _keys(path: str) -> list[str]:
    return ["model", "set", "class", *(ENDPOINTS[path].options if path in ENDPOINTS else ())]


def _sent(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _form(chance: random.Random, pairs: list[tuple[str, str]]) -> tuple[str, bytes]:
    lines = []
    for key, value in pairs:
        name = b'form-data; name="%b"' % quote_from_bytes(_sent(key)).encode()
        if key == "model":
            name += b'; filename="%b"' % _sent(
                chance.choice(("config.json", "m.safetensors", "../x", *WORDS[:40]))
            )
            value = chance.choice((value, as_json(a_configuration(chance)).decode()))
        lines.append(b"--b\r\ncontent-disposition: %b\r\n\r\n%b\r\n" % (name, _sent(value)))
    kind = chance.choice(
        ('multipart/form-data; boundary="b"', "multipart/form-data; boundary=b", "text/plain", "é;;")
    )
    return kind, spoilt_bytes(chance, b"".join([*lines, b"--b--\r\n"]))


def a_configuration(chance: random.Random) -> dict[str, Any]:
    """A model type's own values, a few of them spoilt."""
    record = record_of(chance.choice(TYPES))
    config = {"model_type": record["model_type"], **record["defaults"]}
    for _ in range(chance.choice((0, 1, 2, 5))):
        config[chance.choice([*config, "architectures", "quantization_config", "x"])] = chance.choice(
            [*VALUES, *WORDS, *config.values()]
        )
    return config


def as_json(value: object) -> bytes:
    """JSON, with the marked numbers as they are."""
    text = json.dumps(value)
    return text.replace('"@', "").replace('@"', "").encode()


def spoilt_bytes(chance: random.Random, data: bytes) -> bytes:
    """Bytes with a few of them changed, in one of five."""
    out = bytearray(data)
    for _ in range(chance.choice((0, 0, 0, 0, 0, 0, 0, 0, 1, 3))):
        at = chance.randrange(len(out) + 1)
        out[at : at + chance.randrange(3)] = chance.choice(
            (
                b"",
                b"\0",
                b"\xff",
                b'"',
                b"{" * 2000,
                b"[",
                b",",
                b"&",
                b"%",
                b"\\u0000",
                b"\\ud800",
                b"1e999",
                b"\r\n",
            )
        )
    return bytes(out)


def answered(path: str, query: str, kind: str, body: bytes) -> tuple[int | None, str, str]:
    """Status, type and text of an answer; no status where it takes too long."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        try:
            with contextlib.redirect_stderr(io.StringIO()), soon():
                found = answers.answer(path, query, kind, body)
                text = found.text if isinstance(found.text, bytes) else b"".join(found.text)
        except Late:
            return None, "", ""
        finally:
            os.chdir(before)
    return found.status, found.kind, text.decode()
