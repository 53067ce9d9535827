"""How much of a head is rotated, where a file says so in one of its two places.

Frequencies kept by the modules of transformers 5.24 on the meta device (`inv_freq`, 2026-11-30) for
the default configuration of each type with the settings of the column.
"""

from __future__ import annotations

from typing import Any

import pytest

import sizer

BESIDE: dict[str, Any] = {"rope_scaling": {"type": "linear", "factor": 2.0}, "partial_rotary_factor": 0.4}
PROPORTIONAL: dict[str, Any] = {
    "rope_parameters": {"rope_type": "proportional", "rope_theta": 1e4, "partial_rotary_factor": 0.3}
}
MEASURED = [
    ("axk1", BESIDE, 13),
    ("axk1", PROPORTIONAL, 32),
    ("deepseek_v2", BESIDE, 13),
    ("deepseek_v3", BESIDE, 13),
    ("deepseek_v3", PROPORTIONAL, 32),
    ("glm4_moe_lite", BESIDE, 13),
    ("hy_v4", PROPORTIONAL, 32),
    ("jetmoe", PROPORTIONAL, 64),
    ("lfm2", BESIDE, 16),
    ("minicpm3", BESIDE, 6),
    ("minimax", BESIDE, 26),
    ("olmo_hybrid", BESIDE, 26),
    ("qwen3_5_text", BESIDE, 51),
    ("qwen3_next", BESIDE, 51),
    ("youtu", BESIDE, 13),
]


@pytest.mark.parametrize(("model_type", "said", "frequencies"), MEASURED)
def test_the_frequencies_are_those_that_transformers_keeps(
    model_type: str, said: dict[str, Any], frequencies: int
) -> None:
    model = sizer.load({"model_type": model_type, **said})

    kept = {t.shape for t in model.tensors(layout="transformers") if t.name.endswith("inv_freq")}
    assert kept == {(frequencies,)}


@pytest.mark.parametrize("fraction", [3.0, 0, "all", True])
@pytest.mark.parametrize("model_type", ["glm", "glm4_moe", "glm4_moe_lite", "qwen3_next"])
def test_a_fraction_that_is_none_is_named(model_type: str, fraction: object) -> None:
    with pytest.raises(sizer.SizerError, match=r"partial_rotary_factor = .* is not between 0 and 1"):
        sizer.load({"model_type": model_type, "partial_rotary_factor": fraction})
