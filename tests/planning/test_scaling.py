"""Scaling laws say what their papers say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sizer.errors import SizerError
from sizer.planning.scaling import LAWS, optimum, over_trained

Run = Callable[..., tuple[int, str, str]]

# law, FLOPs, parameters, tolerance, source.
PUBLISHED = [
    ("chinchilla-1", 5.76e23, 67e9, 0.03, "Hoffmann et al., table 3: 67B for the budget of Gopher"),
    ("chinchilla-1", 1.21e20, 1e9, 0.05, "Hoffmann et al., table 3"),
    ("chinchilla-1", 1.30e28, 10e12, 0.05, "Hoffmann et al., table 3"),
    ("chinchilla-2", 6.88e23, 67e9, 0.05, "Hoffmann et al., table A3"),
    ("chinchilla-2", 1.59e26, 1e12, 0.05, "Hoffmann et al., table A3"),
    (
        "chinchilla-3",
        5.76e23,
        32e9,
        0.02,
        "its constants as published, which are rounded; the paper draws 40B",
    ),
    (
        "epoch",
        5.76e23,
        70e9,
        0.05,
        "Besiroglu et al. 2024: Chinchilla itself, 70B on 1.4T tokens, is close to best",
    ),
]


@pytest.mark.parametrize(("law", "flops", "params", "tolerance", "source"), PUBLISHED)
def test_the_best_size(law: str, flops: float, params: float, tolerance: float, source: str) -> None:
    assert optimum(law, flops=flops).params == pytest.approx(params, rel=tolerance)


@pytest.mark.parametrize(
    ("law", "exponent"),
    [
        ("chinchilla-1", "0.50"),
        ("chinchilla-2", "0.49"),
        ("kaplan", "0.73"),
        ("epoch", "0.51"),
        ("chinchilla-3", "0.45"),
    ],
)
def test_how_the_best_size_grows(law: str, exponent: str) -> None:
    """As published: 0.50, 0.49 and 0.73; Besiroglu et al. find 0.51; β / (α + β) is 0.45."""
    from math import log

    small, large = optimum(law, flops=1e20).params, optimum(law, flops=1e24).params

    assert f"{log(large / small) / log(1e4):.2f}" == exponent


@pytest.mark.parametrize("law", LAWS)
def test_a_size_has_the_budget_for_which_it_is_best(law: str) -> None:
    found = optimum(law, params=70e9)

    assert optimum(law, flops=found.flops).params == pytest.approx(70e9, rel=1e-9)
    assert 6 * found.params * found.tokens == pytest.approx(found.flops, rel=1e-12)


def test_the_best_size_is_the_lowest_point_of_the_curve() -> None:
    for law in ("chinchilla-3", "epoch"):
        best, rule = optimum(law, flops=1e22), LAWS[law].rule
        for factor in (0.8, 1.25):
            size = best.params * factor
            assert rule.at(size, 1e22 / (6 * size)) > best.loss  # type: ignore[union-attr, operator]


def test_chinchilla_itself() -> None:
    """70B on 1.4T tokens: 5.88e23 FLOPs, 5.76e23 in the paper's count."""
    found = over_trained("chinchilla-1", 70e9, 1.4e12)

    assert found.flops == pytest.approx(5.76e23, rel=0.025)
    assert found.times == pytest.approx(1, rel=0.05)


def test_the_same_loss_for_less() -> None:
    found = over_trained("epoch", 8.03e9, 15e12)
    assert found.same_loss_flops is not None

    assert optimum("epoch", flops=found.same_loss_flops).loss == pytest.approx(found.loss, rel=1e-9)
    assert found.overhead == pytest.approx(found.flops / found.same_loss_flops)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ((), "give a budget"),
        (("--flops", "1e22", "--params", "1B"), "one of the two"),
        (("--flops", "1e22", "--tokens", "1T"), "--tokens goes with a size"),
        (("--params", "1B", "--model", "gpt2-small"), "both say a size"),
        (("--flops", "-3"), "no whole number above zero"),
        (("--flops", "1e45"), "not between 1 and 1e40"),
        (("--flops", "1e22", "--law", "chincila"), "did you mean"),
        (("--flops", "1e22", "--plot", "x.txt"), "no picture"),
        (("--flops", "1e22", "--law", "kaplan", "--plot", "x.svg"), "these laws have none"),
    ],
)
def test_questions_without_an_answer(sizer_cli: Run, options: tuple[str, ...], fragment: str) -> None:
    code, out, err = sizer_cli("scaling", *options)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert fragment in err


def test_a_picture(sizer_cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "iso.svg"
    assert sizer_cli("scaling", "--model", "llama-3-8b", "--tokens", "15T", "--plot", str(path))[0] == 0

    text = path.read_text()
    assert text.startswith("<?xml")
    assert "this run" in text or "#" in text


@pytest.mark.parametrize("asked", [{}, {"flops": 1e21, "params": 1e9}], ids=["nothing", "both"])
def test_a_law_is_asked_for_one_of_the_two(asked: dict[str, float]) -> None:
    with pytest.raises(SizerError, match="flops or with params, one of the two"):
        optimum("chinchilla-1", **asked)
