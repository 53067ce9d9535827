"""Closed forms that tests derive, once each, and how two of them are compared."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import sympy

from sizer.oracles.derive.closed import Closed
from sizer.oracles.derive.derive import derive
from sizer.report import derive as report


@cache
def _closed(target: str, config: str) -> Closed:
    return derive(target, json.loads(config))


def closed(target: str, config: dict[str, Any]) -> Closed:
    """Derived once for all tests."""
    return _closed(target, json.dumps(config))


def document(target: str, **config: Any) -> dict[str, Any]:
    found: dict[str, Any] = report.reported(closed(target, config)).document()
    return found


def parsed(text: str, names: list[str]) -> sympy.Expr:
    whole = {name: sympy.Symbol(name, integer=True, positive=True) for name in names}
    return sympy.sympify(text, locals=whole)


def assert_equal(found: dict[str, Any], expected: str) -> None:
    names = list(found["values"])
    mine, theirs = parsed(found["total"], names), parsed(expected, names)

    assert sympy.expand(mine - theirs) == 0, found["total"]
