"""Any request is answered in JSON, or refused with a sentence: never status 500."""

from __future__ import annotations

import json
import random
from typing import Any

import hostile
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

STATUSES = {200, 400, 404, 415, 422, 501}


def no_number(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


def check(seed: int) -> None:
    """`tools/fuzz_words.py` goes on with this for as long as it is told to."""
    request = hostile.any_request(random.Random(seed))
    status, kind, text = hostile.answered(*request)

    # A time out is an answer as well: the service ends a calculation after its deadline.
    assert status in STATUSES | {None}, (request, text[-1000:])
    if status is None:
        return
    documents = (
        [json.loads(line, parse_constant=no_number) for line in text.splitlines()]
        if (kind == "application/x-ndjson")
        else [json.loads(text, parse_constant=no_number)]
    )
    if status != 200:
        (found,) = documents
        assert found["status"] == status
        assert 0 < len(found["detail"]) < 2_000, found["detail"][:300]


@settings(max_examples=80, phases=(Phase.explicit, Phase.generate))
@given(st.integers(0, 2**32))
def test_every_request_is_answered_or_refused(seed: int) -> None:
    check(seed)
