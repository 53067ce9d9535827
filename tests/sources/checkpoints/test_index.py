"""`model.safetensors.index.json`, as JSON allows it to be written and as nobody should write it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from making import Entry, safetensors, sharded

import sizer

CLI = Callable[..., tuple[int, str, str]]
FILE = "model-00001-of-00001.safetensors"
# Names that JSON writes with escapes, and one with what ends an object.
NAMES = ["é.weight", "a\nb.weight", 'a"b.weight', "a\\b.weight", "\U0001f600.weight", "a}b.weight", "c"]


def write(folder: Path, text: str) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(text)
    return path


@pytest.mark.parametrize("ascii", [True, False], ids=["escapes", "as it is"])
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_mean_the_same_with_escapes_and_without(tmp_path: Path, name: str, ascii: bool) -> None:
    tensors: dict[str, Entry] = {name: ("F32", [2, 3]), "norm.weight": ("F32", [3])}
    safetensors(tmp_path / FILE, tensors)
    text = json.dumps({"metadata": {}, "weight_map": dict.fromkeys(tensors, FILE)}, ensure_ascii=ascii)

    found = sizer.load_checkpoint(write(tmp_path, text))

    assert (found.count().total, found.problems, found.missing) == (9, [], [])
    assert {t.name for t in found.stored} == set(tensors)


def test_every_name_may_be_written_in_escapes(tmp_path: Path) -> None:
    tensors: dict[str, Entry] = {"a.weight": ("F32", [2]), "b.weight": ("F32", [3])}
    safetensors(tmp_path / FILE, tensors)

    whole = write(tmp_path, f'{{"weight_map": {{"\\u0061.weight": "{FILE}", "b\\u002eweight": "{FILE}"}}}}')
    assert sizer.load_checkpoint(whole).problems == []

    file = FILE.replace("-", "\\u002d")
    whole = write(tmp_path, f'{{"weight_map": {{"a.weight": "{file}", "b.weight": "{file}"}}}}')
    assert sizer.load_checkpoint(whole).problems == []


@pytest.mark.parametrize("more", ["\u00e9\n", '"}'], ids=["escapes", "quotes and braces"])
def test_an_index_of_the_most_tensors_is_read_in_a_second(tmp_path: Path, more: str) -> None:
    names = [f"model.layers.{i // 1000}.mlp.experts.{i % 1000}.up_proj{more}.weight" for i in range(299_000)]
    index = write(tmp_path, json.dumps({"weight_map": dict.fromkeys(names, FILE)}, indent=2))
    start = time.process_time()

    found = sizer.load_checkpoint(index)

    # 0.4 and 0.9 seconds; the bound leaves room for other work of the machine.
    assert time.process_time() - start < 4
    assert [(m.file, m.tensors) for m in found.missing] == [(FILE, 299_000)]


MAP = f'{{"a.weight": "{FILE}"}}'
REFUSED: dict[str, tuple[str, str]] = {
    "no map": ('{"metadata": {}, "weights": {}}', "has no weight_map"),
    "two maps": (f'{{"weight_map": {MAP}, "weight_map": {MAP}}}', "the key 'weight_map' twice"),
    "one name in two spellings": (
        f'{{"weight_map": {{"a.weight": "{FILE}", "\\u0061.weight": "{FILE}"}}}}',
        "the key 'a.weight' twice",
    ),
    "half of a pair": (f'{{"weight_map": {{"\\ud83d": "{FILE}"}}}}', "not UTF-8"),
    "no escape of JSON": (f'{{"weight_map": {{"\\x61": "{FILE}"}}}}', "escape that JSON has not"),
    "a text that does not end": (f'{{"weight_map": {{"a\\": "{FILE}"}}}}', "no pair of two texts"),
    "a line break in a text": (f'{{"weight_map": {{"a\n": "{FILE}"}}}}', "no pair of two texts"),
    "a number for a file": ('{"weight_map": {"a.weight": 1}}', "no pair of two texts"),
    "a long name": (f'{{"weight_map": {{"{"}" * 5000}": "{FILE}"}}}}', "a key of over 4,096 bytes"),
    "a file of another folder": ('{"weight_map": {"a.weight": ".."}}', "not beside it"),
    "many files": (
        json.dumps({"weight_map": {f"{i}": f"{i}.safetensors" for i in range(10_001)}}),
        "names 10,001 files, over 10,000",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_index_is_refused(tmp_path: Path, sizer_cli: CLI, case: str) -> None:
    text, said = REFUSED[case]

    code, out, err = sizer_cli("count", str(write(tmp_path, text)))

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_an_index_of_over_fifty_megabytes_is_refused(tmp_path: Path) -> None:
    index = write(tmp_path, "{")
    with index.open("r+b") as file:
        file.truncate(50_000_001)

    with pytest.raises(sizer.SizerError, match="too large for an index"):
        sizer.load_checkpoint(index)


def test_a_stated_size_that_is_not_that_of_the_tensors_is_remarked(tmp_path: Path) -> None:
    """As transformers writes it: parameters of 24 bytes, though a buffer of 8 is stored with them."""
    tensors: dict[str, Entry] = {"a.weight": ("F32", [6]), "a.position_ids": ("I64", [1])}
    index = sharded(tmp_path / "m", [tensors], total_size=24)

    found = sizer.load_checkpoint(index)

    assert (found.count().total, found.complete) == (6, True)
    assert found.remarks == [f"{index.name} states a total_size of 24 bytes; its tensors take 32"]


@pytest.mark.parametrize("extra", [{"about": [1, {"a": None}]}, {"metadata": "none"}, {}], ids=str)
def test_what_else_an_index_holds_does_not_matter(tmp_path: Path, extra: dict[str, Any]) -> None:
    index = sharded(tmp_path / "m", [{"a.weight": ("F32", [6])}])
    values = json.loads(index.read_text())
    index.write_text(json.dumps({**values, **extra}))

    assert sizer.load_checkpoint(index).count().total == 6
