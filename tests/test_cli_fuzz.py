"""Any words on the command line are answered, or refused in words: never a traceback, never exit 3."""

from __future__ import annotations

import random

import hostile
from hypothesis import Phase, given, settings
from hypothesis import strategies as st


def check(seed: int) -> None:
    """`tools/fuzz_words.py` goes on with this for as long as it is told to."""
    words = hostile.any_line(random.Random(seed))
    code, out, err = hostile.said(words)

    assert code in (0, 1, 2), (words, err[-2000:])
    assert code == 0 or out or err
    assert "Traceback" not in err
    if code == 2:
        *_, last = err.rstrip("\n").split("\n")
        assert len(last) < 2_000, last[:300]
        assert last.isprintable(), ascii(last[:300])


@settings(max_examples=80, phases=(Phase.explicit, Phase.generate))
@given(st.integers(0, 2**32))
def test_every_line_is_answered_or_refused(seed: int) -> None:
    check(seed)
