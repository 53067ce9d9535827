"""What holds for every model type with a reader, also those that no measured row of ours covers."""

from __future__ import annotations

import pytest

import sizer
from sizer.architectures.registry import HF_MODULES
from sizer.core.walk import walk
from sizer.report.count import report
from sizer.sources.hf_config import record_of

# Types whose own defaults describe no model: a file of theirs must say more.
INCOMPLETE = {
    "aya_vision",
    "dots1",
    "encoder-decoder",
    "esm",
    "granite4_vision",
    "lfm2_moe",
    "nemotron-nas",
    "orion",
    "qwen4_exp",
    "qwen4_exp_text",
    "vision-encoder-decoder",
    "wav2vec2-bert",
    "wav2vec2-conformer",
}
TYPES = [name for name in sorted(HF_MODULES) if record_of(name).get("classes")]


@pytest.mark.parametrize("model_type", [name for name in TYPES if name not in INCOMPLETE])
def test_the_rows_over_letters_are_the_rows_over_numbers(model_type: str) -> None:
    model = sizer.load({"model_type": model_type})

    assert [row.name for row in walk(model.symbolic_tree())] == [row.name for row in model.rows()]
    assert report(model).view().table is not None


@pytest.mark.parametrize("model_type", sorted(INCOMPLETE))
def test_what_a_file_must_say_is_said_in_one_line(model_type: str) -> None:
    with pytest.raises(sizer.SizerError, match=r"^[^\n]+$"):
        sizer.load({"model_type": model_type})
