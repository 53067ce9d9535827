"""Every option of every endpoint, as a request and on the command line: the same document."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from lines import LINES, request

from sizer.service import answers
from sizer.service.endpoints import ENDPOINTS, find

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("line", LINES)
def test_a_request_is_its_command_line(sizer_cli: Run, line: str) -> None:
    path, fields = request(line)
    code, out, err = sizer_cli(*shlex.split(line), "--json")
    found = answers.answer(path, urlencode(fields), "", b"")
    text = found.text if isinstance(found.text, bytes) else b"".join(found.text)

    assert code in (0, 1), err
    assert (found.status, found.exit_code) == (200, code)
    assert text.decode() == out


# What a query cannot say: nothing, true and false, words by name.
BODIES = [
    (
        "kv-cache",
        {"model": "llama-3-8b", "seq_len": 8192, "draft": None},
        "kv-cache llama-3-8b --seq-len 8192",
    ),
    ("flops", {"model": "gpt2-small", "explain": True, "batch_size": None}, "flops gpt2-small --explain"),
    ("flops", {"model": "gpt2-small", "explain": False}, "flops gpt2-small"),
    ("sweep", {"model": "gpt2-small", "axes": {"n_layers": "6:12:6"}}, "sweep gpt2-small n_layers=6:12:6"),
]


@pytest.mark.parametrize(("path", "body", "line"), BODIES)
def test_a_body_is_its_command_line(sizer_cli: Run, path: str, body: dict[str, object], line: str) -> None:
    found = answers.answer(path, "", "application/json", json.dumps(body).encode())
    text = found.text if isinstance(found.text, bytes) else b"".join(found.text)

    assert (found.status, text.decode()) == (200, sizer_cli(*line.split(), "--json")[1])


def test_more_models_than_are_read() -> None:
    found = answers.answer("compare", "", "application/json", b'{"models": [%s"gpt2"]}' % (b'"gpt2",' * 100))

    assert found.status == 422
    assert b"101 models; at most 100" in bytes(found.text)


def test_more_lines_than_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_LINES", 20)
    found = answers.answer("tensors", "model=gpt2-small&expand=true", "", b"")
    lines = [json.loads(line) for line in found.text]

    assert [line.get("name") for line in lines[:2]] == ["transformer.wte.weight", "transformer.wpe.weight"]
    assert len(lines) == 21
    assert "cut off after 20 lines" in lines[-1]["detail"]


def test_no_option_is_left_out() -> None:
    asked = {name: set() for name in ENDPOINTS}
    for path, fields in map(request, LINES):
        found = find(path)
        assert found is not None
        asked[found[0]] |= {key for key, _ in fields} | set(found[2])

    left = {name: set(one.options) - asked[name] for name, one in ENDPOINTS.items()}
    assert {name: keys for name, keys in left.items() if keys} == {}
