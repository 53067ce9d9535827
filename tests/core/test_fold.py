"""Names folded into patterns and spread out again: nothing is lost and nothing is made up."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizer.core.fold import MOST_NAMES, copies, filled, fold, ranges, spread
from sizer.errors import BadInput

steps = st.sampled_from(("h", "w", "0", "1", "2", "3", "10", "01", "007", "x1", "²", "", "123456789012"))
named = st.dictionaries(st.lists(steps, min_size=1, max_size=5).map(".".join), st.integers(0, 1), max_size=30)


@given(named)
def test_spread_undoes_fold(names: dict[str, int]) -> None:
    found = fold(names.items())

    spread_out = [(name, key) for pattern, key in found for name in spread(pattern)]
    assert sorted(spread_out) == sorted(names.items())
    assert sum(copies(pattern) for pattern, _ in found) == len(names)
    assert len(found) <= len(names)


def test_what_differs_in_indices_alone_is_one_pattern() -> None:
    boxes = [f"a.{i}.b.{j}" for i, j in product(range(3), (0, 2, 3))]

    assert fold((name, 0) for name in boxes) == [("a.{0-2}.b.{0,2-3}", 0)]
    assert fold((name, 0) for name in [*boxes, "a.7.b.0"]) == [("a.{0-2}.b.{0,2-3}", 0), ("a.7.b.0", 0)]
    # Other keys are other patterns, and so are steps that only look like an index.
    assert fold([("h.0.w", 1), ("h.1.w", 2), ("h.2.w", 1)]) == [("h.{0,2}.w", 1), ("h.1.w", 2)]
    assert fold([("h.1", 0), ("h.01", 0)]) == [("h.1", 0), ("h.01", 0)]
    assert fold([("h.{}.1", 0), ("h.{}.2", 0), ("{}", 0)]) == [("h.{}.1", 0), ("h.{}.2", 0), ("{}", 0)]
    assert fold([("h.12345678901", 0), ("h.12345678902", 0)]) == [("h.{12345678901-12345678902}", 0)]
    assert fold([("h.123456789012", 0), ("h.123456789013", 0)]) == [
        ("h.123456789012", 0),
        ("h.123456789013", 0),
    ]


@given(st.sets(st.integers(0, 40), min_size=1))
def test_a_set_of_indices_reads_back(numbers: set[int]) -> None:
    text = ranges(numbers)

    assert [int(name[2:]) for name in spread(f"h.{text}")] == sorted(numbers)
    assert copies(f"h.{text}") == len(numbers)
    assert ranges(sorted(numbers, reverse=True)) == text


def test_the_ways_to_write_a_set() -> None:
    assert ranges(range(2, 9)) == "{2-8}"
    assert ranges(range(4, 5)) == "4"
    assert ranges(range(0, 6, 2)) == "{0,2,4}"
    assert ranges([3, 4]) == "{3-4}"
    assert ranges([1, 2, 4, 6, 7, 8]) == "{1-2,4,6-8}"


def test_a_template_takes_texts_in_order() -> None:
    assert filled("a.{}.b.{}.c", ["1", "2"]) == "a.1.b.2.c"
    assert filled("a", []) == "a"


def test_more_names_than_anybody_has_are_refused() -> None:
    assert next(spread(f"h.{{1-{MOST_NAMES}}}")) == "h.1"
    with pytest.raises(BadInput, match="stands for over 2,000,000 names"):
        next(spread(f"h.{{0-{MOST_NAMES}}}"))
    with pytest.raises(BadInput, match="is no set of indices"):
        copies(f"h.{{{'1' * 12}-{'2' * 12}}}")
    assert copies(f"h.{{{'1' * 11}-{'1' * 12}}}") == 10**11 + 1  # 24 characters
