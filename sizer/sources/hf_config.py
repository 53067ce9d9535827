"""Hugging Face `config.json`: the values in the file, and behind them the defaults of its model type.

A reader in `sizer.architectures` asks an `HFConfig` for keys in the words of transformers and
answers with a `Reading` (`sizer.architectures.registry`). What a file leaves out takes the default
of that model type, read off transformers and kept in `presets/huggingface/model_types.jsonl`. Types
that transformers does not build, since their repositories bring code of their own, are in
`remote_types.jsonl` beside it, written by hand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from typing import Any

from sizer.core.config import Config
from sizer.errors import BadInput, InvalidConfig, UnknownKey, UnknownName, clip, nearest
from sizer.sources.presets import directory
from sizer.sources.values import ALIASES, canonical_name

# What a class of a model type is called in `Config.task`, where the tables of transformers say
# nothing; the ending decides.
_ENDINGS = {
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

# Keys of any file, whatever its model type.
_ALWAYS_KNOWN = (
    "model_type",
    "architectures",
    "auto_map",
    "torch_dtype",
    "dtype",
    "num_labels",
    "tie_word_embeddings",
    "quantization_config",
    "transformers_version",
    "attn_implementation",
    "pruned_heads",
    "tokenizer_class",
    "is_decoder",
)
# What one may ask of a file in our own words, whatever its model type.
_SWITCHES = ("count_mtp",)


class HFConfig(Mapping[str, Any]):
    """The values of one configuration, nested ones apart.

    `hf["hidden_size"]` is the value in the file, under that name or the one transformers maps to
    it, or the default of the model type; a key that neither has is an error that names it.
    """

    def __init__(
        self, values: Mapping[str, Any], record: Mapping[str, Any], cls: str = "", name: str = ""
    ) -> None:
        self.values_in_file = values
        self.model_type: str = record.get("model_type", "")
        self.read_as: str = record.get("same_as", self.model_type)
        self.cls = cls
        self.name = name
        self.asked: set[str] = set()
        self._record = record
        self._defaults: Mapping[str, Any] = record.get("defaults", {})
        self._aliases: Mapping[str, str] = record.get("aliases", {})

    def __getitem__(self, key: str) -> Any:
        spellings = (key, *self._spellings(key))
        self.asked.update(spellings)
        for spelling in spellings:
            if spelling in self.values_in_file:
                return self.values_in_file[spelling]
        for spelling in spellings:
            if spelling in self._defaults:
                return self._defaults[spelling]
        raise InvalidConfig(f"{self.name}: a {self.model_type} configuration needs {key!r}")

    def __iter__(self) -> Iterator[str]:
        return iter({**self._defaults, **self.values_in_file})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, key: object) -> bool:
        return any(s in self.values_in_file or s in self._defaults for s in (key, *self._spellings(str(key))))

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default` where neither the file nor the model type has it."""
        if key not in self:
            return default
        return self[key]

    def per_layer(self, key: str, n_layers: int) -> list[Any] | None:
        """A list with an entry for each layer, or `None`; one that is too short is an error."""
        values = self.get(key)
        if values is None:
            return None
        if not isinstance(values, list | tuple) or len(values) < n_layers:
            raise InvalidConfig(f"{self.name}: {key} must be a list of {n_layers} entries, one a layer")
        return list(values[:n_layers])

    def given(self, key: str) -> bool:
        """Whether the file itself has the key, under any of its names."""
        return any(spelling in self.values_in_file for spelling in (key, *self._spellings(key)))

    def _spellings(self, key: str) -> Iterator[str]:
        if key in self._aliases:
            yield self._aliases[key]
        for alias, target in self._aliases.items():
            if target == key:
                yield alias

    @property
    def task(self) -> str:
        """What the class puts on top of the model: "causal", "masked", "base", …"""
        for task, classes in self._record.get("classes", {}).items():
            if self.cls in classes and task != "pretraining":
                return str(task)
        for ending in sorted(_ENDINGS, key=len, reverse=True):
            if self.cls.endswith(ending) and not (ending == "Model" and self.own_class):
                return _ENDINGS[ending]
        if self.own_class:
            raise BadInput(
                f"{self.name}: {clip(self.cls)} is a class of the repository's own code, which sizer does "
                f"not know; --class {usual_class(self._record)} counts it as a {self.model_type}"
            )
        raise UnknownName(
            "class",
            self.cls,
            [c for cs in self._record.get("classes", {}).values() for c in cs],
            hint=f"known for {self.model_type}",
        )

    @property
    def own_class(self) -> bool:
        """Whether the class is one of the repository's own code that is not known by name."""
        mine = own_classes(self.values_in_file).values()
        return self.cls in mine and self.cls not in _classes(self._record)

    @property
    def n_labels(self) -> int:
        """Outputs of a classification head."""
        labels = self.values_in_file.get("id2label")
        if isinstance(labels, Mapping):
            return len(labels)
        return int(self.values_in_file.get("num_labels", 2))

    @property
    def saved_by_transformers_5(self) -> bool:
        """Whether transformers 5 wrote the file: it ties and names a few tensors in its own way.

        Files of published checkpoints are mostly older, and then what they store decides.
        """
        return str(self.values_in_file.get("transformers_version", "")).startswith("5.")

    def unknown_keys(self) -> list[str]:
        """Keys of the file that neither transformers nor a reader knows; misspelt sizes are errors."""
        known = {
            *self._defaults,
            *self._aliases,
            *self._aliases.values(),
            *self.asked,
            *self._record.get("ignored", ()),
            *self._record.get("nested", {}),
            *_ALWAYS_KNOWN,
            *_SWITCHES,
        }
        unknown = [key for key in self.values_in_file if key not in known and not key.startswith("_")]
        for key in unknown:
            missing = [k for k in self._defaults if k not in self.values_in_file]
            near = get_close_matches(key, missing, n=1, cutoff=0.9)
            if near:
                raise UnknownKey(f"{self.name}: unknown key {clip(key)!r}; did you mean {near[0]!r}?")
        return unknown

    def nested(self, key: str, model_type: str = "") -> HFConfig:
        """A nested configuration, with the defaults of its own model type.

        `model_type` is the type of one that is missing or does not say.
        """
        self.asked.add(key)
        values = self.values_in_file.get(key)
        if values is None:
            values = self._defaults.get(key) or {}
        if not isinstance(values, Mapping):
            raise InvalidConfig(f"{self.name}: {key} = {clip(repr(values))} is not an object of settings")
        declared = self._record.get("nested", {}).get(key)
        if isinstance(declared, Mapping) and not values.get("model_type"):
            record: Mapping[str, Any] = declared
        else:
            fallback = model_type or (declared if isinstance(declared, str) else "")
            wanted = str(values.get("model_type") or fallback)
            record = declared if isinstance(declared, Mapping) else record_of(wanted)
        return HFConfig(values, record, self.cls, f"{self.name}: {key}")

    def as_task(self, task: str) -> HFConfig:
        """The same configuration, for the class that its model type has for a task."""
        classes = self._record.get("classes", {}).get(task)
        if not classes:
            raise InvalidConfig(f"{self.name}: the model type {self.model_type!r} has no {task} class")
        return HFConfig(self.values_in_file, self._record, str(classes[0]), self.name)

    def fill(self, config: type[Config], **given: Any) -> dict[str, Any]:
        """The fields of a configuration that this file decides; `given` wins.

        Each field not given is looked up under its own name and those of `ALIASES`, the file
        before the defaults; one that is nowhere, or null, is left to the configuration to derive.
        """
        found: dict[str, Any] = {"task": self.task, "n_labels": self.n_labels}
        for field in fields(config):
            name = field.name
            if name in given or name in found or name == "layout":
                continue
            spellings = (*ALIASES.get(name, ()), name)
            present = [s for s in spellings if self.given(s)] or [s for s in spellings if s in self]
            if present:
                value = self[present[0]]
                if value is not None:
                    found[name] = value
        return {**found, **given}


def record_of(model_type: str) -> Mapping[str, Any]:
    """What transformers assumes for a model type: defaults, aliases, nested types, classes."""
    line = _lines().get(model_type)
    if line is None:
        raise UnknownName("model type", model_type, _lines(), hint="sizer count --with torch")
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


def language_model(hf: HFConfig, model_type: str) -> HFConfig:
    """The configuration of a multimodal model's language model, for a class that is that alone.

    Its keys stand in `text_config`, or in the file itself where there is none.
    """
    known = [cls for classes in record_of(model_type)["classes"].values() for cls in classes]
    if hf.cls not in known:
        raise UnknownName(
            "class", hf.cls, known, hint=f"of {hf.model_type}, the language model alone is known"
        )
    if hf["text_config"] is None:
        return HFConfig(hf.values_in_file, record_of(model_type), hf.cls, hf.name)
    return hf.nested("text_config", model_type)


def model_type_of_class(cls: str) -> list[str]:
    """The model types that have a class of that name."""
    return [name for name, line in _lines().items() if f'"{cls}"' in line]


def read(values: Mapping[str, Any], *, cls: str | None = None, name: str = "config") -> HFConfig:
    """A configuration with its model type and its class decided."""
    named = cls or _named(values)
    model_type = values.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        candidates = model_type_of_class(str(named)) if named else []
        if len(candidates) != 1:
            raise BadInput(
                f"{name} has no model_type, so its architecture is unknown; add it, "
                "or --class with the name of its class"
            )
        model_type = candidates[0]
    record = record_of(_own_code_type(model_type, named, values) or model_type)
    if not isinstance(named, str) or not named:
        named = usual_class(record)
    return HFConfig(values, record, named, name)


def _named(values: Mapping[str, Any]) -> Any:
    architectures = values.get("architectures")
    return architectures[0] if isinstance(architectures, list) and architectures else None


def _own_code_type(model_type: str, cls: Any, values: Mapping[str, Any]) -> str | None:
    """The type of a file whose own code says more than its `model_type`, which is another's.

    Its record names that type in `instead_of`. The two are told apart by a class that the other
    type has not, by the configuration that `auto_map` points to, or by keys that mark such a file.
    """
    config = own_classes(values).get("AutoConfig")
    for record in _instead().get(model_type, ()):
        own = cls in _classes(record) and cls not in _classes(record_of(model_type))
        marked = any(key in values for key in record.get("marked_by", ()))
        if own or marked or config in record["config_classes"]:
            return str(record["model_type"])
    return None


def _classes(record: Mapping[str, Any]) -> list[str]:
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


def overridden(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a file with some replaced; a key may be in our words or transformers'."""
    if not overrides:
        return dict(values)
    changed: dict[str, Any] = {}
    model_type = str(values.get("model_type", ""))
    record = record_of(_own_code_type(model_type, _named(values), values) or model_type)
    known = {**record.get("defaults", {}), **record.get("aliases", {}), **values}
    for key, value in overrides.items():
        spelled = _spelled(key, known, record)
        if spelled in changed:
            raise InvalidConfig(f"{spelled} is set twice, once as {clip(key)!r}")
        changed[spelled] = value
    return {**values, **changed}


def _spelled(key: str, known: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    if key in known or key in record.get("ignored", ()) or key in _SWITCHES:
        return key
    name = canonical_name(key)
    for spelling in (name, *ALIASES.get(name, ())):
        if spelling in known:
            return spelling
    near = nearest(key, [*known, *ALIASES])
    guess = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise UnknownKey(f"a {record['model_type']} configuration has no key {clip(key)!r}{guess}")
