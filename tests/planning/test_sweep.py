"""Grids: every row is what the ledger says, in order, in every format and over any number of workers."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import signal
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy
import pytest

import sizer
from sizer.planning.sweeping.axes import axis
from sizer.planning.sweeping.registry import Registry, entries
from sizer.planning.sweeping.sweep import Sweep, sweep
from sizer.planning.sweeping.writing import _land, place_of
from sizer.report.sweep import save, stream

Run = Callable[..., tuple[int, str, str]]


def rows(name: str, axes: dict[str, Any], what: list[str], **options: Any) -> list[dict[str, Any]]:
    chunks = sweep(sizer.load(name), axes, what, **options)
    return [record for chunk in chunks for record in chunk.records()]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("512:4096:512", [512, 1024, 1536, 2048, 2560, 3072, 3584, 4096]),
        ("5:9:3", [5, 8]),
        ("5:7", [5, 6, 7]),
        ("512:5000:*2", [512, 1024, 2048, 4096]),
        ("12,24", [12, 24]),
        ("12, 20:24:2,48", [12, 20, 22, 24, 48]),
        ("true,false", [True, False]),
        ("bf16,fp8", ["bf16", "fp8"]),
        ("7", [7]),
    ],
)
def test_values_of_an_axis(text: str, values: list[Any]) -> None:
    assert list(axis("x", text).values) == values


GRIDS = [
    ("gpt2-small", {"d_model": "384:1536:6", "n_layers": [1, 12, 48]}, ["params", "active", "non_embedding"]),
    (
        "llama-3-8b",
        {"n_heads": "8:64:8", "n_kv_heads": "1:8", "d_ff": [4096, 4097]},
        ["params", "kv_per_token"],
    ),
    ("gemma-2-2b", {"n_layers": "1:30", "seq_len": [1, 4096, 4097, 9000]}, ["params", "kv_cache", "flops"]),
    ("deepseek-v3", {"n_experts": "8:256:8", "top_k": [1, 8]}, ["params", "active"]),
    ("deepseek-v3", {"n_layers": "1:8", "n_dense_layers": "0:4"}, ["params"]),
    (
        "mamba-130m",
        {"d_model": "64:512:64", "d_state": [16, 64], "batch_size": [1, 3]},
        ["kv_cache", "flops"],
    ),
    ("t5-small", {"n_layers": "1:12", "seq_len": "10:1000:*10"}, ["params", "flops_training", "kv_cache"]),
    ("nemotron-h-8b", {"n_layers": "50:54", "d_model": [4096, 8192]}, ["params"]),
    # Each in a box of its own beside a size that nothing depends on.
    ("gpt2-small", {"seq_len": "1:40:2"}, ["params", "flops"]),
    # An odd number of elements in four bits is no whole number of bytes.
    ("deepseek-v3", {"kv_lora_rank": "1:20", "dtype": "int4,bf16"}, ["kv_cache"]),
    ("t5-small", {"encoder_len": [1, 100], "seq_len": "1:7"}, ["flops", "kv_cache"]),
    # The memory of a pass has no closed form.
    ("gpt2-small", {"d_model": "768:864:12"}, ["memory_infer"]),
    (
        "gpt2-small",
        {"tie_embeddings": "true,false", "d_model": [768, 770], "dtype": "fp32,int4"},
        ["weights"],
    ),
]


@pytest.mark.parametrize(("name", "axes", "what"), GRIDS, ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.parametrize("chunk", [7, 65_536])
def test_every_row_is_the_ledgers(name: str, axes: dict[str, Any], what: list[str], chunk: int) -> None:
    model = sizer.load(name)
    found = rows(name, axes, what, chunk=chunk)
    grid = [list(axis(key, v).values) if isinstance(v, str) else v for key, v in axes.items()]
    points = [dict(zip(axes, values, strict=True)) for values in product(*grid)]

    assert [{key: row[key] for key in axes} for row in found] == points
    for row, point in zip(found, points, strict=True):
        expected = by_ledger(model, point, what)
        if isinstance(expected, str):
            expected = {**dict.fromkeys(what), "error": expected}
        assert row == {**point, "error": None, **expected}


def by_ledger(model: sizer.Model, point: dict[str, Any], what: list[str]) -> dict[str, Any] | str:
    """The measures of the model with these sizes, asked one by one; or why there is none."""
    run = {key: point[key] for key in ("seq_len", "batch_size", "encoder_len") if key in point}
    sizes = {key: value for key, value in point.items() if key not in run and key != "dtype"}
    try:
        return measured(model.with_values(**sizes), point, run, what)
    except sizer.SizerError as error:
        return str(error).removeprefix(f"{model.name}: ")


def measured(one: sizer.Model, point: dict[str, Any], run: dict[str, int], what: list[str]) -> dict[str, Any]:
    count, dtype = one.count(), point.get("dtype", "bf16")
    bits = {"fp32": 32, "bf16": 16, "int4": 4}[dtype]
    known: dict[str, Callable[[], Any]] = {
        "params": lambda: count.total,
        "active": lambda: count.active,
        "non_embedding": lambda: count.non_embedding,
        "kv_cache": lambda: one.kv_cache(**run, dtype=dtype).bytes,
        "kv_per_token": lambda: one.kv_cache(**run).bytes_per_token,
        "flops": lambda: one.flops(**run).forward,
        "flops_training": lambda: one.flops(**run).training,
        "weights": lambda: -(-count.total * bits // 8),
        "memory_infer": lambda: one.memory("infer", batch_size=1, seq_len=1024).total_bytes,
    }
    return {measure: known[measure]() for measure in what}


def test_numbers_beyond_64_bits_are_exact() -> None:
    found = rows("gpt2-small", {"d_model": [12 * 10**12, 12 * 10**3], "n_layers": "1:9"}, ["params", "flops"])

    assert len(found) == 18
    for row in found:
        D, L = row["d_model"], row["n_layers"]  # 12D²L + 13DL + VD + CD + 2D
        assert row["params"] == 12 * D * D * L + 13 * D * L + (50257 + 1024 + 2) * D
    assert found[8]["params"] > 2**64


def test_sums_beyond_64_bits_are_exact() -> None:
    # 61 layers keep 512 + 64 elements of half a byte for each token; either part alone is within 64 bits.
    axes = {"seq_len": "559996:560000", "batch_size": [10**9]}
    found = rows("deepseek-v3", axes, ["kv_cache"], settings={"dtype": "int4"})
    # Embedding and 12D² + 13D a block, GPT-2's, with and without a head of its own.
    D = 12 * 10**12
    heads = rows("gpt2-small", {"tie_embeddings": [True, False], "d_model": [D]}, ["params"])

    assert [r["kv_cache"] for r in found] == [61 * 576 * r["seq_len"] * 10**9 // 2 for r in found]
    assert found[-1]["kv_cache"] > 2**63
    tied = 12 * (12 * D * D + 13 * D) + (50257 + 1024 + 2) * D
    assert [r["params"] for r in heads] == [tied, tied + 50257 * D]


def test_more_layers_than_a_list_may_have_are_refused_one_by_one() -> None:
    found = rows("gemma-3-4b-text", {"n_layers": [*range(30, 36), 100_001]}, ["params"])

    assert [row["params"] for row in found][4] == 3_880_263_168
    assert found[-1]["params"] is None
    assert "beyond 100,000" in found[-1]["error"]
    assert {row["error"] for row in found[:-1]} == {None}


def test_a_switch_without_a_model_is_an_error_of_its_rows() -> None:
    found = rows("gpt2-small", {"dtype": ["bf16", "zz"], "seq_len": "1:9"}, ["kv_cache"])

    # Keys and values of 12 layers of 768 in two bytes.
    assert [row["kv_cache"] for row in found] == [2 * 12 * 768 * 2 * n for n in range(1, 10)] + [None] * 9
    assert all("dtype named 'zz'" in row["error"] for row in found[9:])


def test_a_measure_that_does_not_vary(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("sweep", "gpt2-small", "seq_len=1:6", "--what", "params", "--csv")

    assert out.splitlines()[1:] == [f"{n},124439808," for n in range(1, 7)]


def test_many_values_of_a_switch() -> None:
    # Two and four bytes of each of GPT-2's parameters.
    found = rows("gpt2-small", {"dtype": ["bf16", "fp32"] * 130}, ["weights"])

    assert [row["weights"] for row in found] == [2 * 124_439_808, 4 * 124_439_808] * 130


def test_files_hold_the_same_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    axes = {"n_heads": "8,12", "d_model": "760:800:4", "tie_embeddings": "true,false"}
    grid = Sweep(sizer.load("gpt2-small"), axes, ["params", "flops"], chunk=10)
    expected = [record for chunk in grid.chunks() for record in chunk.records()]
    for ending in ("csv", "jsonl", "parquet"):
        assert save(grid, str(tmp_path / f"grid.{ending}")) == (
            44,
            sum(r["error"] is not None for r in expected),
        )
    with open(tmp_path / "grid.csv", newline="") as file:
        plain = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (tmp_path / "grid.jsonl").read_text().splitlines()]
    stored = parquet.read_table(tmp_path / "grid.parquet").to_pylist()

    assert [
        {k: "" if v is None else str(v).lower() if k != "error" else v for k, v in r.items()}
        for r in expected
    ] == plain
    assert [{"error": None, **line} for line in lines] == [{"error": None, **r} for r in expected]
    assert stored == expected
    assert sorted(os.listdir(tmp_path)) == ["grid.csv", "grid.jsonl", "grid.parquet"]


def test_a_column_of_parquet_has_the_type_of_its_values(tmp_path: Path, sizer_cli: Run) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "rows.parquet")
    sizer_cli(
        "sweep", "gpt2-small", "dtype=bf16,fp32", "tie_embeddings=true", "--what", "weights", "--output", path
    )
    one = parquet.read_table(path).to_pylist()
    lines = ["--models", "gpt2-small,gtp2", "n_layers=12,24", "--what", "params", "--output", path]
    code, _, err = sizer_cli("sweep", *lines)
    many = parquet.read_table(path).to_pylist()

    assert one == [
        {"dtype": "bf16", "tie_embeddings": True, "weights": 2 * 124_439_808, "error": None},
        {"dtype": "fp32", "tie_embeddings": True, "weights": 4 * 124_439_808, "error": None},
    ]
    assert (code, "1 of 3 points have no answer" in err) == (0, True)
    assert [(r["model"], r["n_layers"], r["params"]) for r in many] == [
        ("gpt2-small", 12, 124_439_808),
        ("gpt2-small", 24, 209_494_272),
        ("gtp2", None, None),
    ]
    assert "did you mean 'gpt2'" in many[2]["error"]


def test_a_file_that_cannot_be_finished_is_not_there(tmp_path: Path) -> None:
    grid = Sweep(sizer.load("gpt2-small"), {"seq_len": "1:9"}, ["kv_cache"], settings={"dtype": "half a bit"})
    with pytest.raises(sizer.SizerError, match="dtype named 'half a bit'"):
        save(grid, str(tmp_path / "rows.csv"))

    assert list(tmp_path.iterdir()) == []


def test_large_numbers_in_every_format(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    grid = Sweep(sizer.load("gpt2-small"), {"d_model": [12 * 10**12], "n_layers": "1:9"}, ["params"])
    expected = [record["params"] for chunk in grid.chunks() for record in chunk.records()]
    save(grid, str(tmp_path / "big.parquet"))
    out = io.BytesIO()
    stream(grid, "csv", out)

    assert [
        int(value) for value in parquet.read_table(tmp_path / "big.parquet")["params"].to_pylist()
    ] == expected
    assert [int(line.split(",")[2]) for line in out.getvalue().decode().splitlines()[1:]] == expected


def test_slow_measures_are_shared_in_small_parts() -> None:
    axes = {"d_model": "1024:8192:1024", "n_layers": "1:100"}
    slow, quick = (
        Sweep(sizer.load("llama-3-8b"), axes, ["params", "memory_train"]),
        Sweep(sizer.load("llama-3-8b"), axes, ["params", "kv_cache"]),
    )

    # 800 points of some 4 ms each: enough parts for a number of workers.
    assert len(list(slow.boxes())) >= 8
    assert len(list(quick.boxes())) == 1


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_rows_are_the_same_made_many_or_few_at_once(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    axes = {"n_heads": "8,12", "d_model": "760:800:4", "tie_embeddings": "true,false", "n_layers": "1:12"}
    texts = []
    for rows in (1, 5, 16_384):
        monkeypatch.setattr("sizer.planning.sweeping.writers.ROWS", rows)
        out = io.BytesIO()
        stream(Sweep(sizer.load("gpt2-small"), axes, ["params", "active", "flops"]), form, out)
        texts.append(out.getvalue())

    assert texts[0].count(b"\n") == 528 + (form == "csv")
    assert texts[0] == texts[1] == texts[2]


def test_a_worker_writes_into_the_file_that_is_meant(tmp_path: Path) -> None:
    rows = numpy.frombuffer(b"b,2\n", numpy.uint8)
    with open(tmp_path / "rows", "wb") as file, open(tmp_path / "log", "ab") as log:
        file.write(b"a,1\n")
        file.flush()
        place = place_of(file)
        assert place is not None
        assert place_of(log) is None
        assert place_of(io.BytesIO()) is None

        assert _land((1, (rows, 0)), place, 4) is None
        for other in (
            place._replace(path=str(tmp_path / "none")),
            place._replace(machine="another"),
            place._replace(path=str(tmp_path / "log")),
        ):
            assert bytes(_land((1, (rows, 0)), other, 0)) == b"b,2\n"

    assert (tmp_path / "rows").read_bytes() == b"a,1\nb,2\n"
    assert (tmp_path / "log").read_bytes() == b""


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_a_worker_that_dies_costs_no_rows(tmp_path: Path, kind: str) -> None:
    distributed = pytest.importorskip("distributed")
    grid = Sweep(
        sizer.load("llama-3-8b"),
        {"d_model": "32:3200:32", "n_layers": "1:100", "d_ff": "32:640:32"},
        ["params", "active"],
        chunk=5000 if kind == "file" else 500,
    )
    alone = io.BytesIO()
    stream(grid, "csv", alone)
    killed: list[int] = []

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:

        def progress(points: int, size: int | None) -> None:
            if points >= 60_000 and not killed:
                worker = next(iter(cluster.workers.values()))
                killed.append(worker.pid)
                os.kill(worker.pid, signal.SIGKILL)

        with open(tmp_path / "rows", "wb") if kind == "file" else io.BytesIO() as out:
            stream(grid, "csv", out, scheduler=cluster.scheduler_address, progress=progress)
            rows = (tmp_path / "rows").read_bytes() if isinstance(out, io.BufferedWriter) else out.getvalue()

    assert killed
    assert rows == alone.getvalue()
    assert alone.getvalue().count(b"\n") == 200_001


def test_many_models_and_a_bad_one(tmp_path: Path, sizer_cli: Run) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    (tmp_path / "a" / "tokenizer.json").write_text("{}")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").write_text("{not json")
    lines = tmp_path / "models.jsonl"
    lines.write_text(
        '{"name": "one", "model_type": "gpt2"}\n\n[1]\n"llama-3-8b"\n{"model_type": "nope"}\n'
        '{"name": "two", "config": {"model_type": "gpt2", "n_layer": 24}}\n'
    )
    code, folder, _ = sizer_cli("sweep", "--models", str(tmp_path), "--what", "params", "--csv")
    found = list(csv.DictReader(io.StringIO(folder)))
    assert code == 0
    assert [row["params"] for row in found] == ["124439808", ""]
    assert "is not valid JSON" in found[1]["error"]

    code, text, err = sizer_cli(
        "sweep", "--models", str(lines), "seq_len=1,2", "--what", "params,kv_cache", "--json"
    )
    records = [json.loads(line) for line in text.splitlines()]
    assert code == 0
    assert "2 of 8 points have no answer" in err
    assert [(r["model"], r.get("seq_len"), r["params"]) for r in records] == [
        ("one", 1, 124439808),
        ("one", 2, 124439808),
        ("models.jsonl:3", None, None),
        ("llama-3-8b", 1, 8030261248),
        ("llama-3-8b", 2, 8030261248),
        ("models.jsonl:5", None, None),
        ("two", 1, 209494272),
        ("two", 2, 209494272),
    ]


def test_a_list_of_models_in_small_parts() -> None:
    grid = Registry(["gpt2-small", "gtp2"], {"n_layers": "11:14"}, ["params"], chunk=2)
    found = [record for chunk in grid.chunks() for record in chunk.records()]

    # 7,087,872 a block of GPT-2; a model that there is not is said once.
    assert [r.get("params") for r in found] == [124_439_808 + i * 7_087_872 for i in (-1, 0, 1, 2)] + [None]
    assert "gtp2" in found[-1]["error"]


def test_every_preset_is_a_registry() -> None:
    names = [entry.name for entry in entries("all")]

    assert {"gpt2-small", "llama-3-8b", "mamba-130m"} < set(names)
    assert len(set(names)) == len(names) > 400


def test_a_line_that_is_too_long_is_one_error(tmp_path: Path, sizer_cli: Run) -> None:
    path = tmp_path / "models.jsonl"
    path.write_bytes(b'"' + b"a" * 33_000_000 + b'"\n"gpt2-small"\n')
    _, out, _ = sizer_cli("sweep", "--models", str(path), "--what", "params", "--csv")
    found = list(csv.DictReader(io.StringIO(out)))

    assert [row["params"] for row in found] == ["", "124439808"]
    assert found[0]["model"] == "models.jsonl:1"


def test_a_terminal_sees_how_far_a_sweep_is(sizer_cli: Run) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with contextlib.redirect_stderr(Terminal()) as seen:
        one = sizer_cli("sweep", "gpt2-small", "n_layers=1:50", "d_model=12:12000:12", "--csv")
        many = sizer_cli("sweep", "--models", "gpt2-small,gpt2-medium", "--csv", "--what", "params")

    assert one[1].count("\n") == 50_001
    assert "\r50,000 points 100 %" in seen.getvalue()
    assert many[1].count("\n") == 3
    assert "\r1 points\x1b[K" in seen.getvalue()


def test_processes_of_its_own_give_the_same_rows(sizer_cli: Run) -> None:
    pytest.importorskip("distributed")
    line = ["sweep", "gpt2-small", "n_layers=1:3000", "d_model=12:480:12", "--what", "params", "--csv"]

    assert sizer_cli(*line, "--scheduler", "local:1")[1] == sizer_cli(*line)[1]


def test_standard_output_may_take_text_alone() -> None:
    from sizer.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(["sweep", "gpt2-small", "n_layers=12,24", "--what", "params", "--csv"])

    assert (code, out.getvalue()) == (0, "n_layers,params,error\n12,124439808,\n24,209494272,\n")


def test_a_picture_names_what_it_shows(tmp_path: Path, sizer_cli: Run) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "cache.svg"
    axes = ["seq_len=1024:8192:*2", "dtype=bf16,fp8"]
    code, _, err = sizer_cli("sweep", "llama-3-8b", *axes, "--what", "kv_cache", "--plot", str(path))

    assert (code, err) == (0, "")
    text = path.read_text()
    # Letters are drawn as shapes; each text stands beside its own as a comment.
    for label in (
        "seq_len (tokens)",
        "kv cache (bytes)",
        "dtype = bf16",
        "dtype = fp8",
        "llama-3-8b  (llama)",
    ):
        assert f"<!-- {label} -->" in text


# What a line is: its axis, the label of its numbers, and whether the axes are powers.
PICTURES = [
    ("n_layers=1:30", "params", "parameters", "n_layers"),
    ("n_layers=1:64:*2", "weights", "weights (bytes)", "n_layers"),
    ("d_model=12:12000:12", "active", "active parameters", "d_model"),
    ("n_layers=1:4", "flops", "flops", "n_layers"),
    ("n_layers=8:16:*2", "params", "parameters", "n_layers"),
    ("batch_size=1:64:*4", "kv_cache", "kv cache (bytes)", "batch_size (sequences)"),
]


@pytest.mark.parametrize(("axis", "what", "label", "along"), PICTURES, ids=[row[0] for row in PICTURES])
def test_a_picture_of_one_line(
    tmp_path: Path, sizer_cli: Run, axis: str, what: str, label: str, along: str
) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "line.svg"
    code, _, err = sizer_cli("sweep", "gpt2-small", axis, "--what", what, "--plot", str(path))

    assert (code, err) == (0, "")
    text = path.read_text()
    assert f"<!-- {label} -->" in text
    assert f"<!-- {along} -->" in text
    # One line needs no legend.
    assert "legend" not in text


BAD = [
    (["llama-3-8b", "d_model=" + "64," * 40_000 + "64"], "more values than fit in a line"),
    (["gpt2-small", "n_layers=1:2", "--models", "gpt2-medium"], "give one of the two"),
    (["--models", "empty"], "empty names no model"),
    (["--models", ",", "n_layers=1"], "names no model"),
    (["--models", "gpt2-small", "n_layers=1:2", "--plot", "x.svg"], "--plot draws one model"),
    (["gpt2-small", "tie_embeddings=true,false", "--plot", "x.svg"], "needs an axis of numbers"),
    (["gpt2-small", "d_model=769:770", "--plot", "x.svg"], "no point of this grid is a model"),
    (["gpt2-small", "n_layers=1:100001", "--plot", "x.svg"], "draws at most 100,000 points"),
    (["--models", "gpt2-small", "n_layers=1:100001", "--format", "github"], "more than 100,000 rows"),
    (["llama-3-8b", "d_modle=1:2"], "did you mean d_model"),
    (["llama-3-8b", "d_model=4096:512"], "is empty"),
    (["llama-3-8b", "d_model=512:4096:0"], "never ends"),
    (["llama-3-8b", "d_model=512:4096:-5"], "is negative"),
    (["llama-3-8b", "d_model=512:4096:*1"], "never ends"),
    (["llama-3-8b", "d_model=-1"], "is negative"),
    (["llama-3-8b", "d_model=0"], "at least 1"),
    (["llama-3-8b", "d_model=1.5"], "no whole number"),
    (["llama-3-8b", "d_model=1:1e9"], "no whole number"),
    (["llama-3-8b", "d_model=" + "9" * 300], "no whole number"),
    (["llama-3-8b", "d_model="], "a value is missing"),
    (["llama-3-8b", "d_model=1:2:3:4"], "is no range"),
    (
        ["llama-3-8b", "d_model=1:100000", "n_layers=1:100000"],
        "10,000,000,000 points is more than 1,000,000,000",
    ),
    (["llama-3-8b", "d_model=1:100", "--max-points", "50"], "--max-points"),
    (["llama-3-8b", "d_model=64", "hidden_size=32"], "given twice"),
    (["llama-3-8b", "d_model=64", "d_model=32"], "given twice"),
    (["llama-3-8b", "d_model=64", "--what", "size"], "no measure named 'size'"),
    (["llama-3-8b", "d_model=64", "--what", ""], "no measure named ''"),
    (["llama-3-8b", "tie_embeddings=maybe"], "is not true or false"),
    (["llama-3-8b", "seq_len=0"], "seq_len"),
    (["llama-3-8b"], "nothing varies"),
    (["d_model=64"], "name a model"),
    (["llama-3-8b", "gpt2-small", "d_model=64"], "both name a model"),
    (["llama-3-8b", "d_model=64", "--models", "all"], "give one of the two"),
    (["--models", "no/such.jsonl"], "there is no file or folder"),
    (["llama-3-8b", "d_model=64", "--output", "grid.xls"], "ends in no format"),
    (["llama-3-8b", "d_model=64", "--output", "no/such/grid.csv"], "No such file"),
    (["llama-3-8b", "d_model=64", "--plot", "grid.bmp"], "no picture"),
    (["llama-3-8b", "d_model=64:640:64", "n_layers=1:20", "--plot", "x.svg"], "at most 8 lines"),
    (["llama-3-8b", "d_model=64", "--scheduler", "local:0", "--csv"], "write local:2"),
]


@pytest.mark.parametrize(("args", "why"), BAD, ids=lambda x: " ".join(x)[:50] if isinstance(x, list) else "")
def test_a_bad_grid_is_one_line(
    sizer_cli: Run, tmp_path: Path, monkeypatch: Any, args: list[str], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if "empty" in args:
        (tmp_path / "empty").mkdir()
    code, _, err = sizer_cli("sweep", *args)

    assert code == 2
    assert why in err
    assert err.count("\n") == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


FROM_PYTHON: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"d_model": object()}, {}, "is no list of values"),
    ({"d_model": []}, {}, "d_model has no value"),
    ({"d_model": [64.5]}, {}, "64.5 is no whole number"),
    ({"d_model": numpy.array([64.5])}, {}, "64.5 is no whole number"),
    ({"tie_embeddings": [True, False] * 5001}, {}, "more than 10,000 values of switches"),
    ({"d_model": 64}, {"what": []}, "nothing to measure"),
    ({"d_model": 64}, {"settings": {"seqlen": 3}}, "no setting named 'seqlen'"),
]


@pytest.mark.parametrize(("axes", "options", "why"), FROM_PYTHON, ids=[row[2] for row in FROM_PYTHON])
def test_a_bad_grid_from_python(axes: dict[str, Any], options: dict[str, Any], why: str) -> None:
    with pytest.raises(sizer.SizerError, match=why):
        sweep(sizer.load("llama-3-8b"), axes, **options)


def test_an_array_of_numpy_is_an_axis() -> None:
    found = rows("gpt2-small", {"n_layers": numpy.array([12, 24])}, ["params"])

    assert [row["params"] for row in found] == [124_439_808, 209_494_272]
    assert [type(row["n_layers"]) for row in found] == [int, int]
