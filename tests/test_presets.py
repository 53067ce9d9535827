"""The preset files: every one reads, validates, names its source, and is found by its names."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from repository import ROOT

import sizer
from sizer.architectures.registry import architecture
from sizer.loading import from_dict, hf_values
from sizer.report.config_json import config_json
from sizer.sources.presets import KINDS, NOT_PUBLIC, Preset, plain_toml
from sizer.sources.values import validated, well_formed

Run = Callable[..., tuple[int, str, str]]

FILES = sorted((ROOT / "presets" / "models").glob("*.toml"))
PRESETS = sizer.presets()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_quick_reader_reads_what_tomllib_reads(path: Path) -> None:
    text = path.read_text()
    slow = tomllib.loads(text)
    slow["date"] = str(slow["date"])

    assert plain_toml(text) == slow


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_a_preset_is_valid(preset: Preset) -> None:
    assert bool(preset.architecture) != bool(preset.model_type)
    if preset.architecture:
        config = architecture(preset.architecture).config
        assert validated(preset.config, config) == well_formed(preset.config, config)
    else:
        # The same values with every check, which loading a preset by its name leaves out.
        model = from_dict(hf_values(preset), name=preset.name)
        assert model.given == sizer.load(preset.name).given
        assert model.unknown_keys == []
    assert preset.source.startswith("https://")
    assert preset.date
    assert "params" in preset.expect or "published" in preset.expect


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_a_preset_is_of_the_kinds_it_names(preset: Preset) -> None:
    model = sizer.load(preset.name)
    rows = model.rows()
    counted = model.count()
    mixing = {row.component for row in rows} & {"mixer", "attention"}
    memory = {"hybrid"} if len(mixing) == 2 else {"recurrent"} if "mixer" in mixing else set()

    assert set(preset.kinds) <= set(KINDS)
    assert len({"decoder", "encoder", "seq2seq", "vision"} & set(preset.kinds)) == 1
    joined = "encoder" not in preset.kinds and {"seq2seq", "multimodal"} & set(preset.kinds)
    assert bool(joined) == (len({row.stream for row in rows}) > 1)
    assert ("moe" in preset.kinds) == ("experts" in counted.components) == (counted.active < counted.total)
    assert ("dense" in preset.kinds) != ("moe" in preset.kinds)
    # A convolution in an encoder remembers nothing.
    assert {"encoder", "vision"} & set(preset.kinds) or memory <= set(preset.kinds)


def test_a_list_is_filtered_by_family_kind_and_size(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("presets", "list", "--family", "mistral", "--kind", "moe", "-q")
    assert out.split() == ["mixtral-8x7b", "mixtral-8x22b", "mixtral-8x22b-instruct"]
    _, out, _ = sizer_cli("presets", "list", "--family", "qwen3_next", "-q")
    assert out.split() == ["qwen3-next-80b-a3b"]
    _, out, _ = sizer_cli("presets", "list", "--kind", "recurrent", "--max", "150000000", "-q")
    assert out.split() == ["mamba-130m", "mamba2-130m"]
    assert sizer_cli("presets", "list", "--kind", "decoders")[0] == 2


def test_a_list_fits_a_terminal_and_says_by_which_name_it_was_found(sizer_cli: Run) -> None:
    _, whole, _ = sizer_cli("presets", "list")
    _, found, _ = sizer_cli("presets", "list", "--search", "BioBERT")
    _, one, _ = sizer_cli("presets", "show", "bert-base-cased")
    listed = json.loads(sizer_cli("presets", "list", "--search", "biobert", "--json")[1])["presets"]

    assert max(map(len, whole.splitlines())) <= 100
    assert "biobert" not in whole
    # BERT-Base, Cased has 108,310,272 parameters in transformers.
    assert " ".join(found.split()[-6:]) == "bert-base-cased bert encoder dense 108M biobert-base-cased"
    assert "also: biobert-base-cased" in one
    assert listed[0]["aliases"] == ["biobert-base-cased"]
    assert listed[0]["params"] == 108_310_272


def test_a_list_of_models_that_are_published_in_round_numbers_alone(sizer_cli: Run) -> None:
    # Chowdhery et al. 2022, table 1: PaLM of 8.63, 62.50 and 540.35 billion parameters.
    _, out, _ = sizer_cli("presets", "list", "--family", "palm")
    _, large, _ = sizer_cli("presets", "list", "--family", "palm", "--min", "100000000000", "-q")
    rows = list(csv.DictReader(io.StringIO(sizer_cli("presets", "list", "--family", "palm", "--csv")[1])))

    assert [line.split()[4] for line in out.splitlines()[2:]] == ["8.63B", "62.5B", "540B"]
    assert large == "palm-540b\n"
    assert (rows[2]["kinds"], rows[2]["aliases"], rows[2]["params"]) == ("decoder dense", "palm", "")


# Architectures that transformers has not.
NOT_THEIRS = ("gpt_from_scratch", "palm", "torchvision_resnet", "transformer")


@pytest.mark.parametrize(
    "preset", [p for p in PRESETS if p.architecture not in NOT_THEIRS], ids=lambda p: p.name
)
def test_a_config_json_is_read_to_the_same_model(preset: Preset) -> None:
    written = json.loads(json.dumps(config_json(preset)))
    back, model = sizer.load(written), sizer.load(preset.name)

    assert list(written)[:2] == ["model_type", "architectures"]
    assert back.count().total == model.count().total
    assert back.count().active == model.count().active
    mine, theirs = (
        {(t.name, t.shape, t.tied_to) for t in one.tensors() if t.kind == "param"} for one in (model, back)
    )
    assert mine == theirs
    assert back.unknown_keys == []


def test_show_writes_a_config_json(sizer_cli: Run, tmp_path: Path) -> None:
    code, out, _ = sizer_cli("presets", "show", "bert-large", "--hf")
    (tmp_path / "config.json").write_text(out)

    assert code == 0
    assert json.loads(out)["intermediate_size"] == 4096
    assert sizer_cli("count", str(tmp_path), "-q") == (0, "335141888\n", "")


@pytest.mark.parametrize("name", ["palm-8b", "transformer-base", "llms-from-scratch-124m"])
def test_what_transformers_has_not_gets_no_config_json(sizer_cli: Run, name: str) -> None:
    code, out, err = sizer_cli("presets", "show", name, "--hf")

    assert (code, out) == (2, "")
    assert "no model type for the architecture" in err
    assert "-q` writes a file" in err


@pytest.mark.parametrize("name", ["dbrx", "qwen3-8b", "falcon-7b", "longformer-base-4096"])
def test_a_file_of_ones_own_may_name_a_model_type(sizer_cli: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "mine.toml").write_text(sizer_cli("presets", "show", name, "-q")[1])

    assert sizer_cli("count", str(tmp_path / "mine.toml"), "-q") == sizer_cli("count", name, "-q")
    assert sizer_cli("count", str(tmp_path / "mine.toml"), "--set", "n_layers=2", "-q")[0] == 0


LLAMA = 'architecture = "llama"\n[mine.config]\nvocab_size = 100\nd_model = 64\nn_layers = 4\nn_heads = 4\n'
FILES_OF_ONES_OWN = [
    ("config = { d_model = 64 }", ["needs `architecture`", "`model_type`"]),
    ('architecture = "gpt2"\nmodel_type = "gpt2"\nconfig = { d_model = 64 }', ["both", "give one"]),
    ('architecture = "gpt2"\nconfig = 3', ["`config` is not a table of sizes"]),
    (LLAMA + "window_layers = [1, 2]", ["window_layers = (1, 2)", "a list of words, one a layer"]),
    (LLAMA + 'd_ff = ["wide"]', ["d_ff = ('wide',)", "whole numbers"]),
    ('model_type = "qwen33"\nconfig = { d_model = 64 }', ["qwen33", "did you mean", "qwen3"]),
    ('model_type = "qwen3"\nconfig = { d_model = "wide" }', ["mine", "wide", "whole number"]),
]


@pytest.mark.parametrize(("text", "fragments"), FILES_OF_ONES_OWN)
def test_a_wrong_file_is_refused(sizer_cli: Run, tmp_path: Path, text: str, fragments: list[str]) -> None:
    (tmp_path / "mine.toml").write_text(f"[mine]\n{text}\n")
    code, out, err = sizer_cli("count", str(tmp_path / "mine.toml"))

    assert (code, out) == (2, "")
    assert all(fragment in err for fragment in fragments), err


def test_an_installation_without_its_presets_says_so(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "sizer", tmp_path / "sizer", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "sizer", "count", "gpt2-small"]

    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "the preset files are missing from this installation; install it again" in done.stderr


def test_a_file_of_two_models_asks_for_one(sizer_cli: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('architecture = "gpt2"\n[a]\nconfig = {}\n[b]\nconfig = {}\n')

    code, out, err = sizer_cli("count", str(tmp_path / "mine.toml"))

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "holds 2 models (a, b)" in err


def test_a_file_may_say_what_each_layer_is(tmp_path: Path) -> None:
    kinds = 'd_ff = 128\nwindow = 16\nwindow_layers = ["full", "window", "window", "full"]\n'
    (tmp_path / "mine.toml").write_text(f"[mine]\n{LLAMA}{kinds}")

    model = sizer.load(tmp_path / "mine.toml")

    # Keys and values of 64 numbers of 2 bytes: of all 48 tokens in two layers, of 16 in the others.
    assert model.kv_cache(batch_size=1, seq_len=48, dtype="bf16").bytes == 2 * 64 * 2 * (2 * 48 + 2 * 16)
    changed = model.with_values(window_layers=["window"] * 4)
    assert changed.kv_cache(batch_size=1, seq_len=48, dtype="bf16").bytes == 2 * 64 * 2 * 4 * 16


def test_a_layer_of_no_known_kind_is_refused() -> None:
    with pytest.raises(sizer.SizerError, match="window_layers has 'windo'; a layer is full or window"):
        sizer.load("llama-3-8b", window=4096, window_layers=["full"] * 31 + ["windo"])


@pytest.mark.parametrize("values", [{"n_layer": 2, "n_layers": 3}, {"d_model": 64, "D": 64}], ids=str)
def test_one_field_in_two_words_is_refused(values: dict[str, int]) -> None:
    model = sizer.load("gpt2-small")
    with pytest.raises(sizer.SizerError, match="is set twice"):
        model.with_values(**values)
    with pytest.raises(sizer.SizerError, match="is set twice"):
        sizer.load("gpt2-small", **values)


def test_names_and_aliases_are_unique() -> None:
    names = [name for preset in PRESETS for name in (preset.name, *preset.aliases)]

    assert len(names) == len(set(names))
    assert not set(names) & set(NOT_PUBLIC)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_a_preset_is_found_by_each_of_its_names(preset: Preset) -> None:
    for name in (preset.name, *preset.aliases):
        assert sizer.load(name).name == preset.name
