"""Every answer in every form: the same exit code, and text that a terminal or a program reads."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Callable

import pytest
from lines import LINES

Run = Callable[..., tuple[int, str, str]]

MORE = [
    "count gpt2-small --by layer",
    "formula gpt2-small --of memory",
    "formula gpt2-small --of memory --ascii",
    "memory gpt2-small --mode infer --quant nf4",
    "reconcile gpt2-small 163037184",
    "reconcile gpt2-small 124439808",
    "roofline llama-3-8b --on h100 --explain",
    "solve llama-3-8b --flops 1e22 --for n_layers --tokens-per-param 20",
    "solve llama-3-8b --params 8B --for n_layers,d_ff --tolerance 1% --explain",
    "sweep gpt2-small n_layers=12,24 d_model=768:1536:256 --what params,flops,kv_cache,memory --explain",
    "sweep mixtral-8x7b n_experts=4:8 --what active,weights,memory_infer",
    "sweep gpt2-small d_model=768:800:8 --what params",
    "train llama-3-8b --tokens 1T --on h100 --gpus 64 --mfu 0.4 --watts 700 --pue 1.1 --price 2 --explain",
    "presets list --search nothing-of-this-name",
    "presets show llama-3-8b",
    "hardware show h100-sxm",
    "scaling --model gpt2-small --tokens 300B",
]


@pytest.mark.parametrize("line", [*LINES, *MORE])
def test_an_answer_has_the_same_exit_code_in_every_form(sizer_cli: Run, line: str) -> None:
    words = shlex.split(line)
    code, text, err = sizer_cli(*words)
    assert code in (0, 1), err
    assert text.strip()
    assert all(part.isprintable() for part in text.split("\n"))

    code_of_json, document, _ = sizer_cli(*words, "--json")
    assert code_of_json == code
    for part in [document] if document.startswith("{\n") else document.splitlines():
        json.loads(part)

    code_of_csv, table, why = sizer_cli(*words, "--csv")
    assert code_of_csv in (code, 2), why
    if code_of_csv != 2:
        rows = list(csv.reader(table.splitlines()))
        assert len({len(row) for row in rows}) == 1
    else:
        assert "not a table" in why or "--csv" in why
    if words[0] not in ("sweep", "tensors"):
        assert sizer_cli(*words, "-v")[0] == code
