"""An architecture of a program that uses sizer."""

from __future__ import annotations

from typing import Any

import pytest

import sizer
from sizer.architectures import registry
from sizer.architectures.registry import Architecture, register
from sizer.core.config import Config
from sizer.core.layers import linear
from sizer.core.tree import Axis, Module
from sizer.errors import InvalidConfig


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "REGISTERED", {})


def square(c: Any) -> Module:
    return Module("", (linear("only", Axis("out", c.d_model), Axis("in", c.d_model), bias=True),))


def test_sizes_are_found_where_annotations_are_evaluated() -> None:
    # As in a notebook, where a field has the alias itself and not its name.
    namespace: dict[str, object] = {}
    exec(
        "from sizer.core.config import Config, configuration\n"
        "from sizer.core.dims import Dim\n"
        "@configuration\n"
        "class Square(Config):\n"
        "    d_model: Dim\n"
        "    d_ff: Dim | None = None\n",
        namespace,
    )
    register("square", Architecture(namespace["Square"], square))  # type: ignore[arg-type]

    model = sizer.Model("mine", "square", {"d_model": 8})

    assert model.count().total == 8 * 8 + 8
    assert str(model.formula().total) == "D**2 + D"
    assert model.with_values(d_model=16).count().total == 16 * 16 + 16


def test_a_name_that_ships_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="'gpt2' is one that ships with sizer; choose another name"):
        register("gpt2", Architecture(Config, square))
