"""Each thing that a `sizer.toml` may say wrongly, and the sentence about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

HEAD = '[[model]]\npreset = "gpt2-small"\n'
FILE = '[[model]]\ncheckpoint = "m.safetensors"\n'
WRONG = [
    (HEAD + "components = 3\n", "components is 3, and not a table such as"),
    (HEAD + "limits = 3\n", "limits is 3, and not a list such as"),
    (HEAD + "set = 3\n", "set is 3, and not a table such as"),
    (HEAD + "kv_cache = 3\n", "kv_cache is 3, and not a table such as"),
    (
        FILE + "kv_cache = { seq_len = 8 }\n",
        "kv_cache follows from an architecture, which a checkpoint does not have",
    ),
    (
        FILE + 'weights = { dtype = "bf16" }\n',
        "weights.dtype contradicts checkpoint, whose tensors have their types",
    ),
    (FILE + 'class = "GPT2Model"\n', "class contradicts checkpoint, which has its sizes already"),
    (HEAD + "weights = { bytes = 3 }\n", "weights needs the type they are kept in"),
    (HEAD + "kv_cache = { bytes = 3 }\n", "kv_cache needs the length of its run"),
    (HEAD + "kv_cache = { seq_len = 8, tokens = 3 }\n", "no key named 'tokens'"),
    (HEAD + "components = { nrom = 3 }\n", "no component named 'nrom'; did you mean 'norm'?"),
    (HEAD + "class = 3\n", "class is 3, and not a name in quotes"),
    (HEAD + 'name = " "\n', "name is ' ', and not a name in quotes"),
    (HEAD + "limits = ['weights.bytes <= 8e9']\n", "needs its run: weights = {"),
    (HEAD + "limits = ['kv_cache.bytes <= 8e9']\n", "needs its run: kv_cache = {"),
    (HEAD + "limits = ['parms <= 8e9']\n", "parms"),
    (HEAD + "limits = ['components.atention <= 8e9']\n", "'components.atention'; did you mean"),
    (FILE + "components = { atention = 3 }\n", "no component named 'atention'; did you mean 'attention'?"),
    (HEAD * 10_001, "lists 10,001 models, and at most 10,000"),
    (HEAD + 'config = "x.json"\n', "preset and config contradict; a model has one of"),
    ("[[model]]\nparams = 3\n", "a model has one of preset, config, checkpoint, factory"),
    (HEAD + "parms = 3\n", "no key named 'parms'; did you mean 'params'?"),
    ("model = [3]\n", "a model is a table of keys, not 3"),
    ("lock = 3\n" + HEAD, "lock is 3, and not true or false"),
    ("model = 3\n", "lists no models; begin with"),
    ("model = []\n", "lists no models; begin with"),
]


@pytest.mark.parametrize(("text", "words"), WRONG, ids=[words[:50] for _, words in WRONG])
def test_what_is_wrong_in_the_file_is_named(sizer_cli: Run, tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "sizer.toml"
    path.write_text(text)

    code, out, err = sizer_cli("check", "--config", str(path))

    assert code == 2
    assert words in out + err


def test_a_file_that_is_not_there(sizer_cli: Run, tmp_path: Path) -> None:
    code, _, err = sizer_cli("check", "--config", str(tmp_path / "none.toml"))
    assert (code, "there is no file" in err) == (2, True)

    (tmp_path / "pyproject.toml").write_text("[tool]\nsizer = 3\n")
    code, _, err = sizer_cli("check", "--config", str(tmp_path / "pyproject.toml"))
    assert (code, "sizer is 3, and not a table" in err) == (2, True)


def test_a_folder_stands_for_its_file(sizer_cli: Run, tmp_path: Path) -> None:
    (tmp_path / "sizer.toml").write_text("lock = false\n" + HEAD + "params = 124_439_808\n")

    assert sizer_cli("check", "--config", str(tmp_path))[0] == 0


@pytest.mark.parametrize("form", ["github", "json", "junit", "text"])
def test_every_form_names_what_is_over_a_limit(sizer_cli: Run, tmp_path: Path, form: str) -> None:
    path = tmp_path / "sizer.toml"
    path.write_text("lock = false\n" + HEAD + "params = 124_439_807\nlimits = ['params <= 1e8']\n")

    code, out, _ = sizer_cli("check", "--config", str(path), "--format", form)

    assert code == 1
    assert "<= 1e8" in out or "&lt;= 1e8" in out
    assert "124,439,808" in out or "124439808" in out
