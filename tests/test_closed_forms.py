"""Published closed forms: which flags give which formula."""

from __future__ import annotations

import pytest
import sympy

import sizer

D, L, V, C = sympy.symbols("D L V C")

# 12D² + 13D a block with all biases, 12D² + 10D without those of the fused projection: the two
# famous forms. LLaMA's block: 2D² for q and o, 2·K·D²/H for k and v, 3DF for the MLP, two norms.
BLOCKS = [
    ("gpt2-small", {}, "12D² + 13D"),
    ("gpt2-small", {"qkv_bias": False}, "12D² + 10D"),
    ("gpt2-small", {"bias": False}, "12D² + 2D"),
    ("llama-7b", {}, "4D² + 3DF + 2D"),
    ("llama-3-8b", {}, "2D² + 2D²K/H + 3DF + 2D"),
    ("palm-8b", {}, "2·D·H·Dh + 2·D·K·Dh + 12D² + D"),
]


@pytest.mark.parametrize(("name", "overrides", "block"), BLOCKS)
def test_block(name: str, overrides: dict[str, object], block: str) -> None:
    (group,) = sizer.load(name, **overrides).formula().form.groups

    assert block == group.each.text()


def test_total_untied_without_qkv_bias() -> None:
    formula = sizer.load("gpt2-small", qkv_bias=False, tie_embeddings=False).formula()

    assert formula.form.text() == "2VD + CD + L(12D² + 10D) + 2D"
    assert sympy.expand(formula.total - (2 * V * D + C * D + L * (12 * D**2 + 10 * D) + 2 * D)) == 0


def test_block_is_sympys_for_the_caller() -> None:
    assert sizer.load("gpt2-small").formula().block == 12 * D**2 + 13 * D


@pytest.mark.parametrize("preset", sizer.presets(), ids=lambda p: p.name)
def test_formula_with_numbers_is_the_count(preset: object) -> None:
    model = sizer.load(preset.name)  # type: ignore[attr-defined]
    formula = model.formula()
    values = {code: entry.value for code, entry in formula.letters.items()}

    assert formula.form.total.value(values) == model.count().total
    assert formula.total.subs(values) == model.count().total
