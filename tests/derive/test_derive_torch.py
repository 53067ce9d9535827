"""Closed forms of real modules, from the modules alone, against polynomials derived by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import sympy  # noqa: E402

from sizer.errors import BadInput, SizerError, UnknownName  # noqa: E402
from sizer.report import derive as report  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
Run = Callable[..., tuple[int, str, str]]


def document(target: str, **config: Any) -> dict[str, Any]:
    found: dict[str, Any] = report.report(target, config=config).document()
    return found


def parsed(text: str, names: list[str]) -> sympy.Expr:
    whole = {name: sympy.Symbol(name, integer=True, positive=True) for name in names}
    return sympy.sympify(text, locals=whole)


def assert_equal(found: dict[str, Any], expected: str) -> None:
    names = list(found["values"])
    mine, theirs = parsed(found["total"], names), parsed(expected, names)

    assert sympy.expand(mine - theirs) == 0, found["total"]


# Each by hand, from the text of the module.
USER = [
    ("SwiGLU", {}, "3*dim*multiple_of*ceiling(floor(8*dim/3)/multiple_of)"),
    ("Rounded", {}, "256*d*ceiling(d/96) + 64*d*ceiling(3*d/64)"),
    (
        "mlp",
        {},
        "sizes_0*sizes_1 + sizes_1 + sizes_1*sizes_2 + sizes_2 + sizes_2*sizes_3 + sizes_3",
    ),
    ("mlp", {"sizes": [10, 20], "bias": False}, "sizes_0*sizes_1"),
    ("deep", {}, "4*width + depth*(width**2 + width)"),
    # Conv2d(a, b, 3): 9ab + b; BatchNorm2d(b): 2b; ConvTranspose2d(b, a, 2): 4ab + a.
    (
        "UNet",
        {},
        "(9*in_channels*base + 9*base**2 + 6*base)"
        " + (18*base**2 + 36*base**2 + 12*base) + (72*base**2 + 144*base**2 + 24*base)"
        " + (8*base**2 + base) + (32*base**2 + 2*base)"
        " + (18*base**2 + 9*base**2 + 6*base) + (72*base**2 + 36*base**2 + 12*base)"
        " + classes*base + classes",
    ),
    ("Attention", {}, "4*embed_dim**2 + 4*embed_dim"),
    ("Attention", {"kdim": 10, "bias": False}, "2*embed_dim**2 + 2*embed_dim*kdim"),
    # Four gates in two directions, each with two biases.
    (
        "Tagger",
        {},
        "vocab*width + 8*hidden*(width + hidden + 2) + (layers - 1)*8*hidden*(3*hidden + 2) + 2*hidden*tags + tags",
    ),
    (
        "Tagger",
        {"cell": "gru", "bidirectional": False},
        "vocab*width + 3*hidden*(width + hidden + 2) + (layers - 1)*3*hidden*(2*hidden + 2) + hidden*tags + tags",
    ),
    ("Tied", {}, "vocab*width + factor*width**2 + factor*width"),
    ("Tied", {"tie": False}, "2*vocab*width + factor*width**2 + factor*width"),
    ("Scales", {}, "count*d + (context + 1)*d + 1"),
    ("Net", {}, "vocab*d_model + n_layers*(11*d_model**2 + 8*d_model)"),
    (
        "Net",
        {"n_kv_heads": 2, "d_ff": 100, "kind": "gated"},
        "vocab*d_model + n_layers*(d_model**2 + d_model + 2*(d_model + 1)*d_model*n_kv_heads/n_heads"
        " + 3*d_model*d_ff + 2*d_ff + d_model)",
    ),
    ("Pydantic", {}, "depth*(width + 1)*floor(width/2)"),
    ("Book", {"vocab_size": 90, "emb_dim": 12, "qkv_bias": False}, "2*vocab_size*emb_dim"),
    (
        "Sparse",
        {},
        "dense*d*d_ff + (layers - dense)*(experts*d*d_ff + d*experts) + d*floor(layers/2)",
    ),
    ("Needs", {"width": 16, "depth": 3}, "depth*(width**2 + width)"),
    ("Noisy", {}, "Max(width, least)*Min(width, 16)"),
    ("keywords", {"a": 7}, "3*a + 3"),
]


@pytest.mark.parametrize(("name", "config", "expected"), USER, ids=lambda x: x[:40] if isinstance(x, str) else "")
def test_a_module_of_a_user(name: str, config: dict[str, Any], expected: str) -> None:
    found = document(f"user_modules:{name}", **config)

    assert_equal(found, expected)
    assert found["checked"]["points"] == 20
    assert found["fixed"] == []
