"""What is known of each model type: as transformers has it, or as the model's own code does.

Types that transformers does not build, since their repositories bring code of their own, are in
`remote_types.jsonl`, written by hand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Mapping
from functools import cache
from typing import Any

from sizer.errors import BadInput, UnknownName
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
_LONGEST_FIRST = sorted(ENDINGS, key=len, reverse=True)
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
# The tasks of which `model_types.jsonl` has every class, from transformers' own tables.
_TABULATED = frozenset(
    (
        "base",
        "causal",
        "masked",
        "seq2seq",
        "pretraining",
        "sequence",
        "token",
        "qa",
        "choice",
        "next_sentence",
    )
)


def ending_of(cls: str) -> str:
    """What the name of a class ends in, where that says what stands on top of the model.

    >>> ending_of("BertForMaskedLM"), stem_of("BertForMaskedLM")
    ('ForMaskedLM', 'Bert')
    """
    return next((ending for ending in _LONGEST_FIRST if cls.endswith(ending)), "")


def stem_of(cls: str) -> str:
    """The name of a class without what it ends in."""
    return cls.removesuffix(ending_of(cls))


def record_of(model_type: str) -> Mapping[str, Any]:
    """What transformers assumes for a model type: defaults, aliases, nested types, classes."""
    line = _lines().get(model_type)
    if line is None:
        hint = "sizer count --with torch asks transformers"
        raise UnknownName("model type", model_type, _lines(), hint=hint)
    record: dict[str, Any] = json.loads(line)
    if "same_as" in record:
        # A type that is another under a name, and with defaults, of its own.
        base = record_of(record["same_as"])
        merged = {
            key: {**base.get(key, {}), **record.get(key, {})} for key in ("defaults", "aliases", "classes")
        }
        return {**base, **record, **merged}
    return record


@cache
def _lines() -> dict[str, str]:
    # The files have a line for each of hundreds of types; only the one asked for is parsed.
    start = '{"model_type":"'
    lines: dict[str, str] = {}
    for name in ("model_types.jsonl", "remote_types.jsonl"):
        with open(os.path.join(directory("huggingface"), name), encoding="utf-8") as file:
            for line in file:
                if line.startswith(start):
                    lines[line[len(start) : line.index('"', len(start))]] = line
    return lines


def model_type_of_class(cls: str) -> list[str]:
    """The model types that have a class of that name."""
    return [name for name, line in _lines().items() if f'"{cls}"' in line]


def own_code_type(model_type: str, cls: Any, values: Mapping[str, Any]) -> str | None:
    """The type of a file whose own code says more than its `model_type`, which is another's.

    Its record names that type in `instead_of`. The two are told apart by a class that the other
    type has not, by the configuration that `auto_map` points to, or by keys that mark such a file.
    """
    config = own_classes(values).get("AutoConfig")
    for record in _instead().get(model_type, ()):
        own = cls in classes_of(record) and cls not in classes_of(record_of(model_type))
        marked = any(key in values for key in record.get("marked_by", ()))
        if own or marked or config in record["config_classes"]:
            return str(record["model_type"])
    return None


def classes_of(record: Mapping[str, Any]) -> list[str]:
    """The classes of a model type."""
    return [name for names in record.get("classes", {}).values() for name in names]


@cache
def _instead() -> dict[str, list[dict[str, Any]]]:
    """The types that files give another's name, by that name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in _lines().values():
        if '"instead_of"' in line:
            record = json.loads(line)
            for name in record["instead_of"]:
                found.setdefault(name, []).append(record)
    return found


def part_of_class(cls: str, record: Mapping[str, Any]) -> str:
    """The nested configuration of a class that is a part alone, as `Llama4TextModel` of a Llama 4."""
    known = classes_of(record)
    if cls in known:
        return ""
    stem, stems = stem_of(cls).lower(), {stem_of(one).lower() for one in known}
    parts = ((key, key.removesuffix("_config")) for key in record.get("nested", {}))
    return next((key for key, part in parts if any(stem == one + part for one in stems)), "")


def is_class_of(cls: str, record: Mapping[str, Any]) -> bool:
    """Whether a model type has a class of that name, for itself or for a part of it.

    A class that the tables of transformers do not list, such as `T5EncoderModel`, is known by its
    stem; one whose task they do list, such as a masked one, would stand there.

    >>> llama = record_of("llama")
    >>> [is_class_of(cls, llama) for cls in ("LlamaModel", "LlamaForMaskedLM", "BertModel")]
    [True, False, False]
    """
    known = classes_of(record)
    if cls in known or part_of_class(cls, record):
        return True
    owners = model_type_of_class(cls)
    if stem_of(cls).lower() in {stem_of(one).lower() for one in known}:
        return bool(owners) or ENDINGS.get(ending_of(cls)) not in _TABULATED
    # The decoder of a Musicgen is built by classes of the whole.
    return any(record["model_type"] in record_of(owner).get("nested", {}).values() for owner in owners)


def check_class(cls: str, record: Mapping[str, Any], name: str) -> None:
    """Refuse a class that somebody asks for and the model type has not.

    A class that no type has by name and no ending tells of is left to the reader of the type, as
    `DetrForObjectDetection`.
    """
    owners = model_type_of_class(cls)
    if is_class_of(cls, record) or not (owners or ending_of(cls)):
        return
    if owners:
        owner = min(owners, key=lambda one: (one.replace("-", "") != stem_of(cls).lower(), len(one)))
        raise BadInput(
            f"{name}: {cls} is a class of {owner}, not of {record['model_type']}; {classes_said(record)}"
        )
    raise unknown_class(cls, record)


def unknown_class(cls: str, record: Mapping[str, Any]) -> UnknownName:
    """That a model type has no class of that name, and which it has."""
    return UnknownName("class", cls, classes_of(record), hint=classes_said(record))


def classes_said(record: Mapping[str, Any]) -> str:
    """The classes of a model type, for a message."""
    known = list(dict.fromkeys(classes_of(record)))
    return f"a {record.get('model_type', 'model')} has {', '.join(known[:8]) or 'no classes of its own'}"


def own_classes(values: Mapping[str, Any]) -> dict[str, str]:
    """The classes that the repository of a file brings itself, by what transformers loads them as."""
    auto_map = values.get("auto_map")
    if not isinstance(auto_map, Mapping):
        return {}
    return {key: value.rpartition(".")[2] for key, value in auto_map.items() if isinstance(value, str)}


def usual_class(record: Mapping[str, Any]) -> str:
    """The class people mean by the name of a model type: its language model, if it has one."""
    classes = record.get("classes", {})
    both = record.get("defaults", {}).get("is_encoder_decoder")
    for task in ("seq2seq", "speech_seq2seq", *_USUAL) if both else _USUAL:
        if task in classes:
            return str(classes[task][0])
    return ""


def known_types() -> Container[str]:
    """The model types that there are."""
    return _lines()


def named_class(values: Mapping[str, Any]) -> Any:
    """The class that a file names, whatever it is."""
    architectures = values.get("architectures")
    return architectures[0] if isinstance(architectures, list) and architectures else None
