"""The command line, as a table of arguments and answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sympy

import sizer
from sizer.cli import COMMANDS

Run = Callable[..., tuple[int, str, str]]

ANSWERS = [
    (["count", "--preset", "gpt2-small", "-q"], "124439808"),
    (["count", "--preset", "gpt2-medium", "-q"], "354823168"),
    (["count", "--preset", "gpt2-large", "-q"], "774030080"),
    (["count", "--preset", "gpt2-xl", "-q"], "1557611200"),
    (["count", "gpt2-small", "--set", "tie_embeddings=false", "--set", "qkv_bias=false", "-q"], "163009536"),
    (["count", "gpt2-small", "--set", "qkv_bias=no", "-q"], "124412160"),
    (["count", "gpt2-small", "--set", "bias=false", "-q"], "124337664"),
    (["count", "gpt2-small", "--set", "n_layer=24", "-q"], "209494272"),
    (["count", "gpt2-small", "-L", "24", "-q"], "209494272"),
    (["count", "gpt2-small", "--set", "L=24", "-q"], "209494272"),
    (["count", "bert-base", "--class", "BertForPreTraining", "-q"], "110106428"),
    (["formula", "gpt2-small", "-q"], "VD + CD + L(12D² + 13D) + 2D"),
    (["formula", "gpt2-small", "--ascii", "-q"], "V*D + C*D + L*(12*D**2 + 13*D) + 2*D"),
    (["formula", "gpt2-small", "--diff", "D", "-q"], "24LD + 13L + V + C + 2"),
    (["formula", "gpt2-small", "--latex"], "C D + 12 D^{2} L + 13 D L + D V + 2 D"),
    # By hand: 24 · 768 + 13 and 50257 + 1024 + 2.
    (["formula", "gpt2-small", "--diff", "D", "--keep", "L", "-q"], "18445L + 51283"),
    (["formula", "gpt2-small", "--diff", "D", "--ascii", "-q"], "24*L*D + 13*L + V + C + 2"),
    (["formula", "gpt2-small", "--diff", "D", "--latex"], "C + 24 D L + 13 L + V + 2"),
    (["explain", "gpt2-small", "-q"], "124439808"),
    (["presets", "list", "--family", "palm", "-q"], "palm-8b\npalm-62b\npalm-540b"),
]


@pytest.mark.parametrize(
    ("args", "answer"), ANSWERS, ids=lambda x: " ".join(x) if isinstance(x, list) else None
)
def test_answer(sizer_cli: Run, args: list[str], answer: str) -> None:
    assert sizer_cli(*args) == (0, answer + "\n", "")


FRAGMENTS = [
    (
        ["count", "gpt2-small"],
        [
            "31.0 %",
            "22.8 %",
            "45.5 %",
            "124,439,808",
            "lm_head.weight is transformer.wte.weight",
            "width of the residual stream",
        ],
    ),
    (["count", "gpt2-small", "--by", "layer"], ["transformer.h.11", "7,087,872"]),
    (["count", "gpt2-small", "--by", "module", "--depth", "3"], ["transformer.h.*.attn", "4LD² + 4LD"]),
    (["count", "gpt2-small", "--by", "tensor"], ["transformer.h.*.attn.c_attn.weight", "3LD²"]),
    (["count", "gpt2-small", "-v"], ["source: https://", "non-embedding:"]),
    (["count", "gpt3-1.3b", "-v"], ["16 heads of 128"]),
    (["count", "gpt3-13b", "-v"], ["read as 5120"]),
    (["count", "gpt2-small", "--format", "github"], ["| embedding", "|---"]),
    (["count", "gpt2-small", "--csv"], ["component,params,share,formula", "embedding,38597376,0.31"]),
    (["formula", "gpt2-small", "--keep", "D,L"], ["12LD² + 13LD + 51283D"]),
    (["formula", "gpt2-small", "--diff", "D"], ["elasticity 1.683"]),
    (["formula", "gpt2-small", "--python"], ["def params(C, D, L, V):", "12*L*D**2"]),
    (["formula", "gpt2-small", "--mathml"], ["<math>", "<msup>"]),
    (["formula", "gpt2-small", "--of", "kv-cache", "--mathml"], ["<math>", "<mi>T</mi>"]),
    (["formula", "gpt2-small", "--of", "memory", "--mathml"], ["<math>", "<mi>T</mi>"]),
    (["formula", "gpt2-small", "--of", "activations", "--latex"], ["B D L T"]),
    (
        ["explain", "gpt2-small"],
        ["[V, D] = [50257, 768]", "38,597,376", "7,087,872", "85,054,464", "124,439,808"],
    ),
    (["tensors", "gpt2-small"], ["transformer.h.*.ln_1.weight", "× 12: 0–11", "buffer"]),
    (["presets", "show", "gpt2-xl"], ["1,557,611,200", "github.com/openai/gpt-2"]),
    (["--help"], list(COMMANDS)),
]


@pytest.mark.parametrize(("args", "fragments"), FRAGMENTS, ids=lambda x: " ".join(x[:4]))
def test_answer_holds(sizer_cli: Run, args: list[str], fragments: list[str]) -> None:
    code, out, err = sizer_cli(*args)

    assert (code, err) == (0, "")
    for fragment in fragments:
        assert fragment in out


@pytest.mark.parametrize(
    ("args", "name", "letters", "expected"),
    [
        ([], "params", {"D": 768, "L": 12, "V": 50257, "C": 1024}, 124_439_808),
        (["--keep", "L"], "params", {"L": 24}, 209_494_272),
        # 24LD + 13L + V + C + 2, the formula above in D.
        (["--diff", "D"], "params_by_D", {"D": 1, "L": 1, "V": 1, "C": 1}, 41),
        # Keys and values of two bytes: 2 · 2 · L · D a token.
        (["--of", "kv-cache"], "cache_bytes", {"B": 2, "D": 768, "L": 12, "T": 10}, 2 * 10 * 4 * 12 * 768),
    ],
    ids=["params", "keep", "diff", "kv-cache"],
)
def test_a_formula_as_a_function_of_python(
    sizer_cli: Run, args: list[str], name: str, letters: dict[str, int], expected: int
) -> None:
    _, out, _ = sizer_cli("formula", "gpt2-small", "--python", *args)
    names: dict[str, Callable[..., int]] = {}
    exec(out, names)

    assert names[name](**letters) == expected


def test_the_bytes_that_pytorch_keeps_as_a_function_of_python(sizer_cli: Run) -> None:
    # `gpt2_eager_bf16` of tests/fixtures/activations.jsonl.gz, as PyTorch saved them.
    how = ["--of", "activations", "--attention", "eager", "--batch-size", "2"]
    names: dict[str, Callable[..., int]] = {}
    exec(sizer_cli("formula", "gpt2-small", "--python", *how)[1], names)

    assert names["activations_bytes"](B=2, D=256, H=8, L=2, T=128, V=1000) == 9_684_996


BAD = [
    (["count", "gtp2"], ["no preset named 'gtp2'", "did you mean", "gpt2", "sizer presets list"]),
    (["count", "--preset", "gpt-4"], ["not public"]),
    (["count", "model.safetensors"], ["there is no file 'model.safetensors'"]),
    (["count", "models/our/7b"], ["there is no file 'models/our/7b'"]),
    (["count", "meta-llama/Meta-Llama-3-8B"], ["the preset 'llama-3-8b' is near", "--hub"]),
    (["count", "gpt2", "--class", "GPT2LMHead"], ["no class named 'GPT2LMHead'"]),
    (["cuont", "gpt2"], ["no command named 'cuont'", "did you mean 'count'"]),
    (["count"], ["name one model"]),
    (["count", "gpt2", "--preset", "gpt2"], ["give one"]),
    (["count", "gpt2", "--set", "d_model=100"], ["d_model = 100", "n_heads = 12", "96 or 108"]),
    (["count", "gpt2", "--set", "d_model=0"], ["d_model = 0 is zero"]),
    (["count", "gpt2", "--set", "d_model=-768"], ["negative"]),
    (["count", "gpt2", "--set", "d_model=true"], ["d_model = True is not a whole number"]),
    (["count", "gpt2", "--set", "d_model=768.5"], ["not a whole number"]),
    (["count", "gpt2", "--set", "d_model=" + "9" * 30], ["d_model", "not a whole number"]),
    (["count", "gpt2", "--set", "n_layers=" + "9" * 17], ["largest size"]),
    (["count", "gpt2", "--set", "d_modle=768"], ["no field 'd_modle'", "did you mean 'd_model'"]),
    (["count", "gpt2", "--set", "d_model"], ["KEY=VALUE"]),
    (["count", "gpt2", "--set", "n_layers=2", "--set", "n_layer=3"], ["twice"]),
    (["count", "gpt2", "--set", "tie_embeddings=maybe"], ["not true or false"]),
    (["count", "gpt2", "--nonsense"], ["No such option"]),
    (["count", "gpt2", "--format", "word"], ["no table format named 'word'"]),
    (["count", "no/such/file.json"], ["no file"]),
    (["formula", "gpt2", "--keep", "Z"], ["no letter named 'Z'", "D, L, V, C"]),
    (["tensors", "gpt2", "--dtype", "fp31"], ["no dtype named 'fp31'", "fp32"]),
    (["presets", "show", "gpt2-smal"], ["did you mean 'gpt2-small'"]),
    (["count", "gpt2", "--class", "Gpt2Modle"], ["no class named 'Gpt2Modle'"]),
]


@pytest.mark.parametrize(("args", "fragments"), BAD, ids=lambda x: " ".join(x)[:60])
def test_bad_input_is_one_line_and_exit_2(sizer_cli: Run, args: list[str], fragments: list[str]) -> None:
    code, out, err = sizer_cli(*args)

    assert (code, out) == (2, "")
    assert err.startswith("sizer: ")
    assert err.count("\n") == 1
    for fragment in fragments:
        assert fragment in err


FILES = [
    ("empty.toml", "", ["empty"]),
    ("broken.toml", "architecture = \n", ["not valid TOML"]),
    ("nothing.toml", "source = 'x'\n", ["describes no model"]),
    ("unknown.toml", "architecture = 'gpt2'\n[config]\nd_modle = 3\n", ["d_modle", "d_model"]),
    ("key.toml", "architecture = 'gpt2'\nflavour = 3\n[config]\n", ["unknown key 'flavour'"]),
    (
        "which.toml",
        "architecture = 'gpt9'\n[config]\nd_model = 3\n",
        ["no architecture named 'gpt9'", "gpt2"],
    ),
    ("empty.json", "", ["empty"]),
    ("broken.json", '{"model_type": "gpt2",}', ["not valid JSON", "line 1"]),
    ("list.json", "[1]", ["a list, not an object"]),
    ("twice.json", '{"model_type": "gpt2",\n"n_layer": 1, "n_layer": 2}', ["'n_layer' twice", "line 2"]),
    ("deep.json", "[" * 100_000, ["nested too deeply"]),
    ("type.json", '{"model_type": "gpt3"}', ["no model type named 'gpt3'", "gpt2"]),
    ("none.json", "{}", ["no model_type"]),
    ("binary.json", "\x80\xff", ["not text"]),
]


@pytest.mark.parametrize(
    ("name", "text", "fragments"), FILES, ids=lambda x: x if isinstance(x, str) and "." in x[:12] else None
)
def test_a_bad_file_is_one_line_and_exit_2(
    sizer_cli: Run, tmp_path: Path, name: str, text: str, fragments: list[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode("latin-1"))

    code, out, err = sizer_cli("count", str(path))

    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for fragment in fragments:
        assert fragment in err


def test_a_directory_without_a_config(sizer_cli: Run, tmp_path: Path) -> None:
    code, out, err = sizer_cli("count", str(tmp_path))

    assert (code, out) == (2, "")
    assert "without a config.json" in err


def test_a_directory_with_a_config(sizer_cli: Run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')

    assert sizer_cli("count", str(tmp_path), "-q") == (0, "124439808\n", "")


def test_a_file_without_permission(sizer_cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    # The superuser may read everything, so the refusal is made here.
    monkeypatch.setattr("builtins.open", refuse)
    code, out, err = sizer_cli("count", str(path))

    assert (code, out) == (2, "")
    assert "no permission" in err


def test_a_preset_file_of_ones_own(sizer_cli: Run, tmp_path: Path) -> None:
    code, text, _ = sizer_cli("presets", "show", "gpt2-xl", "-q")
    (tmp_path / "mine.toml").write_text(text)

    assert code == 0
    assert sizer_cli("count", str(tmp_path / "mine.toml"), "-q") == (0, "1557611200\n", "")
    assert sizer_cli("count", str(tmp_path / "mine.toml"), "--set", "n_layers=1", "-q")[0] == 0


def test_count_as_json(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("count", "gpt2-small", "--json")
    document = json.loads(out)

    assert document["params"] == {
        "total": 124_439_808,
        "active": 124_439_808,
        "embedding": 39_383_808,
        "non_embedding": 85_056_000,
        "trainable": 124_439_808,
    }
    assert document["buffers"] == {"total": 12_582_912}
    assert document["tied"] == {"total": 38_597_376}
    assert sum(part["params"] for part in document["components"]) == 124_439_808
    assert {"sizer_version", "model", "architecture", "assumptions", "sources"} <= set(document)


def test_formula_as_json_is_sympys(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("formula", "gpt2-small", "--json")
    document = json.loads(out)
    letters = {code: sympy.Symbol(code) for code in document["legend"]}
    total = sympy.parse_expr(document["total"], local_dict=letters)

    assert total.subs(document["values"]) == 124_439_808
    assert document["block"] == {"transformer.h": "12*D**2 + 13*D"}


def test_tensors_as_json_lines(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("tensors", "gpt2-small", "--expand", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    by_name = {line["name"]: line for line in lines}

    assert by_name["transformer.h.3.attn.c_attn.weight"] == {
        "name": "transformer.h.3.attn.c_attn.weight",
        "shape": [768, 2304],
        "formula": "3*D**2",
        "dtype": "fp32",
        "component": "attention",
        "params": 1_769_472,
        "kind": "param",
        "tied_to": None,
    }
    assert by_name["lm_head.weight"]["tied_to"] == "transformer.wte.weight"
    assert sum(x["params"] for x in lines if x["kind"] == "param" and not x["tied_to"]) == 124_439_808


def process(*args: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "sizer", *args],
        input=stdin,
        capture_output=True,
        env={**os.environ, **environment},
    )


def test_a_config_on_standard_input() -> None:
    done = process("count", "-", "-q", stdin=b'\xef\xbb\xbf{"model_type": "gpt2", "n_layer": 24}')

    assert (done.returncode, done.stdout, done.stderr) == (0, b"209494272\n", b"")


def test_nothing_looks_for_garbage_in_what_goes_with_the_process() -> None:
    script = (
        "import atexit, gc\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 10_000))\n"
        "from sizer.cli import entry\n"
        "entry()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "count", "gpt2", "-q"], capture_output=True, text=True, check=True
    )

    assert done.stdout == "124439808\nTrue\n"


def test_a_closed_pipe() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "sizer", "tensors", "gpt2", "--expand"], stdout=write, stderr=subprocess.PIPE
    )
    os.close(write)

    assert done.returncode == 2
    assert done.stderr == b"sizer: the reader of the output closed the pipe\n"


def test_a_terminal_without_unicode() -> None:
    done = process("count", "gpt2-small", PYTHONIOENCODING="ascii", PYTHONUTF8="0")

    assert done.returncode == 0
    assert b"124,439,808" in done.stdout


def test_a_group_alone_is_its_list(sizer_cli: Run) -> None:
    for group in ("presets", "hardware"):
        assert sizer_cli(group) == sizer_cli(group, "list")


def test_the_version(sizer_cli: Run) -> None:
    assert sizer_cli("--version") == (0, f"sizer {sizer.__version__}\n", "")


@pytest.mark.parametrize("word", ["9" * 100_000, "a\nb", "\x1b[31m", "\u202e"], ids=ascii)
def test_what_is_repeated_is_one_short_line(sizer_cli: Run, word: str) -> None:
    for args in (["count", "gpt2-small", word], ["flops", "gpt2-small", "--seq-len", word]):
        code, out, err = sizer_cli(*args)

        assert (code, out) == (2, "")
        assert len(err) < 1_500
        assert err.removesuffix("\n").isprintable()


def test_a_bug_is_exit_3(sizer_cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sizer.report.count.count", lambda rows: 1 // 0)
    code, out, err = sizer_cli("count", "gpt2")

    assert (code, out) == (3, "")
    assert "a bug in sizer: ZeroDivisionError" in err
    assert "SIZER_DEBUG" in err


def test_an_interrupt_is_exit_2(sizer_cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(rows: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sizer.report.count.count", interrupt)

    code, out, err = sizer_cli("count", "gpt2")

    assert (code, out, err.strip()) == (2, "", "sizer: interrupted")


def test_a_missing_extra_says_how_to_install_it(sizer_cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    code, out, err = sizer_cli("verify", "gpt2")

    assert (code, out) == (2, "")
    assert "pip install 'model-sizer[torch]'" in err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(sizer_cli: Run, command: str) -> None:
    code, out, err = sizer_cli(command, "--help")

    assert (code, err) == (0, "")
    assert f"sizer {command} " in out
