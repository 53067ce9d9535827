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


# Read off transformers 5.24, which has no `mlp_layer_types` in these two: the first layers stay dense.
SMALL = {
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 100,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
}
DOTS = {"n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}


@pytest.mark.parametrize(
    ("model_type", "cls", "more", "total"),
    [("glm4_moe", "Glm4MoeForCausalLM", {}, 254_528), ("dots1", "Dots1ForCausalLM", DOTS, 254_656)],
)
def test_a_list_that_the_class_does_not_read_changes_nothing(
    model_type: str, cls: str, more: dict[str, int], total: int
) -> None:
    file = {"model_type": model_type, **SMALL, **more, "mlp_layer_types": ["sparse"] * 4}

    assert sizer.load(file, cls=cls).count().total == total
