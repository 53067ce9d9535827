"""Texts from outside: what is read in spite of its faults, and what is refused, and where."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

import sizer
from sizer.loading import from_bytes, from_text
from sizer.sources.json_text import parse_object

LLAMA = 6_738_415_616

READ = [
    ("bom", b'\xef\xbb\xbf{"model_type": "llama"}'),
    ("nan", b'{"model_type": "llama", "rope_theta": NaN}'),
    ("infinity", b'{"model_type": "llama", "rope_theta": -Infinity}'),
    ("float", b'{"model_type": "llama", "limit": [0.0, {"__float__": "Infinity"}]}'),
    ("null", b'{"model_type": "llama", "head_dim": null}'),
]

BAD = [
    ("empty", "", "x.json", ["Expecting value".lower(), "line 1"]),
    ("comma", '{"a": 1,}', "x.json", ["line 1, column"]),
    ("stop", '"do_sample": true. "x"', "standard input", ["line 1, column 12"]),
    ("list", "[1]", "x.json", ["a list"]),
    ("number", "1", "x.json", ["a number"]),
    ("duplicate", '{"a": 1,\n"a": 2}', "x.json", ["'a' twice", "line 2"]),
    ("deep", '{"a": ' + "[" * 200 + "]" * 200 + "}", "x.json", ["100 levels"]),
    ("deeper", "[" * 200_000, "x.json", ["too deeply"]),
    ("digits", '{"a": ' + "9" * 5000 + "}", "x.json", ["too many digits"]),
    ("surrogate", '{"model_type": "\\ud800"}', "x.json", ["no model type"]),
    ("many", json.dumps({f"k{i}": 1 for i in range(50_000)}), "x.json", ["50,000 keys"]),
    ("yaml-alias", "a: &a [1]\nb: *a\n", "x.yaml", ["alias", "line 2"]),
    ("yaml-merge", "a: &a {x: 1}\nb: {<<: *a}\n", "x.yaml", ["alias"]),
    ("yaml-duplicate", "a: 1\na: 2\n", "x.yaml", ["'a' twice", "line 2"]),
    ("yaml-tag", "a: !!python/object/apply:os.system [id]\n", "x.yaml", ["constructor", "line 1"]),
    ("yaml-list", "- 1\n", "x.yaml", ["a list"]),
    ("yaml-key", "1: 2\n", "x.yaml", ["the key 1"]),
    ("yaml-deep", "a: " + "[" * 5000, "x.yaml", ["too deeply"]),
    ("yaml-digits", "a: " + "9" * 5000, "x.yaml", ["cannot be read"]),
    ("yaml-date", "a: 2021-99-99\n", "x.yaml", ["cannot be read"]),
    ("yaml-long", "a: " + "b" * 2_000_000, "x.yaml", ["too large"]),
    ("yaml-two", "---\na: 1\n---\nb: 2\n", "x.yaml", ["another document", "line 3"]),
]


@pytest.mark.parametrize("data", [row[1] for row in READ], ids=[row[0] for row in READ])
def test_read(data: bytes) -> None:
    assert from_bytes(data, name="x.json").count().total == LLAMA


@pytest.mark.parametrize(("text", "name", "fragments"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad(text: str, name: str, fragments: list[str]) -> None:
    start = time.process_time()
    with pytest.raises(sizer.SizerError) as caught:
        from_text(text, name=name)
    assert time.process_time() - start < 5
    message = str(caught.value)
    assert len(message) < 1200
    assert "\n" not in message
    message.encode()
    for fragment in fragments:
        assert fragment in message


def test_numbers_of_transformers() -> None:
    values = parse_object('{"a": {"__float__": "-Infinity"}, "b": {"__float__": "x"}}', "x")
    assert values == {"a": float("-inf"), "b": {"__float__": "x"}}


def test_without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(sizer.SizerError, match=r"model-sizer\[yaml\]"):
        from_text("n_layer: 12\n", name="x.yaml")


SIZES = [
    ("hidden_size", value)
    for value in ("4096", 4096.5, 1e300, float("nan"), True, [4096], {}, -1, 0, 10**16, 10**5000)
]


@pytest.mark.parametrize(
    ("key", "value"),
    [*SIZES, ("num_hidden_layers", 10**9), ("vocab_size", "x")],
    ids=lambda value: type(value).__name__,
)
def test_wrong_sizes(key: str, value: Any) -> None:
    with pytest.raises(sizer.SizerError, match=f"{key}|d_model"):
        sizer.load({"model_type": "llama", key: value})


@pytest.mark.parametrize(
    ("key", "right"),
    [
        ("hiden_size", "hidden_size"),
        ("hidden_siez", "hidden_size"),
        ("hidden-size", "hidden_size"),
        ("n_layers", "num_hidden_layers"),
        ("d_model", "hidden_size"),
        ("Vocab_Size", "vocab_size"),
    ],
)
def test_misspelt(key: str, right: str) -> None:
    with pytest.raises(sizer.SizerError, match=f"did you mean '{right}'"):
        sizer.load({"model_type": "llama", key: 64})


def test_misspelt_inside() -> None:
    config = {"model_type": "nobody_knows", "text_config": {"model_type": "llama", "hiden_size": 64}}
    with pytest.raises(sizer.SizerError, match=r"text_config: unknown key 'hiden_size'"):
        sizer.load(config)


def test_unknown_keys_are_listed() -> None:
    model = sizer.load({"model_type": "llama", "flavour": "sweet"})
    assert model.unknown_keys == ["flavour"]
    assert model.count().total == LLAMA


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_text_part_of_an_unknown_type(key: str) -> None:
    model = sizer.load({"model_type": "nobody_knows", key: {"model_type": "llama"}, "vision_config": {}})
    assert model.count().total == LLAMA
    assert any("text part alone" in line for line in model.assumptions)


def test_unknown_text_part_is_refused() -> None:
    with pytest.raises(sizer.SizerError, match="nobody_knows"):
        sizer.load({"model_type": "nobody_knows", "text_config": {"model_type": "nor_this"}})
