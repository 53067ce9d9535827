"""The fields of a model of which some are changed, with what has to change beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizer.architectures.parts import Part
from sizer.core.config import Config
from sizer.core.dims import MAX_LAYERS, is_array
from sizer.core.pattern import Pattern, PerLayer
from sizer.errors import InvalidConfig
from sizer.sources.values import canonical_once, well_formed


def changed(given: Mapping[str, Any], config: Config, values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The given fields of the model `name` with `values` in their place, under any tool's names for them.

    What was not given follows from the others again. Lists with an entry a layer follow `n_layers`, and
    a size that the whole has in common with its language model is changed in both.
    """
    kind = type(config)
    fresh = well_formed(canonical_once(values, kind), kind)
    text = given.get("text")
    if isinstance(text, Part):
        shared = {key: value for key, value in fresh.items() if key in text.given}
        fresh["text"] = text._replace(given={**text.given, **shared})
    return {**given, **_resized(given, config, fresh, name), **fresh}


def _resized(given: Mapping[str, Any], config: Config, fresh: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The lists with an entry a layer, for another number of layers."""
    n_layers, before = fresh.get("n_layers"), getattr(config, "n_layers", None)
    lists = {
        key: value
        for key, value in given.items()
        if key not in fresh and isinstance(value, Pattern | PerLayer) and len(value) == before
    }
    if lists and is_array(n_layers):
        raise InvalidConfig(
            f"{name}: its {', '.join(lists)} has an entry a layer; give one n_layers at a time"
        )
    if not isinstance(n_layers, int) or not 0 < n_layers <= MAX_LAYERS or n_layers == before:
        return {}
    try:
        return {key: value.resized(n_layers) for key, value in lists.items()}
    except InvalidConfig as error:
        raise InvalidConfig(f"{name}: n_layers = {n_layers}: {error}") from None
