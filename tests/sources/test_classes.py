"""Which classes a model type has: what `--class` and `cls` accept, and what a file may name.

The classes are those of transformers 5.24 (`models/auto/modeling_auto.py`).
"""

from __future__ import annotations

import pytest

import sizer
from sizer.errors import SizerError

SMALL = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
}

# A model, a class of another type, and what the answer names.
STRANGERS = [
    ({"model_type": "llama", **SMALL}, "BertModel", ["class of bert", "LlamaModel", "LlamaForCausalLM"]),
    ({"model_type": "llama", **SMALL}, "BertForPreTraining", ["class of bert", "LlamaForCausalLM"]),
    ({"model_type": "bert", **SMALL}, "RobertaForMaskedLM", ["class of roberta", "BertForMaskedLM"]),
    ({"model_type": "qwen3", **SMALL}, "LlamaModel", ["class of llama", "Qwen3Model"]),
    ({"model_type": "t5"}, "BartModel", ["class of bart", "T5Model"]),
    ("bert-base", "LlamaForCausalLM", ["bert-base", "class of llama", "BertForPreTraining"]),
    ("gpt2-small", "BertModel", ["class of bert", "GPT2LMHeadModel"]),
    ("qwen3-8b", "GPT2Model", ["class of gpt2", "Qwen3ForCausalLM"]),
]


@pytest.mark.parametrize(("target", "cls", "named"), STRANGERS)
def test_a_class_of_another_type_is_refused_and_those_of_this_are_named(
    target: str | dict[str, object], cls: str, named: list[str]
) -> None:
    with pytest.raises(SizerError) as caught:
        sizer.load(target, cls=cls)

    for part in (cls, *named):
        assert part in str(caught.value)


# Llama has no masked class and no multiple choice in transformers; a slip of case is no class either.
@pytest.mark.parametrize(
    ("target", "cls", "near"),
    [
        ({"model_type": "llama", **SMALL}, "LlamaForMaskedLM", "LlamaForCausalLM"),
        ({"model_type": "llama", **SMALL}, "LlamaForMultipleChoice", "LlamaForTokenClassification"),
        ({"model_type": "llama", **SMALL}, "MineForCausalLM", "LlamaForCausalLM"),
        ("bert-base", "BertForMaskedLm", "BertForMaskedLM"),
    ],
)
def test_a_class_that_nobody_has_is_refused(target: str | dict[str, object], cls: str, near: str) -> None:
    with pytest.raises(SizerError, match=f"no class named '{cls}'") as caught:
        sizer.load(target, cls=cls)

    assert near in str(caught.value)


@pytest.mark.parametrize(
    ("model_type", "cls"),
    [
        ("t5", "T5EncoderModel"),
        ("gpt2", "GPT2DoubleHeadsModel"),
        ("gemma3", "Gemma3ForCausalLM"),
        ("llama4", "Llama4TextModel"),
        ("musicgen_decoder", "MusicgenForCausalLM"),
    ],
)
def test_a_class_that_transformers_has_and_its_tables_do_not_list_for_the_type(
    model_type: str, cls: str
) -> None:
    assert sizer.load({"model_type": model_type}, cls=cls).count().total > 0


def test_a_class_of_the_repositorys_own_code_may_be_asked_for() -> None:
    config = {
        "model_type": "llama",
        "auto_map": {"AutoModelForCausalLM": "modeling.MineForCausalLM"},
        **SMALL,
    }
    plain = sizer.load({"model_type": "llama", **SMALL})

    assert sizer.load(config, cls="MineForCausalLM").count().total == plain.count().total


def test_a_preset_that_is_no_type_of_transformers_has_no_classes() -> None:
    with pytest.raises(SizerError, match="palm-8b: a palm is built in one way; it has no class BertModel"):
        sizer.load("palm-8b", cls="BertModel")


@pytest.mark.parametrize("cls", ["BertModel", "OurModel"])
def test_a_file_goes_by_its_type_as_transformers_does_where_it_names_a_class_of_another(cls: str) -> None:
    """`AutoModel` looks `model_type` up and never reads `architectures`."""
    named = sizer.load({"model_type": "llama", "architectures": [cls], **SMALL})
    plain = sizer.load({"model_type": "llama", "architectures": ["LlamaModel"], **SMALL})

    assert named.count().total == plain.count().total
    assert any(f"names {cls}, which is no class of llama" in line for line in named.assumptions)


def test_a_file_whose_class_says_a_task_that_its_type_has_not_is_refused() -> None:
    with pytest.raises(SizerError, match="BertForPreTraining is a class of bert, not of llama"):
        sizer.load({"model_type": "llama", "architectures": ["BertForPreTraining"], **SMALL})
