"""Sizes of a language model inside another are set as if it stood alone; other parts by their names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import sizer

Run = Callable[..., tuple[int, str, str]]

# Gemma 3 4B, published: 4,300,079,472, of which 262,208 rows of 2,560; 34 layers of its text.
LAYER = 2560 * 2048 + 2 * 2560 * 1024 + 2048 * 2560 + 3 * 2560 * 10240 + 4 * 2560 + 2 * 256


@pytest.mark.parametrize(
    ("assignment", "total"),
    [
        ("vocab_size=1000", 4_300_079_472 - 261_208 * 2560),
        ("n_layers=30", 4_300_079_472 - 4 * LAYER),
        ("text_config.vocab_size=1000", 4_300_079_472 - 261_208 * 2560),
        # SigLIP: a row of 1,152 for each patch of 14 × 14.
        ("vision_config.image_size=448", 4_300_079_472 - (64**2 - 32**2) * 1152),
    ],
)
def test_a_size_of_a_part(sizer_cli: Run, assignment: str, total: int) -> None:
    assert sizer_cli("count", "gemma-3-4b", "--set", assignment, "-q") == (0, f"{total}\n", "")


def test_the_whole_and_its_language_model_share_a_vocabulary() -> None:
    config = {"model_type": "aria"}

    changed = sizer.load(config).with_values(vocab_size=1000)

    assert changed.count().total == sizer.load(config, vocab_size=1000).count().total


@pytest.mark.parametrize(
    ("config", "values", "said"),
    [
        ({"model_type": "llama"}, {"n_layers": 2, "num_hidden_layers": 2}, "num_hidden_layers is set twice"),
        ({"model_type": "gemma3", "text_config": 3}, {"vocab_size": 64}, "text_config = 3 is not an object"),
    ],
    ids=["twice", "no part"],
)
def test_what_cannot_be_set(config: dict[str, object], values: dict[str, int], said: str) -> None:
    with pytest.raises(sizer.SizerError, match=said):
        sizer.load(config, **values)


@pytest.mark.parametrize(
    ("assignment", "fragment"),
    [
        ("vocab_sise=4", "did you mean 'vocab_size'?"),
        ("vision_config.hiden_size=4", "did you mean 'hidden_size'"),
        ("audio_config.hidden_size=4", "has no key 'audio_config.hidden_size'"),
    ],
)
def test_a_part_that_has_no_such_size(sizer_cli: Run, assignment: str, fragment: str) -> None:
    code, out, err = sizer_cli("count", "gemma-3-4b", "--set", assignment)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert fragment in err
