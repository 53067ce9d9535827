"""Files that are dropped on the page: configurations, weights, and those that mean harm."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from service.browsing import LLAMA, Open, number

Run = Callable[..., tuple[int, str, str]]


def safetensors(tensors: dict[str, list[int]], weights: bytes | None = None) -> bytes:
    """A file of float32 tensors; `weights` stand for their bytes."""
    at, header = 0, {}
    for name, shape in tensors.items():
        size = 4
        for axis in shape:
            size *= axis
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + (bytes(at) if weights is None else weights)


def gguf(tensors: dict[str, list[int]]) -> bytes:
    """A GGUF file (version 3) of float32 tensors with keys of every width, by its specification."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.block_count") + struct.pack("<II", 4, 2),
        text("general.flag") + struct.pack("<IB", 7, 1),
        text("general.scale") + struct.pack("<Id", 12, 0.5),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 1000) + text("token") * 1000,
        text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, 1000) + bytes(4000),
    ]
    at, infos = 0, b""
    for name, shape in tensors.items():
        # Axes are written innermost first; a tensor begins at a multiple of 32 bytes.
        infos += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        infos += struct.pack("<IQ", 0, at)
        size = 4
        for axis in shape:
            size *= axis
        at += -(-size // 32) * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + infos
    return head + bytes(-len(head) % 32) + bytes(at)


def test_of_a_gguf_file_only_the_header_is_sent(visit: Open, sizer_cli: Run, tmp_path: Path) -> None:
    shapes = {"token_embd.weight": [1000, 64], "blk.0.attn_q.weight": [64, 64], "output_norm.weight": [64]}
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf(shapes))
    here = visit().open("#model=gpt2-small&tab=memory")

    here.drop(file.name, file.read_bytes())
    here.total(1000 * 64 + 64 * 64 + 64)

    assert number(sizer_cli, str(file)) == 1000 * 64 + 64 * 64 + 64
    assert here.page.get_attribute("#tab-params", "aria-selected") == "true"
    assert here.page.locator(".treemap [aria-label*='token_embd']").count() == 1
    # The keys take some 17 kB, the weights 272 kB.
    assert 17_000 < max(here.posted) < 20_000
    # Cut off in the middle of its keys, it is still no more than an error.
    here.drop("cut.gguf", file.read_bytes()[:9_000])
    here.page.locator("#problem").filter(has_text="GGUF").wait_for()
    here.choose("gpt2-small")
    here.total(number(sizer_cli, "gpt2-small"))


def test_a_config_is_dropped_or_pasted(visit: Open, sizer_cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    here = visit().open()

    here.drop("config.json", file.read_bytes())
    here.total(number(sizer_cli, str(file)))
    here.page.click(".own summary")
    here.page.fill("#config", json.dumps({**LLAMA, "num_hidden_layers": 11}))
    here.total(number(sizer_cli, str(file), "--set", "num_hidden_layers=11"))


def test_of_a_file_of_weights_only_the_header_is_sent(visit: Open, sizer_cli: Run, tmp_path: Path) -> None:
    shapes = {"wte.weight": [1000, 64], **{f"h.{i}.w": [64, 256] for i in range(4)}, "ln.bias": [64]}
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors(shapes))
    here = visit().open()

    here.drop(file.name, file.read_bytes())
    here.total(number(sizer_cli, str(file)))

    assert len(here.posted) == 2
    assert 0 < max(here.posted) < 2_000 < file.stat().st_size
    # No link holds the file; one that is opened says so.
    there = visit().open(here.copied("link"))
    there.page.locator("#problem").filter(has_text=file.name).wait_for()


EVIL = '<img src=x onerror="window.evil=1"><script>window.evil=1</script>'
HOSTILE = [
    ("a name that is markup", f"{EVIL}.json", json.dumps({"model_type": EVIL}).encode(), "img src"),
    ("no JSON", "config.json", b'{"model_type": "llama"', "JSON"),
    ("another key in the body", "config.json", b'{"model_type": "llama"}, "x": {"a": 1}', "JSON"),
    ("deep JSON", "config.json", b'{"a":' * 5000 + b"1" + b"}" * 5000, "deep"),
    ("a picture", "model.png", b"\x89PNG\r\n\x1a\n" + bytes(2000), "not sent"),
    ("a header without end", "a.safetensors", struct.pack("<Q", 1 << 50) + b"{}", "not sent"),
    ("a GGUF of nonsense", "a.gguf", b"GGUF" + b"\xff" * 400, "GGUF"),
    ("tensors beyond the file", "b.safetensors", safetensors({"w": [4, 4]}, b"1"), ""),
    ("remote code", "config.json", b'{"model_type": "x", "auto_map": {"AutoModel": "a.py--B"}}', ""),
]


@pytest.mark.parametrize(("name", "data", "part"), [r[1:] for r in HOSTILE], ids=[r[0] for r in HOSTILE])
def test_a_hostile_file_gets_a_sentence(
    visit: Open, sizer_cli: Run, name: str, data: bytes, part: str
) -> None:
    here = visit().open()

    here.drop(name, data)
    said = here.page.locator("#problem")
    if part:
        said.filter(has_text=part).wait_for()
    else:
        here.page.wait_for_function(
            "() => !document.getElementById('problem').hidden"
            " || document.getElementById('total').textContent === '16'"
        )

    assert here.page.evaluate("window.evil") is None
    assert here.page.locator("#model-name img, #problem img").count() == 0
    here.choose("gpt2-small")
    here.total(number(sizer_cli, "gpt2-small"))
