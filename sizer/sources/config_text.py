"""The text of a configuration file, within bounds."""

from __future__ import annotations

from sizer.errors import BadInput, clip

# A configuration is a few kilobytes; the largest seen, with a quantization map, has three million.
MAX_CONFIG_BYTES = 32_000_000


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
