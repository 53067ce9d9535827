"""What the configurations beside the files say of quantization."""

from __future__ import annotations

import os
from typing import Any

from sizer.errors import SizerError
from sizer.sources.checkpoints.files import json_file
from sizer.sources.checkpoints.stored import Contents


class Settings:
    """What the files beside the weights say of quantization.

    `methods` are the objects found, outermost first: `quantization_config` of `config.json`, also one
    nested in `text_config`; older files of GPTQ and AWQ; MLX's `quantization`.
    """

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.methods: list[dict[str, Any]] = []
        self.remarks: list[str] = []

    def number(self, *keys: str) -> int | None:
        """The first whole number under one of some keys."""
        for found in self.methods:
            for key in keys:
                value = found.get(key)
                if type(value) is int and value > 0:
                    return value
        return None

    def word(self, key: str) -> str:
        """The first text under a key."""
        for found in self.methods:
            value = found.get(key)
            if isinstance(value, str):
                return value.lower()
        return ""


_FILES = ("quantize_config.json", "quant_config.json")


def settings_of(contents: Contents) -> Settings:
    """Read the configurations beside the files of a checkpoint."""
    found = Settings()
    folder = os.path.dirname(contents.files[0]) if contents.files else contents.path

    def file(name: str) -> dict[str, Any]:
        try:
            return json_file(os.path.join(folder, name)) or {}
        except SizerError as error:
            found.remarks.append(f"not read: {error}")
            return {}

    found.config = file("config.json")
    nested = [v for v in found.config.values() if isinstance(v, dict)]
    for values in (found.config, *nested):
        for key in ("quantization_config", "compression_config", "quantization"):
            settings = values.get(key)
            if isinstance(settings, dict):
                found.methods.append(settings)
    found.methods += [settings for name in _FILES if (settings := file(name))]
    return found
