"""Files of weights, of which the header is enough, and configurations as files."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from service.conftest import Server

Run = Callable[..., tuple[int, str, str]]


def safetensors(*shapes: tuple[str, list[int]]) -> bytes:
    """The header of a file of bf16 tensors, by its format's definition."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes:
        size = 2
        for n in shape:
            size *= n
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def gguf(*shapes: tuple[str, list[int]]) -> bytes:
    """The header of a file of fp16 tensors, version 3."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    out = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), 1)
    out += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    at = 0
    for name, shape in shapes:
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        out += struct.pack("<IQ", 1, at)
        size = 2
        for n in shape:
            size *= n
        at += size + (-size % 32)
    return out + b"\0" * (-len(out) % 32)


SHAPES = (("model.embed_tokens.weight", [32000, 4096]), ("model.norm.weight", [4096]))
NAMED = (("token_embd.weight", [32000, 4096]), ("output_norm.weight", [4096]))
PARAMS = 32000 * 4096 + 4096
FILES = [("model.safetensors", safetensors(*SHAPES)), ("model.gguf", gguf(*NAMED))]


@pytest.mark.parametrize(("name", "data"), FILES, ids=["safetensors", "gguf"])
@pytest.mark.parametrize("command", ["count", "tensors"])
def test_a_header_is_counted_as_the_whole_file(
    server: Server,
    sizer_cli: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    name: str,
    data: bytes,
) -> None:
    monkeypatch.chdir(tmp_path)
    with open(name, "wb") as file:
        file.write(data)
        # The data is a hole.
        file.truncate(len(data) + 2 * PARAMS)
    code, out, _ = sizer_cli(command, name, "--json")
    response = server.client.post(f"/v1/{command}", files={"file": (f"../x/{name}", data)})

    assert (code, response.status_code) == (0, 200)
    assert response.text == out
    if command == "count":
        assert response.json()["params"]["total"] == PARAMS


def test_options_beside_a_file(server: Server) -> None:
    response = server.client.post(
        "/v1/count?depth=1", data={"by": "tensor"}, files={"file": ("m.safetensors", FILES[0][1])}
    )

    assert [row["params"] for row in response.json()["tensors"]] == [32000 * 4096, 4096]


def test_a_file_that_was_cut_off_is_told_by_its_size(server: Server) -> None:
    data = FILES[0][1]
    response = server.client.post(
        "/v1/count", data={"size": str(len(data) + 1000)}, files={"file": ("m.safetensors", data)}
    )

    assert (response.status_code, response.headers["sizer-exit"]) == (200, "1")
    assert response.json()["complete"] is False
    assert "cut off" in response.json()["problems"][0]


def test_a_config_as_a_file(server: Server) -> None:
    config = {"model_type": "gpt2", "n_layer": 24}
    response = server.client.post(
        "/v1/flops", data={"seq_len": "128"}, files={"file": ("config.json", json.dumps(config).encode())}
    )
    same = server.client.post("/v1/flops", json={"model": config, "seq_len": 128})

    assert response.json()["forward"] == same.json()["forward"] > 0


REFUSED = [
    ("a pickle", {"file": ("m.bin", b"\x80\x02}q\x00.")}, {}, 422, "not text"),
    ("a header that lies", {"file": ("m.gguf", b"GGUF" + b"\xff" * 40)}, {}, 422, "m.gguf"),
    ("a header of 2 EB", {"file": ("m", b"\xff\xff\xff\xff\0\0\0\0{}")}, {}, 422, "claims a header"),
    ("half a header", {"file": ("m", FILES[0][1][:60])}, {}, 422, "cut off within its header"),
    ("a file and a model", {"file": ("m", FILES[0][1])}, {"model": "gpt2"}, 422, "give one"),
    ("a checkpoint and set", {"file": ("m", FILES[0][1])}, {"set": "L=2"}, 422, "no formula"),
    ("nothing", {"file": ("m", b"")}, {}, 422, "empty"),
    ("a size of no number", {"file": ("m", FILES[0][1])}, {"size": "-3"}, 422, "size = '-3'"),
]


@pytest.mark.parametrize(
    ("files", "data", "status", "part"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_a_file_that_is_refused(
    server: Server, files: dict[str, tuple[str, bytes]], data: dict[str, str], status: int, part: str
) -> None:
    response = server.client.post("/v1/count", files=files, data=data)

    assert response.status_code == status
    assert part in response.json()["detail"]


def test_a_checkpoint_is_no_model(server: Server) -> None:
    response = server.client.post("/v1/flops", files={"file": ("m.safetensors", FILES[0][1])})

    assert response.status_code == 422
    assert "no formula" in response.json()["detail"]


def test_a_form_that_does_not_end(server: Server) -> None:
    response = server.client.post(
        "/v1/count",
        content=b"--x\r\ncontent-disposition: form-data; name=a\r\n\r\n1",
        headers={"content-type": "multipart/form-data; boundary=x"},
    )

    assert response.status_code == 400
    assert "boundary" in response.json()["detail"]
