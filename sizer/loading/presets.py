"""A model from a preset: a table of sizes in our words, or in those of a model type of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sizer.core.pattern import PerLayer
from sizer.errors import BadInput, clip
from sizer.loading.values import from_dict
from sizer.model import Model

if TYPE_CHECKING:
    from sizer.sources.presets import Preset


def from_preset(name: str, *, cls: str | None = None, overrides: Mapping[str, Any] | None = None) -> Model:
    """The preset of that name."""
    from sizer.sources.presets import preset

    return of_preset(preset(name), cls, overrides or {})


def of_preset(found: Preset, cls: str | None, overrides: Mapping[str, Any], *, trusted: bool = True) -> Model:
    """The model of a preset at hand.

    `trusted`: it ships with the package, where a test has validated its values.
    """
    if found.model_type:
        return _of_model_type(found, cls, overrides, trusted=trusted)
    # A list in a preset of ours is a size, or a kind, for each layer or stage.
    given = {k: PerLayer(tuple(v)) if isinstance(v, list) else v for k, v in found.config.items()}
    if cls is not None:
        given = {**given, "task": _task_of(cls, found)}
    if overrides or not trusted:
        given = _overridden(given, found.architecture, overrides)
    return Model(
        found.name,
        found.architecture,
        given,
        assumptions=found.assumptions,
        sources=_sources(found),
    )


def _of_model_type(found: Preset, cls: str | None, overrides: Mapping[str, Any], *, trusted: bool) -> Model:
    values = hf_values(found)
    trusted = trusted and not overrides
    model = from_dict(values, name=found.name, cls=cls, overrides=overrides, trusted=trusted)
    model.assumptions = [*found.assumptions, *model.assumptions]
    model.sources = [*_sources(found), *model.sources]
    return model


def hf_values(found: Preset) -> dict[str, Any]:
    """What a preset that names a model type says, as the contents of a `config.json`."""
    from sizer.sources.hf_config import in_its_words, record_of, usual_class

    cls = found.cls or usual_class(record_of(found.model_type))
    # TOML has no null, so a setting that is to be none says so in a word.
    config = {key: None if value == "none" else value for key, value in found.config.items()}
    return {
        "model_type": found.model_type,
        "architectures": [cls],
        **in_its_words(found.model_type, config),
    }


def _sources(found: Preset) -> list[str]:
    return [f"{found.source} (checked {found.date})"] if found.source else []


def _overridden(
    given: Mapping[str, Any], architecture_name: str, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    from sizer.architectures.registry import architecture
    from sizer.sources.values import canonical, canonical_once, validated

    config = architecture(architecture_name).config
    merged = {canonical(key, config): value for key, value in given.items()}
    return validated({**merged, **canonical_once(overrides, config)}, config)


def _task_of(cls: str, found: Preset) -> str:
    from sizer.sources.hf_config import HFConfig, record_of
    from sizer.sources.model_types import check_class, known_types

    if found.architecture not in known_types():
        raise BadInput(
            f"{found.name}: a {found.architecture} is built in one way; it has no class {clip(cls)}"
        )
    record = record_of(found.architecture)
    check_class(cls, record, found.name)
    return HFConfig({}, record, cls, found.name).task
