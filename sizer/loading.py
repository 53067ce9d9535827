"""`sizer.load`: a model from a preset, a file, or a configuration at hand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sizer.core.config import Config
from sizer.core.pattern import PerLayer
from sizer.errors import BadInput, InvalidConfig, clip
from sizer.model import Model
from sizer.sources.config_text import config_in, decoded, read_text
from sizer.sources.hub.target import is_hub

# Endings of files of configurations and weights; no preset has one.
_FILES = (
    *(".json", ".toml", ".yaml", ".yml", ".safetensors", ".gguf", ".onnx"),
    *(".bin", ".pt", ".pth", ".ckpt", ".h5", ".npz", ".msgpack"),
)


def load(
    target: str | os.PathLike[str] | Mapping[str, Any], *, cls: str | None = None, **overrides: Any
) -> Model:
    """A model.

    `target` is the name of a preset, the path of a configuration (or of a folder with one), a
    repository on a hub (`"hub:org/name"`, `"hub:org/name@revision"`), or the contents of a
    `config.json` as a dictionary. The network is used for nothing but `hub:`. `cls` names
    the class to build, where a configuration has several (`"BertModel"`, `"BertForMaskedLM"`).
    Overrides change single fields, under our name or any other tool's; sizes that follow from them
    change too.

    Raises `sizer.SizerError` with a message for people.

    >>> load("gpt2-small", n_layers=24).count().total
    209494272
    >>> load({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632,
    ...       "num_hidden_layers": 22, "num_key_value_heads": 4}).count().total
    1100048384
    """
    if isinstance(target, Mapping):
        return from_dict(target, cls=cls, overrides=overrides)
    path = os.fspath(target)
    if is_hub(path) or os.path.exists(path):
        return from_path(path, cls=cls, overrides=overrides)
    if path.lower().endswith(_FILES) or path.startswith((".", "/", "~")) or path.count("/") > 1:
        from sizer.sources.checkpoints.files import no_file

        raise no_file(path)
    return from_preset(path, cls=cls, overrides=overrides)


def from_preset(name: str, *, cls: str | None = None, overrides: Mapping[str, Any] | None = None) -> Model:
    """The preset of that name."""
    from sizer.sources.presets import preset

    return _from_preset(preset(name), cls, overrides or {})


def _from_preset(found: Any, cls: str | None, overrides: Mapping[str, Any], *, trusted: bool = True) -> Model:
    if found.model_type:
        return _of_model_type(found, cls, overrides, trusted=trusted)
    # A list in a preset of ours is a size for each layer, or stage.
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


def _of_model_type(found: Any, cls: str | None, overrides: Mapping[str, Any], *, trusted: bool) -> Model:
    values = hf_values(found)
    trusted = trusted and not overrides
    model = from_dict(values, name=found.name, cls=cls, overrides=overrides, trusted=trusted)
    model.assumptions = [*found.assumptions, *model.assumptions]
    model.sources = [*_sources(found), *model.sources]
    return model


def hf_values(found: Any) -> dict[str, Any]:
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


def _sources(found: Any) -> list[str]:
    return [f"{found.source} (checked {found.date})"] if found.source else []


def _overridden(
    given: Mapping[str, Any], architecture_name: str, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    from sizer.architectures.registry import architecture
    from sizer.sources.values import canonical, validated

    config = architecture(architecture_name).config
    merged = {canonical(key, config): value for key, value in given.items()}
    changed: dict[str, Any] = {}
    for key, value in overrides.items():
        name = canonical(key, config)
        if name in changed:
            raise InvalidConfig(f"{name} is set twice, once as {clip(key)!r}")
        changed[name] = value
    return validated({**merged, **changed}, config)


def _task_of(cls: str, found: Any) -> str:
    from sizer.sources.hf_config import HFConfig, record_of
    from sizer.sources.model_types import check_class, known_types

    if found.architecture not in known_types():
        raise BadInput(
            f"{found.name}: a {found.architecture} is built in one way; it has no class {clip(cls)}"
        )
    record = record_of(found.architecture)
    check_class(cls, record, found.name)
    return HFConfig({}, record, cls, found.name).task


def from_path(path: str, *, cls: str | None = None, overrides: Mapping[str, Any] | None = None) -> Model:
    """The model of a configuration file, or of the folder that holds one."""
    from sizer.sources.checkpoints.files import is_folder
    from sizer.sources.checkpoints.read import is_checkpoint

    folder = is_folder(path)
    if not folder and is_checkpoint(path):
        raise BadInput(
            f"{clip(path)} is a checkpoint, which has tensors and no formula; count it with `sizer count`, "
            "list it with `sizer tensors`, or read it in Python with sizer.load_checkpoint"
        )
    inside = config_in(path) if folder else path
    text = read_text(inside)
    if inside.endswith(".toml"):
        from sizer.sources.presets import parse

        found = parse(text, inside)
        if len(found) != 1:
            names = ", ".join(p.name for p in found[:8])
            raise BadInput(f"{clip(inside)} holds {len(found)} models ({names}); write one to a file")
        return _from_preset(found[0], cls, overrides or {}, trusted=False)
    model = from_text(text, name=inside, cls=cls, overrides=overrides)
    if is_hub(path):
        from sizer.sources.hub.about import source, weights

        model.name = path
        model.sources.append(source(path))
        model.assumptions += weights(path)
    return model


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
    from sizer.sources.values import canonical, validated

    found = read(values, name=name, overrides=overrides)
    config = architecture(found.model.architecture).config
    with _named(name):
        changed = {canonical(key, config): value for key, value in found.overrides.items()}
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
    if model.mtp_params:
        model.assumptions.append(
            f"{model.mtp_params:,} parameters of layers for multi-token prediction are in the published "
            "files and not in the count; count_mtp=true counts them"
        )
    if hf.stray_class:
        model.assumptions.append(
            f"the file names {hf.cls}, which is no class of {hf.model_type}; counted as the class of "
            f"{hf.model_type} for the same task, {hf.task}"
        )
    if hf.own_class:
        model.assumptions.append(
            f"{hf.cls} is the repository's own code, taken for {hf.model_type} of transformers"
        )
    return model


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


def from_bytes(
    data: bytes, *, name: str, cls: str | None = None, overrides: Mapping[str, Any] | None = None
) -> Model:
    """The model of a configuration's bytes, as they come from standard input or a client."""
    return from_text(decoded(data, name), name=name, cls=cls, overrides=overrides)
