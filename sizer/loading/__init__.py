"""`sizer.load`: a model from a preset, a file, or a configuration at hand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sizer.errors import BadInput, clip
from sizer.loading.presets import from_preset as from_preset
from sizer.loading.presets import hf_values as hf_values
from sizer.loading.presets import of_preset
from sizer.loading.values import from_bytes as from_bytes
from sizer.loading.values import from_dict as from_dict
from sizer.loading.values import from_text as from_text
from sizer.model import Model
from sizer.sources.config_text import config_in, read_text
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
        return of_preset(found[0], cls, overrides or {}, trusted=False)
    model = from_text(text, name=inside, cls=cls, overrides=overrides)
    if is_hub(path):
        from sizer.sources.hub.about import source, weights

        model.name = path
        model.sources.append(source(path))
        model.assumptions += weights(path)
    return model
