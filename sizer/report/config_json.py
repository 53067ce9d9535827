"""A preset as the `config.json` that transformers, and `sizer count`, read to the same model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sizer.core.config import size_names
from sizer.errors import BadInput, UnknownName
from sizer.loading import from_dict, from_preset
from sizer.model import Model
from sizer.sources.hf_config import in_its_words, record_of
from sizer.sources.presets import Preset
from sizer.sources.values import ALIASES

# What no configuration file says: the class does, or the way the tensors are listed.
NOT_IN_A_FILE = ("layout", "task", "n_labels", "causal_masks")


def config_json(preset: Preset) -> dict[str, Any]:
    """The contents of the file, with its model type and its class."""
    model = from_preset(preset.name)
    if model.hf_config is not None:
        return model.hf_config
    try:
        record = record_of(model.architecture)
    except UnknownName:
        raise BadInput(
            f"{preset.name}: transformers has no model type for the architecture {model.architecture!r}, "
            "so it has no config.json; `sizer presets show NAME -q` writes a file that sizer reads"
        ) from None
    written = {
        "model_type": model.architecture,
        "architectures": [record["classes"][model.config.task][0]],
        **in_its_words(model.architecture, _said(model, record)),
    }
    _check(model, from_dict(written, name=preset.name))
    return written


def _said(model: Model, record: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes, and the switches that are not as the model type has them by default."""
    config = model.config
    sizes = size_names(type(config))
    defaults = record["defaults"]
    known = {**defaults, **record.get("aliases", {})}
    said = {}
    for field in fields(config):
        name, value = field.name, getattr(config, field.name)
        spellings = [s for s in (name, *ALIASES.get(name, ())) if s in known or s == "tie_word_embeddings"]
        if name in NOT_IN_A_FILE or value is None or not spellings:
            continue
        if name in sizes or value != defaults.get(spellings[0], True):
            said[name] = value
    return said


def _check(model: Model, read: Model) -> None:
    """A file that cannot say all of a preset would be another model."""
    mine, back = (
        {(t.name, t.shape, t.tied_to) for t in m.tensors() if t.kind == "param"} for m in (model, read)
    )
    assert mine == back, f"a config.json cannot say all of {model.name}"
