"""A letter of the formulas names the size that it stands for, and a model may say what it overrides."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]

# Llama 3 8B and Mixtral 8x7B as published, and what a block of each has by the shapes of its files.
LLAMA, LLAMA_BLOCK = 8_030_261_248, 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
MIXTRAL, MIXTRAL_BLOCK = (
    46_702_792_704,
    2 * 4096**2 + 2 * 4096 * 1024 + 8 * 4096 + 8 * 3 * 4096 * 14336 + 2 * 4096,
)


@pytest.mark.parametrize(
    ("model", "assignment", "total"),
    [
        ("llama-3-8b", "L=3", LLAMA - 29 * LLAMA_BLOCK),
        ("mixtral-8x7b", "L=16", MIXTRAL - 16 * MIXTRAL_BLOCK),
        ("mixtral-8x7b", "E=4", MIXTRAL - 32 * 4 * (3 * 4096 * 14336 + 4096)),
        ("gpt2-small", "L=24", 124_439_808 + 12 * 7_087_872),
    ],
)
def test_a_letter_is_the_size(sizer_cli: Run, model: str, assignment: str, total: int) -> None:
    assert sizer_cli("count", model, "--set", assignment, "-q") == (0, f"{total}\n", "")


def test_a_letter_is_an_axis_of_a_sweep(sizer_cli: Run) -> None:
    code, out, _ = sizer_cli("sweep", "llama-3-8b", "L=31,33", "--csv")

    assert code == 0
    assert [line.split(",")[1] for line in out.splitlines()[1:]] == [
        str(LLAMA - LLAMA_BLOCK),
        str(LLAMA + LLAMA_BLOCK),
    ]


def test_one_of_several_models_says_what_it_overrides(sizer_cli: Run) -> None:
    _, out, _ = sizer_cli("compare", "llama-3-8b", "llama-3-8b:n_layers=31,tie_embeddings=yes", "--csv")
    head, rows = out.splitlines()[0], dict(line.split(",", 1) for line in out.splitlines()[1:])

    assert "llama-3-8b:n_layers=31" in head
    assert rows["params"].split(",")[1:3] == [str(LLAMA), str(LLAMA - LLAMA_BLOCK - 128_256 * 4096)]
    code, draft, _ = sizer_cli(
        "kv-cache", "llama-3-8b", "--draft", "llama-3-8b:n_layers=2", "--seq-len", "4096", "-q"
    )
    # Keys and values of 8 heads of 128 in bf16, in 34 layers.
    assert (code, draft) == (0, f"{2 * 2 * 8 * 128 * 34 * 4096}\n")


@pytest.mark.parametrize(
    ("word", "fragment"),
    [
        ("llama-3-8b:n_layerz=3", "n_layerz"),
        ("llama-3-8b:n_layers=3,n_layers=4", "set twice"),
        ("llama-3-8b:n_layers=-3", "n_layers"),
        ("llama-3-8:n_layers=3", "no preset named 'llama-3-8'"),
        (":n_layers=3", "no preset"),
        ("llama-3-8b:", "no preset"),
    ],
)
def test_an_override_that_cannot_be(sizer_cli: Run, word: str, fragment: str) -> None:
    code, out, err = sizer_cli("compare", "llama-3-8b", word)

    assert (code, out) == (2, "")
    assert fragment in err
