"""For the tests of models: exact counts of live torch modules, and an assertion that explains itself.

>>> from sizer.testing import assert_params
>>> assert_params("gpt2-small", 124_439_808)

`assert_params(module, 128)` and `count_module(module).total` take a live module the same way.
torch is imported by nothing here; a module that is handed over has imported it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sizer.oracles.ledger import LiveTensor, ModuleCount, Part
    from sizer.testing.assertions import assert_params

__all__ = ["LiveTensor", "ModuleCount", "Part", "assert_params", "count_module"]

_HOMES = {
    "LiveTensor": "sizer.oracles.ledger",
    "ModuleCount": "sizer.oracles.ledger",
    "Part": "sizer.oracles.ledger",
    "assert_params": "sizer.testing.assertions",
}


def count_module(module: Any) -> ModuleCount:
    """What a live module holds, each tied tensor once: totals, tensors, and parts with equal ones folded.

    Works on any device, `meta` too; nothing of the module is read or changed.
    """
    from sizer.oracles.ledger import count_module

    return count_module(module)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sizer.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
