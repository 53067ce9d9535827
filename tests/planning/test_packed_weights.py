"""Packed weights in plans are those of `sizer size`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("quant", ["nf4", "gptq", "awq", "fp8-block", "q4_k_m", "q8_0", "mxfp4"])
def test_one_rank_holds_what_memory_says(sizer_cli: Run, quant: str) -> None:
    words = ("llama-3-8b", "--quant", quant, "--seq-len", "2048", "--json")
    fit = json.loads(sizer_cli("fit", *words, "--on", "h100", "--gpus", "1")[1])
    memory = json.loads(sizer_cli("memory", *words, "--mode", "infer")[1])

    weights = next(line["bytes"] for line in fit["rank"]["parts"] if line["name"] == "weights")
    assert weights == memory["weights_bytes"]


def test_an_unknown_format_names_the_nearest(sizer_cli: Run) -> None:
    code, _, err = sizer_cli("fit", "llama-3-8b", "--on", "h100", "--gpus", "1", "--quant", "gptk")

    assert (code, err.count("\n")) == (2, 1)
    assert "did you mean 'gptq'" in err
