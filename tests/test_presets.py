"""The preset files: every one reads, validates, names its source, and is found by its names."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from conftest import ROOT

import sizer
from sizer.architectures.registry import architecture
from sizer.sources.presets import NOT_PUBLIC, Preset, plain_toml
from sizer.sources.values import validated

FILES = sorted((ROOT / "presets" / "models").glob("*.toml"))
PRESETS = sizer.presets()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_quick_reader_reads_what_tomllib_reads(path: Path) -> None:
    text = path.read_text()
    slow = tomllib.loads(text)
    slow["date"] = str(slow["date"])

    assert plain_toml(text) == slow


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_a_preset_is_valid(preset: Preset) -> None:
    config = architecture(preset.architecture).config

    assert validated(preset.config, config) == preset.config
    assert preset.source.startswith("https://")
    assert preset.date
    assert "params" in preset.expect or "published" in preset.expect


def test_names_and_aliases_are_unique() -> None:
    names = [name for preset in PRESETS for name in (preset.name, *preset.aliases)]

    assert len(names) == len(set(names))
    assert not set(names) & set(NOT_PUBLIC)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_a_preset_is_found_by_each_of_its_names(preset: Preset) -> None:
    for name in (preset.name, *preset.aliases):
        assert sizer.load(name).name == preset.name
