"""Totals from outside: published checkpoints, real modules, papers. One row a fact."""

from __future__ import annotations

import pytest

import sizer
from sizer import units
from sizer.sources.presets import Preset

PRESETS = sizer.presets()


@pytest.mark.parametrize("preset", [p for p in PRESETS if "params" in p.expect], ids=lambda p: p.name)
def test_preset_has_its_expected_total(preset: Preset) -> None:
    found = sizer.load(preset.name).count()

    assert preset.expect["params"] == found.total
    assert preset.expect.get("active", found.active) == found.active


# The reference modules of transformers 5.24 and torch 2.13 on the meta device, the checkpoints of
# the hub, or the book's notebooks (github.com/rasbt/LLMs-from-scratch, ch04); 2026-11-29.
VARIANTS = [
    ("gpt2-small", {}, 124_439_808),
    ("gpt2-small", {"tie_embeddings": False, "qkv_bias": False}, 163_009_536),
    ("gpt2-small", {"tie_embeddings": False}, 163_037_184),
    ("gpt2-small", {"qkv_bias": False}, 124_412_160),
    ("gpt2-small", {"bias": False}, 124_337_664),
    ("gpt3-175b", {"tie_embeddings": False}, 175_221_817_344),
    (
        "llms-from-scratch-124m",
        {"vocab_size": 16, "n_ctx": 16, "d_model": 16, "n_heads": 4, "n_layers": 2},
        7264,
    ),
    (
        "llms-from-scratch-124m",
        {"vocab_size": 20, "n_ctx": 10, "d_model": 8, "n_heads": 4, "n_layers": 1},
        1264,
    ),
    (
        "llms-from-scratch-124m",
        {"vocab_size": 20, "n_ctx": 10, "d_model": 8, "n_heads": 4, "n_layers": 1, "tie_embeddings": True},
        1104,
    ),
]


@pytest.mark.parametrize(("name", "overrides", "total"), VARIANTS)
def test_variant(name: str, overrides: dict[str, object], total: int) -> None:
    assert total == sizer.load(name, **overrides).count().total


CLASSES = [
    ("bert-base", "BertModel", 109_482_240),
    ("bert-base", "BertForPreTraining", 110_106_428),
    ("bert-large", "BertModel", 335_141_888),
    ("gpt2-small", "GPT2Model", 124_439_808),
]


@pytest.mark.parametrize(("name", "cls", "total"), CLASSES)
def test_class_of_a_preset(name: str, cls: str, total: int) -> None:
    assert total == sizer.load(name, cls=cls).count().total


# arXiv:2204.02311, table 1: 8.63B, 62.50B and 540.35B. Exact with one norm a block and a last one:
# a block has 2·D·H·Dh + 2·D·Dh + 3·D·4D + D.
PALM = [
    ("palm-8b", 8_632_012_800, "8.63B"),
    ("palm-62b", 62_495_662_080, "62.50B"),
    ("palm-540b", 540_356_474_880, "540.35B"),
]


@pytest.mark.parametrize(("name", "total", "published"), PALM)
def test_palm_is_as_published(name: str, total: int, published: str) -> None:
    found = sizer.load(name).count().total

    assert total == found
    assert published in (f"{found / 1e9:.2f}B", f"{int(found / 1e7) / 100:.2f}B")


def test_a_published_rounding_is_near_the_exact_total() -> None:
    scales = {"M": 10**6, "B": 10**9}
    for preset in PRESETS:
        if "published" in preset.expect:
            text = preset.expect["published"]
            stated = float(text[:-1]) * scales[text[-1]]
            # The paper's 350M is 355.9M and its 65M counts another vocabulary; the rest is closer.
            assert abs(sizer.load(preset.name).count().total / stated - 1) < 0.035, preset.name


def test_shares_of_gpt2_small() -> None:
    found = sizer.load("gpt2-small").count()
    shares = {name: units.share(params, found.total) for name, params in found.components.items()}

    assert shares == {
        "embedding": "31.0 %",
        "position": "0.6 %",
        "attention": "22.8 %",
        "mlp": "45.5 %",
        "norm": "0.0 %",
    }


def test_what_gpt2_small_ties_and_buffers() -> None:
    found = sizer.load("gpt2-small").count()

    # The published checkpoint stores 137,022,720 elements: these, and a mask of 1024 × 1024 a layer.
    assert found.buffers == 137_022_720 - 124_439_808
    assert found.tied == 38_597_376
    assert found.non_embedding == 85_056_000
