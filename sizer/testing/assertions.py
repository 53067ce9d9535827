"""Assertions about the size of a model, which say what the model is made of when they fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizer.errors import BadInput


def assert_params(
    model: Any,
    expected: int,
    *,
    trainable: int | None = None,
    components: Mapping[str, int] | None = None,
) -> None:
    """Fail unless a model has exactly that many parameters, each tied tensor once.

    `model`: a live torch module, a `sizer.Model`, or what `sizer.load` takes. `components`: parameters
    of single components of a model, or of the parts of a module by name.

    >>> assert_params("gpt2-small", 124_439_808, components={"norm": 38_400})
    """
    __tracebackhide__ = True
    name, found, parts = _counted(model)
    wanted = {"params": expected, "trainable": trainable}
    pairs = [(key, value, found[key]) for key, value in wanted.items() if value is not None]
    for key, value in (components or {}).items():
        if key not in parts:
            raise BadInput(f"{name} has no part {key!r}; it has {', '.join(list(parts)[:12])}")
        pairs.append((key, value, parts[key]))
    for _, value, _ in pairs:
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadInput(f"{value!r} is no whole number of parameters")
    wrong = [
        f"{key}: expected {value:,}, found {number:,} ({number - value:+,})"
        for key, value, number in pairs
        if value != number
    ]
    if wrong:
        made_of = [f"  {part}: {number:,}" for part, number in parts.items()][:40]
        raise AssertionError("\n".join([f"{name}: {'; '.join(wrong)}", "it is made of", *made_of]))


def _counted(model: Any) -> tuple[str, dict[str, int], dict[str, int]]:
    """A name, the totals, and the parameters part by part."""
    from sizer.model import Model

    if not isinstance(model, Model) and hasattr(model, "named_parameters"):
        from sizer.oracles.ledger import count_module

        live = count_module(model)
        if live.lazy:
            raise BadInput(
                f"{live.cls}: {len(live.lazy)} parameters have no shape yet ({live.lazy[0]}); "
                "run the module once before its parameters are asserted"
            )
        totals = {"params": live.total, "trainable": live.trainable}
        own = {part: p.params for part, p in live.parts.items() if p.params}
        return live.cls, totals, own
    if not isinstance(model, Model):
        from sizer.loading import load

        model = load(model)
    found = model.count()
    totals = {"params": int(found.total), "trainable": int(found.trainable)}
    return model.name, totals, {name: int(n) for name, n in found.components.items()}
