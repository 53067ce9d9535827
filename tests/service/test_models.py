"""What a request may say about its model, worked out in this process."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from sizer.service import answers

Parts = list[tuple[str, str | None, bytes]]
LLAMA = json.dumps({"model_type": "llama", "num_hidden_layers": 2}).encode()


def header(n: int, *, whole: bool = False) -> bytes:
    """A safetensors file of `n` weights in fp32, or its header alone."""
    text = json.dumps({"w": {"dtype": "F32", "shape": [n], "data_offsets": [0, 4 * n]}}).encode()
    return struct.pack("<Q", len(text)) + text + (bytes(4 * n) if whole else b"")


def form(parts: Parts) -> bytes:
    lines = []
    for name, filename, data in parts:
        named = f'; filename="{filename}"' if filename is not None else ""
        lines.append(
            f'--b\r\ncontent-disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + data + b"\r\n"
        )
    return b"".join([*lines, b"--b--\r\n"])


def sent(path: str, parts: Parts | None = None, **values: Any) -> tuple[int, dict[str, Any]]:
    if parts is not None:
        found = answers.answer(path, "", "multipart/form-data; boundary=b", form(parts))
    else:
        found = answers.answer(path, "", "application/json", json.dumps(values).encode())
    text = found.text if isinstance(found.text, bytes) else b"".join(found.text)
    return found.status, json.loads(text.splitlines()[0] if found.kind == answers.LINES else text)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def total(found: tuple[int, dict[str, Any]]) -> int:
    status, document = found
    assert status == 200, document
    return int(document["params"]["total"])


def test_a_configuration_as_a_file_and_as_an_object_are_the_same() -> None:
    config = json.loads(LLAMA)
    one = total(sent("count", [("file", "config.json", LLAMA)]))

    assert one == total(sent("count", model=config))
    assert total(sent("count", [("file", "../../x", LLAMA), ("set", None, b"n_layers=4")])) == total(
        sent("count", model=config, set={"n_layers": 4})
    )
    assert total(sent("count", model=config, set=["n_layers=4", "vocab_size=100"])) == total(
        sent("count", model=config, set={"n_layers": 4, "vocab_size": 100})
    )


def test_the_header_of_a_file_stands_for_the_file(tmp_path: Path) -> None:
    for data in (header(1000), header(1000, whole=True)):
        assert total(sent("count", [("file", "m.safetensors", data)])) == 1000
    at = len(header(1000, whole=True))
    assert (
        total(sent("count", [("file", "m.safetensors", header(1000)), ("size", None, str(at).encode())]))
        == 1000
    )
    status, document = sent("tensors", [("file", "m.safetensors", header(3))])
    assert status == 200
    assert [(t["name"], t["shape"]) for t in document["tensors"]] == [("w", [3])]
    assert list(tmp_path.iterdir()) == []


CHECKPOINT = ("file", "m.safetensors", header(10))
WRONG: list[tuple[str, Parts | None, dict[str, Any], str]] = [
    ("count", [CHECKPOINT, ("size", None, b"5")], {}, "is not the bytes of the whole file"),
    ("count", [CHECKPOINT, ("size", None, b"x")], {}, "is not the bytes of the whole file"),
    ("count", [CHECKPOINT, ("set", None, b"n_layers=3")], {}, "has tensors and no formula"),
    ("count", [CHECKPOINT, ("class", None, b"GPT2Model")], {}, "has tensors and no formula"),
    ("flops", [CHECKPOINT], {}, "has tensors and no formula"),
    ("count", [CHECKPOINT, ("model", None, b"gpt2")], {}, "both name a model; give one"),
    ("count", [CHECKPOINT, CHECKPOINT], {}, "the form has two files; send one"),
    ("scaling", [("file", "c.json", LLAMA)], {}, "this endpoint takes no file"),
    ("count", [("model", None, b"\xff")], {}, "is not text"),
    ("count", None, {"model": 3}, "is neither the name of a preset nor a configuration"),
    ("count", None, {}, "name one model"),
    ("count", None, {"model": "gpt2", "class": 3}, "class = 3 is no name of a class"),
    ("count", None, {"model": "gpt2", "set": [3]}, "is not of the form KEY=VALUE"),
    ("count", None, {"model": "gpt2", "set": ["n_layers=3", "n_layers=4"]}, "n_layers is set twice"),
    ("count", None, {"model": "gpt2", "dept": 3}, "no option named 'dept'"),
    ("compare", None, {"models": ["gpt2", {"model": "gpt2", "set": {}, "x": 1}]}, "no key named 'x'"),
    (
        "solve",
        None,
        {"model": "gpt2", "params": "1B", "for": "n_layers", "tied": "maybe"},
        "is not true or false",
    ),
    (
        "flops",
        None,
        {"model": "gpt2", "seq-len": 3, "seq_len": 4},
        "contradicts another option, or is given twice",
    ),
    ("flops", None, {"model": "gpt2", "seq_len": True}, "is neither a number nor a word"),
]


@pytest.mark.parametrize(("path", "parts", "values", "words"), WRONG, ids=[row[3][:40] for row in WRONG])
def test_what_is_wrong_is_said(path: str, parts: Parts | None, values: dict[str, Any], words: str) -> None:
    status, document = sent(path, parts, **values)

    assert status in (400, 404, 422)
    assert words in document["detail"]


def test_models_that_say_what_differs() -> None:
    status, document = sent(
        "compare",
        models=["gpt2-small", "gpt2-small:n_layers=24", {"model": "gpt2-small", "set": {"n_layers": 36}}],
    )

    assert status == 200
    assert document["model"] == [
        "gpt2-small",
        "gpt2-small:n_layers=24",
        "gpt2-small:n_layers=36",
    ]


def test_a_query_says_the_same() -> None:
    query = urlencode({"model": "gpt2-small", "tied": "", "params": "1B", "for": "n_layers"})
    asked = answers.answer("solve", query, "", b"")

    assert asked.status == 200
    assert answers.answer("nothing", "", "", b"").status == 404
    for text in ("a=%ff", "&".join(["a=1"] * 501)):
        assert answers.answer("count", text, "", b"").status == 400
    assert answers.answer("count", "model=gpt2", "application/json", b'{"model": "gpt2"}').status == 400
    assert answers.answer("count", "", "text/plain", b"x").status == 415
    for body in (b"no form", b"--b\r\nx\r\n--b--", b"--b\r\na: b\r\n\r\nx\r\n--b--"):
        assert answers.answer("count", "", "multipart/form-data; boundary=b", body).status == 400
    assert answers.answer("count", "", "multipart/form-data", b"x").status == 400
