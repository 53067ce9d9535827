"""Which batches and lengths a closed form of a step holds for, as its answer says."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("measure", ["activations", "memory"])
def test_a_window_of_4096_tokens_bounds_the_lengths(sizer_cli: Run, measure: str) -> None:
    # A sequence that fills the window of Mistral 7B needs a mask, which a shorter one does not.
    for length, holds in ((1024, "2 ≤ T ≤ 4095"), (4096, "T ≥ 4096")):
        line = ("formula", "mistral-7b", "--of", measure, "--seq-len", str(length))
        code, out, err = sizer_cli(*line)
        assert (code, err) == (0, "")
        assert f"for B ≥ 1 and {holds}\n" in out


def test_a_peak_says_that_it_is_of_one_moment(sizer_cli: Run) -> None:
    for words in ((), ("--json",)):
        code, out, err = sizer_cli("formula", "gpt2-small", "--of", "memory", *words)
        assert (code, err) == (0, "")
        assert "at other sizes another may hold more" in out


def test_python_takes_one_sequence_and_several(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("formula", "gpt2-small", "--of", "activations", "--python")
    names: dict[str, Callable[..., int]] = {}
    exec(out, names)

    sizes = {"D": 768, "H": 12, "L": 12, "T": 1024, "V": 50257}
    for batch in (1, 4):
        line = ("memory", "gpt2-small", "--batch-size", str(batch), "--json")
        _, answer, _ = sizer_cli(*line)
        assert names["activations_bytes"](B=batch, **sizes) == json.loads(answer)["activations_bytes"]


def test_a_form_whose_moment_changes_with_the_batch_is_of_its_own(sizer_cli: Run) -> None:
    line = ("formula", "gpt2-small", "--of", "memory", "--seq-len", "300")
    alone, several = (sizer_cli(*line, "--batch-size", batch)[1] for batch in ("1", "2"))

    # A table of 50,257 · 768 gradients, added to that of the tied head, is more than 300 rows of logits.
    assert "in the backward of transformer.wte" in alone
    assert "in the backward of the loss" in several
    assert "for B = 1 and" in alone
    assert "for B ≥ 2 and" in several
