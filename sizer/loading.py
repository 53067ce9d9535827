"""`sizer.load`: a model from a preset, a file, or a configuration at hand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sizer.errors import BadInput, InvalidConfig, UnknownName, clip
from sizer.model import Model

# A configuration is a few kilobytes; the largest seen, with a quantization map, has three million.
MAX_CONFIG_BYTES = 32_000_000


def load(
    target: str | os.PathLike[str] | Mapping[str, Any], *, cls: str | None = None, **overrides: Any
) -> Model:
    """A model.

    `target` is the name of a preset, the path of a configuration (or of a folder with one), or
    the contents of a `config.json` as a dictionary. `cls` names the class to build, where a
    configuration has several (`"BertModel"`, `"BertForMaskedLM"`). Overrides change single fields,
    under our name or any other tool's; sizes that follow from them change too.

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
    if os.path.exists(path):
        return from_path(path, cls=cls, overrides=overrides)
    if path.endswith((".json", ".toml")) or path.startswith((".", "/", "~")):
        raise BadInput(f"there is no file {clip(path)!r}")
    return from_preset(path, cls=cls, overrides=overrides)


def from_preset(name: str, *, cls: str | None = None, overrides: Mapping[str, Any] | None = None) -> Model:
    """The preset of that name."""
    from sizer.sources.presets import preset

    return _from_preset(preset(name), cls, overrides or {})


def _from_preset(found: Any, cls: str | None, overrides: Mapping[str, Any], *, trusted: bool = True) -> Model:
    given = found.config
    if cls is not None:
        given = {**given, "task": _task_of(cls, found.architecture)}
    if overrides or not trusted:
        given = _overridden(given, found.architecture, overrides)
    return Model(
        found.name,
        found.architecture,
        given,
        assumptions=found.assumptions,
        sources=[f"{found.source} (checked {found.date})"] if found.source else [],
    )


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


def _task_of(cls: str, architecture_name: str) -> str:
    from sizer.sources.hf_config import HFConfig, model_type_of_class, record_of

    types = model_type_of_class(cls)
    if not types:
        raise UnknownName("class", cls, (), hint=f"to build a {architecture_name} model as")
    record = record_of(architecture_name if architecture_name in types else types[0])
    return HFConfig({}, record, cls).task


def from_path(path: str, *, cls: str | None = None, overrides: Mapping[str, Any] | None = None) -> Model:
    """The model of a configuration file, or of the folder that holds one."""
    if os.path.isdir(path):
        inside = os.path.join(path, "config.json")
        if not os.path.exists(inside):
            raise BadInput(
                f"{clip(path)} is a directory without a config.json; name a file, or a folder that has one"
            )
        path = inside
    text = read_text(path)
    if path.endswith(".toml"):
        from sizer.sources.presets import parse

        found = parse(text, path)
        if len(found) != 1:
            names = ", ".join(p.name for p in found[:8])
            raise BadInput(f"{clip(path)} holds {len(found)} models ({names}); write one to a file")
        return _from_preset(found[0], cls, overrides or {}, trusted=False)
    return from_text(text, name=path, cls=cls, overrides=overrides)


def from_text(
    text: str, *, name: str, cls: str | None = None, overrides: Mapping[str, Any] | None = None
) -> Model:
    """The model of a configuration's text (JSON)."""
    from sizer.sources.json_text import parse_object

    return from_dict(parse_object(text, name), name=name, cls=cls, overrides=overrides)


def from_dict(
    values: Mapping[str, Any],
    *,
    name: str = "config",
    cls: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Model:
    """The model of the contents of a Hugging Face `config.json`."""
    from sizer.architectures import registry
    from sizer.sources.hf_config import overridden, read
    from sizer.sources.values import validated

    changed = overridden(values, overrides or {})
    hf = read(changed, cls=cls, name=name)
    try:
        reading = registry.read(hf)
        given = validated(reading.given, registry.architecture(reading.architecture).config)
    except InvalidConfig as error:
        message = str(error)
        raise InvalidConfig(message if message.startswith(name) else f"{name}: {message}") from None
    model = Model(
        name,
        reading.architecture,
        given,
        assumptions=reading.assumptions,
        sources=[f"{hf.model_type} configuration, class {hf.cls}"],
    )
    model.hf_config = {**changed, "model_type": hf.model_type}
    model.hf_class = hf.cls
    model.unknown_keys = hf.unknown_keys()
    if model.mtp_params:
        model.assumptions.append(
            f"{model.mtp_params:,} parameters of layers for multi-token prediction are in the published "
            "files and not in the count; count_mtp=true counts them"
        )
    if hf.own_class:
        model.assumptions.append(
            f"{hf.cls} is the repository's own code, taken for {hf.model_type} of transformers"
        )
    return model


def from_bytes(
    data: bytes, *, name: str, cls: str | None = None, overrides: Mapping[str, Any] | None = None
) -> Model:
    """The model of a configuration's bytes, as they come from standard input or a client."""
    return from_text(decoded(data, name), name=name, cls=cls, overrides=overrides)


def read_text(path: str) -> str:
    """The text of a configuration file, within bounds."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except PermissionError:
        raise BadInput(f"no permission to read {clip(path)}") from None
    except OSError as error:
        raise BadInput(f"cannot read {clip(path)}: {error.strerror}") from None
    return decoded(data, path)


def decoded(data: bytes, name: str) -> str:
    """Bytes as the text of a configuration."""
    if len(data) > MAX_CONFIG_BYTES:
        raise BadInput(f"{clip(name)} is over {MAX_CONFIG_BYTES:,} bytes, too large for a configuration")
    if not data.strip():
        raise BadInput(f"{clip(name)} is empty")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{clip(name)} is not text, so it is no configuration") from None
