"""Configurations drawn at random, and those that showed a fault: what transformers builds from each.

"drawn": one configuration of each text model type, with fields changed at random among the values
that the type's own classes accept. "found": one that an earlier version read wrongly, in the words
of its class, which a file may have. "switches": classes that see, with switches turned that no default
turns; names in files were not measured for them. All were built by transformers 5.24 and torch 2.13 on
the meta device, by 2026-12-01, and hold what a row of transformers.jsonl.gz holds.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from repository import FIXTURES
from test_transformers_rows import name_of
from test_transformers_rows import test_a_class_is_what_transformers_builds as is_as_built

FIXTURE = FIXTURES / "transformers-drawn.jsonl.gz"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress(FIXTURE.read_bytes()).decode().splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_class_of_a_drawn_configuration_is_what_transformers_builds(row: dict[str, Any]) -> None:
    is_as_built(row)
