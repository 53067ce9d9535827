"""The model that a request is about: a preset's name, a configuration, or the header of a file.

Nothing here reads a path or an address of a client's.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from typing import Any

from sizer import loading
from sizer.checkpoint import load_checkpoint
from sizer.errors import BadInput, InvalidConfig, UnknownName, clip, shown
from sizer.service.requests import Upload
from sizer.sources.values import parse_assignment, split_overrides

# Where the file of a request lies while it is read: below the calculator's own folder.
FOLDER = "upload"
_BEGINS = (b"GGUF",)


def model_of(values: dict[str, Any], upload: Upload | None, *, checkpoints: bool) -> Any:
    """Take the model and its overrides out of the values of a request.

    `checkpoints`: whether the command counts files of weights too.
    """
    overrides = _overrides(values.pop("set", None))
    cls = values.pop("class", None)
    if cls is not None and not isinstance(cls, str):
        raise BadInput(f"class = {shown(cls)} is no name of a class")
    target = values.pop("model", None)
    if upload is None:
        return loaded(target, cls, overrides)
    if target is not None:
        raise BadInput("the file and `model` both name a model; give one")
    if not _is_weights(upload.data):
        return loading.from_bytes(upload.data, name=safe_name(upload.name), cls=cls, overrides=overrides)
    if not checkpoints or cls is not None or overrides:
        raise BadInput(
            "a checkpoint has tensors and no formula: count and tensors read it, without `class` and `set`"
        )
    return _checkpoint(upload, values.pop("size", None))


def loaded(target: object, cls: str | None = None, overrides: Mapping[str, Any] | None = None) -> Any:
    """The preset of a name, or the model of a configuration.

    One of several models, which comes without overrides, says for itself what differs:
    `gpt2-small:n_layers=24`, or an object with `model` and `set`, as a request about one model.
    """
    alone = overrides is not None
    if not alone and isinstance(target, dict) and {"model", "set"} <= target.keys():
        return _named(dict(target))
    if not alone and isinstance(target, str) and ":" in target:
        name, found = split_overrides(target)
        if found:
            return _called(loaded(name, cls, found), target[len(name) :])
    if isinstance(target, dict):
        return loading.from_dict(target, cls=cls, overrides=overrides)
    if isinstance(target, str):
        return loading.from_preset(target, cls=cls, overrides=overrides)
    if target is None:
        raise BadInput("name one model: `model` is a preset, or the contents of a config.json")
    raise BadInput(f"model = {shown(target)} is neither the name of a preset nor a configuration")


def _named(values: dict[str, Any]) -> Any:
    given = _overrides(values.get("set"))
    found = model_of(values, None, checkpoints=False)
    if values:
        raise UnknownName("key", next(iter(values)), ("model", "set", "class"))
    return (
        _called(found, ":" + ",".join(f"{key}={value}" for key, value in given.items())) if given else found
    )


def _called(model: Any, more: str) -> Any:
    """A model under the name of what was asked for, beside the one that it differs from."""
    model.name += clip(more)
    return model


def _overrides(given: object) -> dict[str, Any]:
    """`{"n_layers": 24}`, or `n_layers=24` as on the command line."""
    if given is None:
        return {}
    if isinstance(given, dict):
        return given
    overrides: dict[str, Any] = {}
    for text in given if isinstance(given, list) else [given]:
        if not isinstance(text, str):
            raise InvalidConfig(f"{shown(text)} is not of the form KEY=VALUE, such as n_layers=24")
        key, value = parse_assignment(text)
        if key in overrides:
            raise InvalidConfig(f"{clip(key)} is set twice")
        overrides[key] = value
    return overrides


def _is_weights(data: bytes) -> bool:
    return data.startswith(_BEGINS) or (data[8:9] == b"{" and data[4:8] == b"\0\0\0\0")


def safe_name(name: str) -> str:
    """The name of a client's file: its last part, of plain letters.

    >>> safe_name("../../etc/pass wd"), safe_name("C:\\\\m\\\\model.gguf"), safe_name("..")
    ('pass_wd', 'model.gguf', 'file')
    """
    last = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^A-Za-z0-9._-]", "_", last)[-100:].strip(".") or "file"


def _checkpoint(upload: Upload, size: object) -> Any:
    """The checkpoint whose header was sent.

    `size` is that of the whole file. Where it is not given, a file that ends after its header counts
    as whole: the rest is a hole, which takes no room.
    """
    whole = None
    if size is not None:
        if not str(size).isdecimal() or len(str(size)) > 18 or int(str(size)) < len(upload.data):
            raise BadInput(f"size = {shown(size)} is not the bytes of the whole file")
        whole = int(str(size))
    name = safe_name(upload.name)
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.mkdir(FOLDER)
    try:
        os.chdir(FOLDER)
        with open(name, "xb") as file:
            file.write(upload.data)
        if whole is not None:
            os.truncate(name, whole)
        found = load_checkpoint(name)
        if whole is None:
            end = max(((t.offset or 0) + t.bytes for t in found.stored if t.file == name), default=0)
            if end > len(upload.data):
                # Larger than this machine's files may be: then it stays cut off.
                os.truncate(name, min(end, 1 << 43))
                found = load_checkpoint(name)
        # What is worked out when it is asked for may look beside the file once more.
        assert found.logical is not None
        assert found.remarks is not None
        return found
    finally:
        os.chdir("..")
        shutil.rmtree(FOLDER, ignore_errors=True)
