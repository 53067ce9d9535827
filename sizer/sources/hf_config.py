"""Hugging Face `config.json`: the values in the file, and behind them the defaults of its model type.

A reader in `sizer.architectures` asks an `HFConfig` for keys in the words of transformers and
answers with a `Reading` (`sizer.architectures.registry`). What a file leaves out takes the default
of that model type, read off transformers and kept in `presets/huggingface/model_types.jsonl`. Types
that transformers does not build, since their repositories bring code of their own, are in
`remote_types.jsonl` beside it, written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from sizer.core.config import Config
from sizer.core.dims import MAX_SIZE
from sizer.errors import BadInput, InvalidConfig, UnknownKey, clip, shown
from sizer.sources.json_text import MAX_KEYS
from sizer.sources.model_types import (
    ENDINGS,
    check_class,
    classes_of,
    ending_of,
    is_class_of,
    named_class,
    own_classes,
    own_code_type,
    part_of_class,
    unknown_class,
)
from sizer.sources.model_types import model_type_of_class as model_type_of_class
from sizer.sources.model_types import record_of as record_of
from sizer.sources.model_types import usual_class as usual_class
from sizer.sources.overrides import ALWAYS_KNOWN, SWITCHES
from sizer.sources.overrides import in_its_words as in_its_words
from sizer.sources.spelling import checked, meant
from sizer.sources.values import ALIASES

# Tasks whose head has no labels, whatever the file says of them.
_WITHOUT_LABELS = frozenset(("base", "causal", "seq2seq", "masked", "image_text"))


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
        # The nested configurations that a reader has asked for.
        self.parts: dict[str, HFConfig] = {}
        self._record = record
        self._defaults: Mapping[str, Any] = record.get("defaults", {})
        self._aliases: Mapping[str, str] = record.get("aliases", {})

    def __getitem__(self, key: str) -> Any:
        spellings = (key, *self._spellings(key))
        self.asked.update(spellings)
        for spelling in spellings:
            if spelling in self.values_in_file:
                value, default = self.values_in_file[spelling], self._defaults.get(spelling)
                return checked(spelling, value, default, self.name)
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

    def in_file(self, key: str, default: Any = None) -> Any:
        """The value of a key that the file itself has; the defaults of the model type do not count."""
        return self[key] if self.given(key) else default

    def reads(self, key: str) -> bool:
        """Whether the class has a field of that name; of a class that is not transformers', nobody knows."""
        return not self._defaults or any(name in self._defaults for name in (key, *self._spellings(key)))

    def _spellings(self, key: str) -> Iterator[str]:
        """The other names of a key: the one that transformers maps it to, and what else it maps there."""
        target = self._aliases.get(key, key)
        if target != key:
            yield target
        for alias, mapped in self._aliases.items():
            if mapped == target and alias != key:
                yield alias

    @property
    def task(self) -> str:
        """What the class puts on top of the model: "causal", "masked", "base", …"""
        for task, classes in self._record.get("classes", {}).items():
            if self.cls in classes and task not in ("pretraining", "other"):
                return str(task)
        ending = ending_of(self.cls)
        if ending and not (ending == "Model" and self.own_class):
            return ENDINGS[ending]
        if self.own_class:
            raise BadInput(
                f"{self.name}: {clip(self.cls)} is a class of the repository's own code, which sizer does "
                f"not know; --class {usual_class(self._record)} counts it as a {self.model_type}"
            )
        raise unknown_class(self.cls, self._record)

    @property
    def own_class(self) -> bool:
        """Whether the class is one of the repository's own code that is not known by name."""
        mine = own_classes(self.values_in_file).values()
        return self.cls in mine and self.cls not in classes_of(self._record)

    @property
    def stray_class(self) -> bool:
        """Whether the class is none of the model type's; transformers goes by the type of the file then."""
        known = bool(model_type_of_class(self.cls) or ending_of(self.cls))
        return known and not is_class_of(self.cls, self._record) and not self.own_class

    @property
    def n_labels(self) -> int:
        """Outputs of a classification head."""
        labels = self.values_in_file.get("id2label")
        if isinstance(labels, Mapping) and labels:
            return len(labels)
        number = self.values_in_file.get("num_labels")
        if number is None or self.task in _WITHOUT_LABELS:
            return 2
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= MAX_SIZE:
            raise InvalidConfig(f"{self.name}: num_labels = {shown(number)} is not a positive whole number")
        return number

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
            *ALWAYS_KNOWN,
            *SWITCHES,
        }
        unknown = [key for key in self.values_in_file if key not in known and not key.startswith("_")]
        if len(unknown) > MAX_KEYS:
            raise InvalidConfig(
                f"{self.name} has {len(unknown):,} unknown keys; no configuration has so many"
            )
        missing = [key for key in self._defaults if not self.given(key)]
        for key in unknown:
            near = meant(key, missing)
            if near is not None:
                raise UnknownKey(f"{self.name}: unknown key {clip(key)!r}; did you mean {near!r}?")
        inside = [f"{key}.{below}" for key, part in self.parts.items() for below in part.unknown_keys()]
        return [*unknown, *inside]

    def nested(self, key: str, model_type: str = "", *, merged: bool = False) -> HFConfig:
        """A nested configuration, with the defaults of its own model type.

        `model_type` is the type of one that is missing or does not say. `merged`: what the whole
        assumes of the part holds for each key that the file leaves out, not only for a missing part.
        """
        self.asked.add(key)
        values = self.values_in_file.get(key)
        assumed = self._defaults.get(key) or {}
        if values is None:
            values = assumed
        elif merged and isinstance(values, Mapping):
            values = {**assumed, **values}
        if not isinstance(values, Mapping):
            raise InvalidConfig(f"{self.name}: {key} = {clip(repr(values))} is not an object of settings")
        declared = self._record.get("nested", {}).get(key)
        if isinstance(declared, Mapping) and not values.get("model_type"):
            record: Mapping[str, Any] = declared
        else:
            fallback = model_type or (declared if isinstance(declared, str) else "")
            fixed = key in self._record.get("fixed", ())
            wanted = str(declared if fixed else values.get("model_type") or fallback)
            record = declared if isinstance(declared, Mapping) else record_of(wanted)
            if fallback and key in record.get("nested", {}):
                # Older files give a part the type of a whole, which has such a part itself.
                record = record_of(fallback)
        part = HFConfig(values, record, self.cls, f"{self.name}: {key}")
        self.parts[key] = part
        return part

    def as_type(self, model_type: str) -> HFConfig:
        """The same values, read as a configuration of another model type."""
        self.asked.update(self.values_in_file)
        return HFConfig(self.values_in_file, record_of(model_type), self.cls, self.name)

    def having(self, **decided: Any) -> HFConfig:
        """The same configuration, with values that the whole decides whatever the part says."""
        found = HFConfig({**self.values_in_file, **decided}, self._record, self.cls, self.name)
        found.asked, found.parts = self.asked, self.parts
        return found

    def has_task(self, task: str) -> bool:
        """Whether the model type has a class for a task."""
        return bool(self._record.get("classes", {}).get(task))

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
        No token visits more experts than there are.
        """
        # Asked for only where it is needed: the name of a class may say no task.
        found: dict[str, Any] = {key: getattr(self, key) for key in ("task", "n_labels") if key not in given}
        for field in fields(config):
            name = field.name
            if name in given or name in found or name == "layout":
                continue
            spellings = (*ALIASES.get(name, ()), name)
            # The first word of the model type itself, since a later one may mean something else in it
            # (`block_size` of sparse attention); another tool's only for what it has no word for.
            known = [s for s in spellings if s in self._defaults or s in self._aliases][:1]
            present = known or [s for s in spellings if self.given(s)]
            if present:
                value = self[present[0]]
                if value is not None:
                    found[name] = value
        filled = {**found, **given}
        n_experts, top_k = filled.get("n_experts"), filled.get("top_k")
        if n_experts and isinstance(n_experts, int) and isinstance(top_k, int):
            filled["top_k"] = min(top_k, n_experts)
        return filled


def read(values: Mapping[str, Any], *, cls: str | None = None, name: str = "config") -> HFConfig:
    """A configuration with its model type and its class decided."""
    named = cls or named_class(values)
    model_type = values.get("model_type")
    if model_type is not None and not isinstance(model_type, str):
        raise BadInput(f"{name}: model_type = {shown(model_type)} is not the name of a model type")
    if not isinstance(model_type, str) or not model_type:
        candidates = model_type_of_class(str(named)) if named else []
        if len(candidates) != 1:
            raise BadInput(
                f"{name} has no model_type, so its architecture is unknown; add it, "
                "or --class with the name of its class"
            )
        model_type = candidates[0]
    record = record_of(own_code_type(model_type, named, values) or model_type)
    if not isinstance(named, str) or not named:
        named = usual_class(record)
    if cls and cls not in own_classes(values).values():
        check_class(cls, record, name)
    whole = HFConfig(values, record, named, name)
    if whole.stray_class and not whole.has_task(whole.task):
        check_class(named, record, name)
    part = part_of_class(named, record)
    return whole.nested(part) if part else whole
