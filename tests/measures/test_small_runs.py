"""FLOPs and caches of small modules of every decoder of text, against what the real ones did."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from repository import ROOT

import sizer

with gzip.open(ROOT / "tests" / "fixtures" / "runs.jsonl.gz", "rt") as file:
    ROWS = [json.loads(line) for line in file]
# transformers runs every expert over every token here; the count is of those that a token visits.
EVERY_EXPERT = {"llama4", "llama4_text"}
# The pooler runs, and nothing reads it.
NO_LOSS = {"big_bird"}
# Positions of the indexer's tokens, whole numbers, stand in the cache too.
POSITIONS = {"qwen4_exp", "qwen4_exp_text"}
TYPES = [pytest.param(row, id=f"{row['config']['model_type']}-{row['cls']}") for row in ROWS]


@pytest.mark.parametrize("row", TYPES)
def test_a_small_run_is_equal_or_an_estimate(row: dict[str, Any]) -> None:
    model, model_type = sizer.load(row["config"], cls=row["cls"]), row["config"]["model_type"]
    for run in row["runs"]:
        how = {key: value for key, value in run.items() if key not in ("what", "says")}
        says = dict(run["says"])
        if run["what"] == "flops":
            found = model.flops(**how)
            ours = {"forward": found.forward, "backward": found.backward}
            if model_type in NO_LOSS:
                del says["backward"]
            if model_type in EVERY_EXPERT:
                assert ours["forward"] < says["forward"]
                continue
        else:
            found = model.kv_cache(**how, policy="transformers")
            ours = {"logical": found.bytes, "bookkeeping": found.bookkeeping_bytes}
            ours["stored"] = found.stored_bytes
            if model_type in POSITIONS:
                del says["bookkeeping"], says["stored"]

        assert not found.exact or {key: ours[key] for key in says} == says, how


def test_most_types_are_exact() -> None:
    exact = [sizer.load(row["config"], cls=row["cls"]).flops(1, 16).exact for row in ROWS]

    assert (sum(exact), len(exact)) == (141, 177)
