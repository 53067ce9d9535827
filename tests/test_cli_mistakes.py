"""What a stranger types, and what the answer says to write instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from repository import ROOT

Run = Callable[..., tuple[int, str, str]]

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 548105171\n"
)

MISTAKES = [
    (["llama-3-8b"], ["no command named 'llama-3-8b'", "sizer count llama-3-8b"]),
    (["gpt2-smal"], ["sizer count gpt2-small"]),
    (["config.json"], ["no command named 'config.json'", "sizer count config.json"]),
    (["help", "count"], ["sizer count --help"]),
    (["version"], ["sizer --version"]),
    (
        ["count", "gpt2", "--n_layers", "12"],
        ["No such option", "--n_layers", ". A size is set with --set n_layers="],
    ),
    (["count", "gpt2", "--hidden-size=12"], ["No such option", "--hidden-size", "--set d_model="]),
    (["count", "gpt2", "-l", "12"], ["No such option", "-l", "--set n_layers="]),
    (["count", "gpt2", "-L"], ["-L sets n_layers", "-L 16"]),
    (["count", "gpt2", "-L", "-q"], ["-L sets n_layers", "-L 16"]),
    (["count", "gpt2", "gpt2-medium"], ["gpt2-medium", "one model at a time", "sizer compare"]),
    (["presets", "list", "tinyllama"], ["--search tinyllama"]),
    (["presets", "list", "--family", "gtp2"], ["no family named 'gtp2'", "'gpt2'"]),
    (["fit", "llama-3-8b"], ["Missing option '--on'", "sizer hardware list"]),
    (["count", "llama3"], ["no preset named 'llama3'", "'llama-3-8b'"]),
    (["size", "gpt2", "--quant", "int4"], ["no format named 'int4'", "'gptq-int4-g"]),
    (["kv-cache", "llama-3-8b", "--budget", "40"], ["--budget 40 has no unit", "40GiB"]),
    (["count", "confg.json"], ["there is no file 'confg.json'", "did you mean 'config.json'"]),
    (["count", "no/such/config.json"], ["there is no file", "there is no folder 'no/such' either"]),
    (["count", "pointer.json"], ["pointer.json is a Git LFS pointer", "548,105,171 bytes", "git lfs pull"]),
    (["count", "cloned"], ["cloned/model.safetensors is a Git LFS pointer", "git lfs pull"]),
    (["count", "half.json"], ["no model_type", "of nanoGPT it lacks n_embd"]),
    (["memory", "whisper-tiny"], ["whisper-tiny: what whisper keeps", "not described yet"]),
    (["memory", "gpt2", "--class", "GPT2Model"], ["a training step needs a loss", "causal or masked"]),
    (["count", "gpt2", "--format", "word"], ["no table format named 'word'", "json, csv, markdown"]),
    (["count", "gpt2", "--json", "--csv"], ["--json and --csv decide the same; give one"]),
    (["count", "gpt2", "-q", "--json"], ["-q and --json decide the same"]),
    (["count", "gpt2", "--format", "markdown", "-q"], ["--format and -q decide the same"]),
    (["formula", "gpt2", "--latex", "--ascii"], ["--latex and --ascii decide the same"]),
    (["check", "--json", "--format", "junit"], ["--json and --format decide the same"]),
]


@pytest.mark.parametrize(("args", "fragments"), MISTAKES, ids=lambda x: " ".join(x)[:60])
def test_a_mistake_is_one_line_that_says_what_to_write(
    sizer_cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], fragments: list[str]
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "half.json").write_text('{"n_layer": 2, "n_head": 2, "block_size": 8}')
    (tmp_path / "pointer.json").write_text(POINTER)
    (tmp_path / "cloned").mkdir()
    (tmp_path / "cloned" / "model.safetensors").write_text(POINTER)
    monkeypatch.chdir(tmp_path)
    code, out, err = sizer_cli(*args)

    assert (code, out) == (2, "")
    assert err.startswith("sizer: ")
    assert err.count("\n") == 1
    for fragment in fragments:
        assert fragment in err


@pytest.mark.parametrize(
    "args", [["--json", "--json"], ["--json", "-v"], ["--tied", "--untied"], ["-q", "-v"]]
)
def test_an_option_may_be_said_again(sizer_cli: Run, args: list[str]) -> None:
    line = ["solve", "gpt2-small", "--params", "124439808", "--for", "n_layers"]

    # Untied, its head is 50257 · 768 more: no number of layers reaches that within a per cent.
    assert sizer_cli(*line, *args)[0] == ("--untied" in args)
    assert sizer_cli("count", "--json", "--csv", "--help")[0] == 0


def test_nothing_at_all_is_answered_with_the_help_on_standard_error(sizer_cli: Run) -> None:
    code, out, err = sizer_cli()

    assert (code, out) == (2, "")
    assert err.startswith("Usage: sizer")
    assert "(sizer --help)" not in err


@pytest.mark.parametrize(
    ("name", "same"),
    [("markdown", ["--format", "github"]), ("md", ["--format", "github"]), ("csv", ["--csv"])],
)
def test_a_form_goes_by_the_names_that_people_give_it(sizer_cli: Run, name: str, same: list[str]) -> None:
    asked = sizer_cli("count", "gpt2-small", "--format", name)

    assert asked == sizer_cli("count", "gpt2-small", *same)
    assert asked[0] == 0


def test_format_json_is_json(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("count", "gpt2-small", "--format", "json")

    assert json.loads(out)["params"]["total"] == 124_439_808


def test_a_model_that_does_not_decode_keeps_nothing_and_no_table_says_so(sizer_cli: Run) -> None:
    code, out, _ = sizer_cli("kv-cache", "bert-base", "--seq-len", "512")

    assert code == 0
    assert "nothing is kept: a bert does not decode" in out
    assert "bytes a token" not in out


def in_ascii(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "sizer", *args], capture_output=True, env=environment, cwd=cwd, check=False
    )


def test_a_formula_stays_one_in_a_terminal_without_unicode() -> None:
    assert in_ascii("formula", "gpt2-small", "-q").stdout == b"VD + CD + L(12D^2 + 13D) + 2D\n"


def test_columns_stay_where_they_are_in_a_terminal_without_unicode() -> None:
    lines = in_ascii("count", "gpt2-small").stdout.decode("ascii").splitlines()
    ends = [line.index("%") for line in lines if "%" in line]

    assert len(set(ends)) == 1
    assert lines[3].startswith("---------  ----")


def test_json_is_exact_in_a_terminal_without_unicode(tmp_path: Path) -> None:
    path = tmp_path / "größe-²-模型.json"
    path.write_text('{"model_type": "gpt2"}')
    done = in_ascii("count", path.name, "--json", cwd=tmp_path)

    assert json.loads(done.stdout.decode("ascii"))["model"] == path.name


def test_a_message_and_the_help_have_letters_that_the_terminal_has() -> None:
    message = in_ascii("count", "gpt2", "--n_layers", "3").stderr
    help_text = in_ascii("count", "--help").stdout

    assert b"--set n_layers=... (sizer count --help)" in message
    assert b"-H 16, ..." in help_text
    assert b"\\u" not in help_text


def test_a_full_disk_is_said_without_a_number() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no full device here")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sizer", "count", "gpt2"], stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert (done.returncode, done.stderr) == (2, b"sizer: No space left on device\n")
