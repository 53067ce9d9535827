"""A model from the contents of a configuration: of Hugging Face, or of another tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sizer.core.config import Config
from sizer.errors import InvalidConfig, clip
from sizer.model import Model
from sizer.sources.config_text import decoded

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def from_bytes(
    data: bytes, *, name: str, cls: str | None = None, overrides: Mapping[str, Any] | None = None
) -> Model:
    """The model of a configuration's bytes, as they come from standard input or a client."""
    return from_text(decoded(data, name), name=name, cls=cls, overrides=overrides)


def from_text(
    text: str, *, name: str, cls: str | None = None, overrides: Mapping[str, Any] | None = None
) -> Model:
    """The model of a configuration's text: JSON, or YAML by its name or its look."""
    from sizer.sources.yaml_text import looks_like_yaml, parse_mapping

    if looks_like_yaml(text, name):
        return _from_values(parse_mapping(text, name), name, cls, overrides or {})
    from sizer.sources.json_text import parse_object

    return _from_values(parse_object(text, name), name, cls, overrides or {})


def from_dict(
    values: Mapping[str, Any],
    *,
    name: str = "config",
    cls: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    trusted: bool = False,
) -> Model:
    """The model of the contents of a `config.json`, of Hugging Face or of another tool.

    `trusted`: the values ship with the package, where a test has validated them.
    """
    if trusted:
        return _from_hf(values, name, cls, overrides or {}, trusted=True)
    from sizer.sources.json_text import checked_object

    return _from_values(checked_object(values, name), name, cls, overrides or {})


def _from_values(values: dict[str, Any], name: str, cls: str | None, overrides: Mapping[str, Any]) -> Model:
    from sizer.architectures.index import HF_MODULES
    from sizer.sources.foreign import is_foreign, text_part

    if cls is None and is_foreign(values):
        return _from_foreign(values, name, overrides)
    text = text_part(values, name, HF_MODULES) if cls is None else None
    if text is not None:
        model = _from_hf(text.values, text.name, None, overrides)
        model.name = name
        model.assumptions.append(text.assumption)
        return model
    return _from_hf(values, name, cls, overrides)


def _from_foreign(values: dict[str, Any], name: str, overrides: Mapping[str, Any]) -> Model:
    from sizer.architectures.registry import architecture
    from sizer.sources.formats import read
    from sizer.sources.values import canonical_once, validated

    found = read(values, name=name, overrides=overrides)
    config = architecture(found.model.architecture).config
    with _named(name):
        changed = canonical_once(found.overrides, config)
        given = validated({**found.model.given, **changed}, config)
    model = Model(
        name,
        found.model.architecture,
        given,
        assumptions=found.model.assumptions,
        sources=[f"{found.known.title} configuration"],
    )
    model.unknown_keys = found.unknown
    return model


def _from_hf(
    values: Mapping[str, Any],
    name: str,
    cls: str | None,
    overrides: Mapping[str, Any],
    *,
    trusted: bool = False,
) -> Model:
    from sizer.architectures import registry
    from sizer.sources.hf_config import read
    from sizer.sources.overrides import overridden
    from sizer.sources.values import validated, well_formed

    changed = overridden(values, overrides)
    hf = read(changed, cls=cls, name=name)
    with _named(name), _wrong_values(name, hf.model_type):
        reading = registry.read(hf)
        config = registry.architecture(reading.architecture).config
        given = well_formed(reading.given, config) if trusted else validated(reading.given, config)
    unknown = hf.unknown_keys()
    with _wrong_values(name, hf.model_type):
        model = Model(
            name,
            reading.architecture,
            given,
            assumptions=reading.assumptions,
            sources=[f"{hf.model_type} configuration, class {hf.cls}"],
        )
        # A size that a file sets to null is noticed where a tensor would have it.
        if not trusted:
            model.count()
    model.hf_config = {**changed, "model_type": hf.model_type}
    model.hf_class = hf.cls
    model.unknown_keys = unknown
    model.assumptions += _notes(model, hf)
    return model


def _notes(model: Model, hf: HFConfig) -> Iterator[str]:
    """What is said of a count beside what its reader assumed."""
    if model.mtp_params:
        yield (
            f"{model.mtp_params:,} parameters of layers for multi-token prediction are in the published "
            "files and not in the count; count_mtp=true counts them"
        )
    if hf.stray_class:
        yield (
            f"the file names {hf.cls}, which is no class of {hf.model_type}; counted as the class of "
            f"{hf.model_type} for the same task, {hf.task}"
        )
    if hf.own_class:
        yield f"{hf.cls} is the repository's own code, taken for {hf.model_type} of transformers"


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Begin every message about a configuration with its name."""
    try:
        yield
    except InvalidConfig as error:
        message = str(error)
        raise type(error)(message if message.startswith(name) else f"{name}: {message}") from None


@contextmanager
def _wrong_values(name: str, model_type: str) -> Iterator[None]:
    """What a reader cannot compute with is the fault of the file, such as a list for a number."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, AttributeError) and isinstance(error.obj, Config):
            # A builder that asks for a field that there is none of: no file causes that.
            raise
        raise InvalidConfig(
            f"{name}: its values describe no {model_type} model: {type(error).__name__}: {clip(error)}"
        ) from error
