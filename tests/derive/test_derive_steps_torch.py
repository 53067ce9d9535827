"""Sizes that step: a formula says where it holds, and none is believed that fits a few values."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from forms import assert_equal, document

pytestmark = pytest.mark.torch


def fixed(found: dict[str, list[dict[str, object]]]) -> dict[object, object]:
    return {entry["argument"]: entry["value"] for entry in found["fixed"]}


def test_a_multiplier_that_is_an_argument_keeps_its_formula() -> None:
    found = document("stepping_modules:Feed")

    assert_equal(found, "dim*multiple_of*ceiling(floor(13*floor(2*hidden/3)/10)/multiple_of)")
    assert found["fixed"] == []


def test_what_steps_once_at_small_sizes_is_looked_at_from_afar() -> None:
    """1774 is the next below 7*256: a ratio of widths that fits both is wrong at most others."""
    found = document("stepping_modules:Coarse")

    assert fixed(found) == {"hidden": 2048}
    assert_equal(found, "1792*dim")


def test_a_slope_a_little_off_shows_at_wide_layers() -> None:
    """64 ceiling(dim / 24) holds at every width below 3,000, and at two of three above."""
    found = document("stepping_modules:Nearly")

    assert fixed(found) == {"dim": 4096}
    assert_equal(found, "4096*10944")


def test_a_comparison_that_few_points_break_is_a_rule_where_the_formula_needs_it() -> None:
    """At 27 it is 32, and 24 by the formula that all but one of the widths from 24 to 160 have."""
    found = document("stepping_modules:Divisible")

    assert any("9*base/10 < " in rule for rule in found["rules"])


def test_two_values_are_no_rhythm() -> None:
    found = document("stepping_modules:Ranked")

    assert fixed(found) == {"rank": 0}
    assert_equal(found, "dim**2")


def test_a_rhythm_is_found() -> None:
    found = document("stepping_modules:Thirds")

    assert found["fixed"] == []
    assert_equal(found, "layers*d**2 + floor(layers/every)*d**2")


def test_stages_in_one_list_each_with_its_width_and_length() -> None:
    found = document("stepping_modules:Staged")

    assert found["fixed"] == []
    assert_equal(found, "width**2*(depths_0 + 4*depths_1 + 16*depths_2)")


def test_the_same_seed_gives_the_same_answer_in_every_process() -> None:
    """The order of a set changes with the process; which points are drawn must not."""
    command = [sys.executable, "-m", "sizer", "derive", "stepping_modules:Divisible", "--json"]
    folder = str(Path(__file__).parent)
    answers = [
        subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]

    assert answers[0] == answers[1]
