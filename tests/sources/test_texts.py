"""Texts from outside: what is read in spite of its faults, and what is refused, and where."""

from __future__ import annotations

import json
import time
from pathlib import Path
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


def test_a_value_that_holds_itself_is_refused() -> None:
    # No file can, but Python can; of each level there are 2,300 times as many things.
    values: dict[str, Any] = {"model_type": "llama"}
    values["a"] = [values] * 2_300
    with pytest.raises(sizer.SizerError, match="nested over 100 levels deep"):
        sizer.load(values)


FOLDERS: list[tuple[str, dict[str, bytes], str]] = [
    (
        "over 32 MB",
        {"config.json": b" " * 32_000_001},
        "over 32,000,000 bytes, too large for a configuration",
    ),
    ("neither", {"README.md": b""}, "without a config.json and without weights"),
    (
        "a pointer without a size",
        {"config.json": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n"},
        "the file itself was not downloaded",
    ),
    ("weights alone", {"config.toml": b"a"}, "without a config.json"),
    ("comments alone", {"model_config.yaml": b"# nothing\n---\n"}, "null, not an object"),
]


@pytest.mark.parametrize(("files", "said"), [row[1:] for row in FOLDERS], ids=[row[0] for row in FOLDERS])
def test_folders_without_a_model(tmp_path: Path, sizer_cli: Any, files: dict[str, bytes], said: str) -> None:
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)

    code, out, err = sizer_cli("count", str(tmp_path), "-q")

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_text_of_comments_is_no_yaml() -> None:
    with pytest.raises(sizer.SizerError, match="not valid JSON"):
        from_text("# nothing\n\n--- \n", name="standard input")


def test_a_folder_is_no_checkpoint_and_no_model(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("nothing")
    with pytest.raises(sizer.SizerError, match=r"without a config\.json"):
        sizer.load(tmp_path)


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


def test_a_key_that_is_nobodys_spelling_is_listed() -> None:
    model = sizer.load({"model_type": "llama", "hidden_size_" * 6: 3})
    assert model.unknown_keys == ["hidden_size_" * 6]


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


def test_the_type_of_a_text_part_may_be_that_of_its_whole() -> None:
    # transformers' PerceptionLMConfig makes its text_config a LlamaConfig.
    model = sizer.load({"model_type": "perception_lm", "text_config": {"num_hidden_layers": 32}})
    assert model.count().total == LLAMA
    assert any("text part alone: text_config, a llama" in line for line in model.assumptions)


def test_a_class_of_one_type_alone_stands_for_the_type() -> None:
    # BERT's first files have no model_type: bert-base-uncased has 109,514,298 parameters with its head.
    assert sizer.load({"architectures": ["BertForMaskedLM"]}).count().total == 109_514_298


def test_a_part_may_carry_the_type_of_its_whole() -> None:
    # As files of CLIP before `clip_vision_model` and `clip_text_model` had names of their own.
    parts = {"vision_config": {"model_type": "clip"}, "text_config": {"model_type": "clip"}}
    config = {"model_type": "clip", "architectures": ["CLIPModel"], **parts}
    assert sizer.load(config).count().total == 151_277_313


@pytest.mark.parametrize("part", ["clip_vision_model", "clip"])
def test_a_tower_may_carry_the_type_of_both(part: str) -> None:
    # The tower of LLaVA 1.5; "clip" is the type of what holds a tower for texts as well.
    tower = {
        "model_type": part, "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
        "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14,
    }  # fmt: skip
    text = {"model_type": "llama", "vocab_size": 32_064}
    config = {"model_type": "llava", "vision_config": tower, "text_config": text, "image_token_index": 32_000}

    # The published files hold 7,063,427,072.
    assert sizer.load(config).count().total == 7_063_427_072


@pytest.mark.parametrize(("tied", "head"), [(True, 0), (False, 32_000 * 4096)])
def test_what_the_whole_says_of_ties_holds_for_its_text(tied: bool, head: int) -> None:
    config = {
        "model_type": "nobody_knows",
        "tie_word_embeddings": tied,
        "text_config": {"model_type": "llama"},
    }
    assert sizer.load(config).count().total == LLAMA - 32_000 * 4096 + head


def test_unknown_text_part_is_refused() -> None:
    with pytest.raises(sizer.SizerError, match="nobody_knows"):
        sizer.load({"model_type": "nobody_knows", "text_config": {"model_type": "nor_this"}})
