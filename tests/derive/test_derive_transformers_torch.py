"""Closed forms of every type of transformers, from the modules alone, against our own."""

from __future__ import annotations

import runpy

import pytest
from repository import ROOT

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.long, pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

TOOL = runpy.run_path(str(ROOT / "tools" / "derive_coverage.py"))
# Types that have no formula, and what of the reason is said.
NONE = {
    "blt": "accepts too few combinations of",
    "dbrx": "no attribute 'rope_theta'",
    "gemma3n_text": "the formula of small sizes is not that of the given ones",
    "gemma4_assistant": "refuses these values",
    "got_ocr2": "no expression holds at fresh points",
    "zamba": "the formula of small sizes is not that of the given ones",
}
# The published checkpoints tie its head, and transformers 5 does not.
DISPUTED = {"bigbird_pegasus"}


@pytest.mark.parametrize("model_type", sorted(TOOL["classes"]()))
def test_our_architecture_is_the_derived_formula(model_type: str) -> None:
    """At random configurations, which neither was made from: two formulas of two origins."""
    found = TOOL["outcome"]((model_type, TOOL["classes"]()[model_type]))

    if model_type in NONE:
        assert NONE[model_type] in found["error"]
    else:
        assert "error" not in found, found["error"]
        assert found["points"] == TOOL["CHECKS"]
        assert bool(found["differs"]) == (model_type in DISPUTED)
