"""Lists with an entry a layer, for another number of layers."""

from __future__ import annotations

import numpy
import pytest

import sizer
from sizer.core.pattern import resized


@pytest.mark.parametrize(
    ("items", "length", "expected"),
    [
        # Gemma 3: five layers with a window, then one without (google/gemma-3-1b-it config.json: 26).
        ("wwwwwf" * 4 + "ww", 30, "wwwwwf" * 5),
        # GLM-4.5: three dense layers, then experts in all (zai-org/GLM-4.5: first_k_dense_replace = 3).
        ("ddd" + "e" * 89, 95, "ddd" + "e" * 92),
        # Jamba: one attention layer in eight, the fifth (ai21labs/Jamba-v0.1: offset 4, period 8).
        ("mmmmammm" * 4, 20, "mmmmammm" * 2 + "mmmm"),
        ("f", 1, "f"),
    ],
)
def test_a_periodic_list_goes_on(items: str, length: int, expected: str) -> None:
    assert "".join(resized(items, length)) == expected


@pytest.mark.parametrize("items", ["ab", "abcdefgh", "M-M-M-MM-M-M-M*-M-M-M-M-M*"])
def test_a_list_without_a_form_is_refused(items: str) -> None:
    with pytest.raises(sizer.SizerError, match="no repeating pattern"):
        resized(items, 99)


# Twice the layers is twice the blocks: what is outside them stays.
@pytest.mark.parametrize("name", ["gemma-3-4b-text", "jamba-v0.1", "qwen3-next-80b-a3b", "gpt-oss-20b"])
def test_twice_the_layers_have_twice_the_blocks(name: str) -> None:
    model = sizer.load(name)
    cycles = {"gemma-3-4b-text": 6, "jamba-v0.1": 8, "qwen3-next-80b-a3b": 4, "gpt-oss-20b": 2}[name]
    one, two, three = (model.with_values(n_layers=n * cycles).count().total for n in (1, 2, 3))

    assert three - two == two - one > 0


def test_an_array_of_depths_is_refused_where_layers_are_listed() -> None:
    with pytest.raises(sizer.SizerError, match="one n_layers at a time"):
        sizer.load("gemma-2-2b").with_values(n_layers=numpy.array([2, 4]))


def test_layers_without_a_form_stay_as_many() -> None:
    model = sizer.load("nemotron-h-8b")

    assert model.with_values(n_layers=52).count().total == model.count().total
    with pytest.raises(sizer.SizerError, match="nemotron-h-8b: n_layers = 60: its 52 layers follow no"):
        model.with_values(n_layers=60)
