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
    run = {key: point[key] for key in ("seq_len", "batch_size") if key in point}
    sizes = {key: value for key, value in point.items() if key not in run and key != "dtype"}
    try:
        one = model.with_values(**sizes)
        count = one.count()
    except sizer.SizerError as error:
        return str(error).removeprefix(f"{model.name}: ")
    bits = {"fp32": 32, "int4": 4}.get(point.get("dtype", ""), 16)
    known: dict[str, Any] = {
        "params": count.total,
        "active": count.active,
        "non_embedding": count.non_embedding,
        "kv_cache": one.kv_cache(**run).bytes,
        "kv_per_token": one.kv_cache(**run).bytes_per_token,
        "flops": one.flops(**run).forward,
        "flops_training": one.flops(**run).training,
        "weights": -(-count.total * bits // 8),
    }
    return {measure: known[measure] for measure in what}


def test_numbers_beyond_64_bits_are_exact() -> None:
    found = rows("gpt2-small", {"d_model": [12 * 10**12, 12 * 10**3], "n_layers": "1:9"}, ["params", "flops"])

    assert len(found) == 18
    for row in found:
        D, L = row["d_model"], row["n_layers"]  # 12D²L + 13DL + VD + CD + 2D
        assert row["params"] == 12 * D * D * L + 13 * D * L + (50257 + 1024 + 2) * D
    assert found[8]["params"] > 2**64


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


BAD = [
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
    code, _, err = sizer_cli("sweep", *args)

    assert code == 2
    assert why in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
