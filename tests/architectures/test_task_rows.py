"""Classes that the other fixtures leave out, and switches that no published configuration turns.

Built by transformers 5.24 and torch 2.13 on the meta device on 2026-11-30 (tools/transformers_classes.py).
"""

from __future__ import annotations

import gzip
import json
import math
from typing import Any

import pytest
from repository import ROOT
from test_transformers_rows import KNOWN, name_of
from test_transformers_rows import test_a_class_is_what_transformers_builds as is_as_built
from test_transformers_rows import test_the_formula_with_numbers_is_the_count as has_its_formula

import sizer

FIXTURE = ROOT / "tests" / "fixtures" / "transformers-tasks.jsonl.gz"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress(FIXTURE.read_bytes()).decode().splitlines()
]
# Heads that are refused by name: all of these types, and those of others.
BARE = {"bros", "layoutlmv3", "lilt"}
HEADS = {
    *("ASTForAudioClassification", "BlipForQuestionAnswering"),
    *("SeamlessM4TTextToUnitForConditionalGeneration", "ViltForMaskedLM", "ViltForQuestionAnswering"),
    *("ViltForTokenClassification", "VisualBertForMultipleChoice", "VisualBertForQuestionAnswering"),
    *("MusicgenForConditionalGeneration", "MusicgenMelodyForConditionalGeneration"),
}
REFUSED = [
    row
    for row in ROWS
    if row["cls"] in HEADS or (row["model_type"] in BARE and not row["cls"].endswith("Model"))
]


@pytest.mark.parametrize("row", [row for row in ROWS if row not in REFUSED], ids=name_of)
def test_a_class_of_another_task_is_what_transformers_builds(row: dict[str, Any]) -> None:
    is_as_built(row)
    has_its_formula(row)


# What transformers 5 works out where a file does not say it, and writes into those that it saves.
WORKED_OUT = ("layer_types", "mlp_layer_types", "indexer_types")
# A saved Dory counts other layers than one that is not listed; an LFM2-MoE has to list them.
LISTED = ("dory", "lfm2_moe")
DEFAULTS = [
    row
    for row in (*KNOWN, *ROWS)
    if not row["variant"] and row["model_type"] not in LISTED and set(WORKED_OUT) & set(row["config"])
]


@pytest.mark.parametrize("row", DEFAULTS, ids=name_of)
def test_a_file_that_does_not_list_its_layers_is_the_same_model(row: dict[str, Any]) -> None:
    config = {key: value for key, value in row["config"].items() if key not in WORKED_OUT}

    is_as_built({**row, "config": config})


@pytest.mark.parametrize("row", REFUSED, ids=name_of)
def test_a_head_that_is_not_described_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(sizer.SizerError, match=f"{row['cls']}.*(of a |not described)"):
        sizer.load(row["config"], cls=row["cls"])


def test_the_prompts_of_mvp() -> None:
    """In memory two of the decoder, as transformers builds them; in files the encoder's, too.

    Each is 100 embeddings of 1024, a layer to 800, and one to the keys and values of 12 layers, with biases.
    """
    prompt = 100 * 1024 + (1024 * 800 + 800) + (800 + 1) * 2 * 12 * 1024
    without, with_ = (sizer.load({"model_type": "mvp", "use_prompt": used}) for used in (False, True))
    in_memory = [t for t in with_.tensors(layout="transformers") if "prompt" in t.name]

    assert with_.count().total - without.count().total == 3 * prompt
    assert sum(math.prod(tensor.shape) for tensor in in_memory) == 2 * prompt
