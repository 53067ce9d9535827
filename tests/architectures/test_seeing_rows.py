"""Classes of transformers that see or hear: totals, names, shapes, ties and buffers of the real modules.

The rows were measured like those of text (test_transformers_rows.py), on transformers 5.24 and torch
2.13, on the meta device, 2026-11-29 (tools/transformers_fixture.py).
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from repository import FIXTURES
from test_transformers_rows import name_of
from test_transformers_rows import test_a_class_is_what_transformers_builds as is_what_transformers_builds
from test_transformers_rows import test_the_formula_with_numbers_is_the_count as formula_is_the_count

FIXTURE = FIXTURES / "transformers-seeing.jsonl.gz"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress(FIXTURE.read_bytes()).decode().splitlines()
]
READ = [row for row in ROWS if "config" in row]

# Classes whose tensors in memory are exact, and in files are named otherwise than transformers 5 saves
# them: of the first two, published files have only the whole model, whose names these parts have
# there; of Kimi K2.5's, transformers 5 writes the text's layers under the name of the tower's; of
# Molmo 2's, it cuts the table of all tokens in two halves, where files have the new tokens apart; of
# Cohere's transcriber, it leaves the encoder, and no other part, inside of "model"; of SAM 3's trackers,
# it puts before each name those of parts of a whole, "tracker_model" and for the tower another besides.
STORED_OTHERWISE = {
    "CohereAsrForConditionalGeneration",
    "Glm4vMoeTextModel",
    "Kimi_K25VisionModel",
    "Kimi_K25Model",
    "Kimi_K25ForConditionalGeneration",
    "Molmo2ForConditionalGeneration",
    "Molmo2Model",
    "Molmo2TextModel",
    "Sam3TrackerModel",
    "Sam3TrackerVideoModel",
}


@pytest.mark.parametrize("row", READ, ids=name_of)
def test_a_class_that_sees_is_what_transformers_builds(row: dict[str, Any]) -> None:
    if row["cls"] in STORED_OTHERWISE:
        row = {**row, "checkpoint": None}

    is_what_transformers_builds(row)


@pytest.mark.parametrize("row", READ, ids=name_of)
def test_its_formula_with_numbers_is_its_count(row: dict[str, Any]) -> None:
    formula_is_the_count(row)
