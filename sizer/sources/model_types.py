"""What transformers assumes for each model type, read off it and kept with the presets."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Mapping
from functools import cache
from typing import Any

from sizer.errors import UnknownName
from sizer.sources.presets import directory

# What a class of a model type is called in `Config.task`, where the tables of transformers say
# nothing; the ending decides.
ENDINGS = {
    "ForSequenceClassification": "sequence",
    "ForTokenClassification": "token",
    "ForQuestionAnswering": "qa",
    "ForQuestionAnsweringSimple": "qa_simple",
    "ForMultipleChoice": "choice",
    "ForNextSentencePrediction": "next_sentence",
    "ForEntityClassification": "entity",
    "ForEntityPairClassification": "entity_pair",
    "ForEntitySpanClassification": "entity_span",
    "ForPreTraining": "pretraining",
    "ForAudioClassification": "audio_classification",
    "ForMaskedLM": "masked",
    "ForCausalLM": "causal",
    "LMHeadModel": "causal",
    "WithLMHeadModel": "causal",
    "DoubleHeadsModel": "double_heads",
    "ForConditionalGeneration": "seq2seq",
    "EncoderModel": "encoder",
    "ForRetrieval": "retrieval",
    "ForOpticalFlow": "optical_flow",
    "ForMultimodalAutoencoding": "multimodal_autoencoding",
    "Model": "base",
}
# The task of a file that names no class: what people mean by "the model".
_USUAL = (
    "causal",
    "seq2seq",
    "image_text",
    "multimodal",
    "masked",
    "speech_seq2seq",
    "ctc",
    "image_classification",
    "pretraining",
    "base",
)


# Names that a model type had in files of before transformers knew it.
_OLDER_NAMES = {"RefinedWeb": "falcon", "RefinedWebModel": "falcon"}


def record_of(model_type: str) -> Mapping[str, Any]:
    """What transformers assumes for a model type: defaults, aliases, nested types, classes."""
    line = _lines().get(_OLDER_NAMES.get(model_type, model_type))
    if line is None:
        raise UnknownName("model type", model_type, _lines(), hint="sizer count --with torch")
    record: dict[str, Any] = json.loads(line)
    return record


def known_types() -> Container[str]:
    """The model types of transformers."""
    return _lines()


@cache
def _lines() -> dict[str, str]:
    # The file has a line for each of hundreds of types; only the one asked for is parsed.
    path = os.path.join(directory("huggingface"), "model_types.jsonl")
    start = '{"model_type":"'
    with open(path, encoding="utf-8") as file:
        return {
            line[len(start) : line.index('"', len(start))]: line for line in file if line.startswith(start)
        }


def model_type_of_class(cls: str) -> list[str]:
    """The model types that have a class of that name."""
    return [name for name, line in _lines().items() if f'"{cls}"' in line]


def usual_class(record: Mapping[str, Any]) -> str:
    """The class people mean by the name of a model type: its language model, if it has one."""
    classes = record.get("classes", {})
    both = record.get("defaults", {}).get("is_encoder_decoder")
    for task in ("seq2seq", "speech_seq2seq", *_USUAL) if both else _USUAL:
        if task in classes:
            return str(classes[task][0])
    return ""
