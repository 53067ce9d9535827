"""How answers are written."""

from __future__ import annotations

import csv
import io
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizer.report import report

Run = Callable[..., tuple[int, str, str]]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_json_is_what_the_library_writes(value: object) -> None:
    assert report.json(value) == json.dumps(value, ensure_ascii=False, indent=2)


# What stands beside the numbers, with a figure from outside where there is one.
SAID = [
    # DeepSeek-V3's repository: 671B of main weights; transformers leaves the layer at the end out.
    (
        "count deepseek-v3",
        ["671,026,404,352", "prediction", "multi-token prediction, not in the total"],
    ),
    # Zamba 7B: one block of attention for 13 of 76 layers, counted with the first of them.
    ("explain zamba-7b", ["one set of tensors for the 13 layers 2, 7, 13", "7,232,490,496"]),
    ("explain deepseek-v3", ["of the layers 0–2", "of the layers 3–60"]),
    # A state-space scan is counted by a convention.
    ("flops mamba-130m", ["of it an estimate"]),
    ("kv-cache bert-base --seq-len 512 --budget 1GB", ["so any number of sequences fits"]),
    # 24 layers of 1536 · 16 states in fp32 and 1536 · 4 inputs in bf16: 10^9 / 2,654,208.
    ("kv-cache mamba-130m --budget 1GB", ["tokens that fit                any length", "376  of 1,024"]),
    # Pages of 16 tokens of 32 layers of 8 · 128 keys and values are 2 MiB each.
    ("kv-cache llama-3-8b --budget 1GiB --policy vllm", ["512  of 2,097,152 bytes, 8,192 tokens in all"]),
    ("kv-cache llama-3-8b --policy vllm --explain", ["- policy vllm: pages of block_size tokens"]),
    ("compare llama-3-8b gemma-2-2b --all", ["13 window, 13 full"]),
    # BERT's 109,482,240 parameters in two bytes; it has no head, so no logits.
    ("fit bert-base --on h100 --mode train --seq-len 128", ["218,964,480"]),
    # Four bytes of weight, of gradient and eight of AdamW's state for each parameter in fp32.
    ("memory gpt2-small --seq-len 64 --precision fp32 --unit B", ["weights          497,759,232 B"]),
    ("fit gpt2-small --on h100 --unit B", ["84,932,978,278 B"]),
    (
        "fit mixtral-8x7b --on h100 --mode train --gpus 8 --dp 8 --ep 8 --explain",
        ["every expert gets"],
    ),
    (
        "sweep --models gpt2-small,llama-3-8b --what params --explain",
        ["by its own closed form"],
    ),
    # Llama 3 8B: keys and values of 32 layers, 8 of 32 heads: 64 KiB a token in eight bits.
    (
        "solve llama-3-8b --kv-per-token 64KiB --kv-dtype fp8 --for n_layers --explain",
        ["kv_per_token = 2*L*D*K/H", "n_layers = 32", "D    d_model = 4,096"],
    ),
    ("solve llama-3-8b --memory 17GB --for n_layers --explain", ["bytes of the weights = params · bits / 8"]),
]


@pytest.mark.parametrize(("line", "fragments"), SAID, ids=[line for line, _ in SAID])
def test_what_is_said_beside_the_numbers(sizer_cli: Run, line: str, fragments: list[str]) -> None:
    _, out, err = sizer_cli(*line.split())

    assert err == ""
    for fragment in fragments:
        assert fragment in out


def test_layers_that_share_their_tensors_are_counted_once(sizer_cli: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(sizer_cli("count", "zamba-7b", "--by", "layer", "--csv")[1])))

    # The checkpoint of Zamba-7B-v1 holds 7,232,490,496 parameters.
    assert sum(int(row["params"]) for row in rows if row["layer"] != "total") == 7_232_490_496


@pytest.mark.parametrize(("n_dense_layers", "there"), [(0, False), (3, True)])
def test_a_kind_of_layer_that_there_is_none_of_has_no_row(
    sizer_cli: Run, n_dense_layers: int, there: bool
) -> None:
    _, out, _ = sizer_cli("tensors", "deepseek-v3", "--set", f"n_dense_layers={n_dense_layers}")

    assert ("model.layers.*.mlp.gate_proj.weight" in out) == there
    assert "model.layers.*.mlp.experts.*.gate_proj.weight" in out


def test_an_accelerator_whose_power_is_not_known_costs_no_energy(sizer_cli: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[mine]\nmemory_gb = 80\ndense_tflops = { bf16 = 100 }\n")
    line = f"train gpt2-small --tokens 1B --gpus 1 --mfu 0.4 --on mine --hardware-file {own}"
    _, silent, _ = sizer_cli(*line.split())
    _, said, _ = sizer_cli(*line.split(), "--watts", "300")

    assert "energy" not in silent
    assert "300 W each" in said


def test_the_budget_of_a_run_is_drawn_with_the_best_sizes(sizer_cli: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    texts = []
    for words in (["--flops", "5.76e23"], ["--model", "gpt2-small", "--tokens", "300B"]):
        path = tmp_path / "curves.svg"
        assert sizer_cli("scaling", *words, "--plot", str(path))[0] == 0
        texts.append(path.read_text())

    # A budget alone is no run; Chinchilla's is the middle one of the curves.
    assert ["<!-- this run -->" in text for text in texts] == [False, True]
    assert "<!-- 5.76e+23 FLOPs -->" in texts[0]


def safetensors(path: Path, tensors: dict[str, tuple[str, list[int], int]]) -> None:
    """A file with that header, `name: (type, shape, bytes)`, and zeros."""
    header, at = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


def test_a_mask_in_a_file_is_no_parameter(sizer_cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors(
        path,
        {
            "transformer.wte.weight": ("F32", [10, 4], 160),
            "transformer.h.0.attn.c_attn.weight": ("F32", [4, 12], 192),
            "transformer.h.0.attn.bias": ("U8", [1, 1, 8, 8], 64),
        },
    )
    _, whole, _ = sizer_cli("count", str(path))
    _, modules, _ = sizer_cli("count", str(path), "--by", "module", "--csv")
    code, _, err = sizer_cli("count", str(path), "--lora", "r=8,target=c_attn")

    assert "buffers                        64  stored and not learned" in whole
    rows = {row["module"]: row["params"] for row in csv.DictReader(io.StringIO(modules))}
    assert rows == {"transformer.wte": "40", "transformer.h.*.attn.c_attn": "48"}
    assert (code, "--lora needs a model" in err) == (2, True)


@pytest.mark.torch
def test_a_tensor_that_is_stored_under_two_names_counts_once(sizer_cli: Run, tmp_path: Path) -> None:
    import torch

    table = torch.zeros(10, 4)
    torch.save({"transformer.wte.weight": table, "lm_head.weight": table}, tmp_path / "model.bin")
    _, out, _ = sizer_cli("count", str(tmp_path / "model.bin"))

    assert "total                          40" in out
    assert "tied                           40  share the storage" in out


def test_files_that_are_missing_are_named_and_then_counted(sizer_cli: Run, tmp_path: Path) -> None:
    names = {f"layers.{i}.weight": f"model-{i + 1:05}-of-00007.safetensors" for i in range(7)}
    index = {"metadata": {"total_size": 70}, "weight_map": names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    code, _, err = sizer_cli("count", str(tmp_path))

    assert code == 1
    assert err.count("missing: model-0000") == 5
    assert "missing: 2 more files" in err


def test_a_command_that_is_no_word(sizer_cli: Run) -> None:
    code, out, err = sizer_cli("--", "-x")

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("sizer: No such option")
    assert "-x" in err
