"""How answers are written."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sizer.report import report

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_json_is_what_the_library_writes(value: object) -> None:
    assert report.json(value) == json.dumps(value, ensure_ascii=False, indent=2)
