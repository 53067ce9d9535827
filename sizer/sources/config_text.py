"""The text of a configuration file, within bounds."""

from __future__ import annotations

import os
from typing import Any

from sizer.errors import BadInput, clip
from sizer.sources.hub.target import is_hub
from sizer.sources.lfs import lfs_size, not_downloaded

# A configuration is a few kilobytes; the largest seen, with a quantization map, has three million.
MAX_CONFIG_BYTES = 32_000_000


def read_text(path: str) -> str:
    """The text of a configuration file, within bounds."""
    if is_hub(path):
        from sizer.sources.checkpoints.files import opened, read_at

        with opened(path) as file:
            return decoded(read_at(file, 0, MAX_CONFIG_BYTES + 1), path)
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
    if (size := lfs_size(data)) is not None:
        raise BadInput(not_downloaded(name, size))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{clip(name)} is not text, so it is no configuration") from None


def config_in(folder: str) -> str:
    """The path of the configuration in a folder of a model."""
    from sizer.sources.checkpoints.files import exists
    from sizer.sources.checkpoints.read import CONFIG_FILES

    for name in CONFIG_FILES:
        if exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise BadInput(
        f"{clip(folder)} is a directory without a config.json; name a file, or a folder that has one"
    )


def config_at(path: str) -> dict[str, Any]:
    """The contents of a `config.json`, or of the one in a folder, as they are."""
    from sizer.sources.checkpoints.files import exists, is_folder, no_file
    from sizer.sources.json_text import parse_object

    if not exists(path):
        raise no_file(path)
    inside = config_in(path) if is_folder(path) else path
    return parse_object(read_text(inside), inside)
