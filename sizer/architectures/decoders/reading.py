"""What the readers of LLaMA-like configurations share: switches, windows and rotary widths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sizer.architectures.decoders.decoder import DecoderConfig
from sizer.architectures.registry import Reading
from sizer.core.config import size_names
from sizer.core.dims import MAX_SIZE, round_up
from sizer.core.pattern import Pattern
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


SLIDING = ("sliding_attention", "hybrid_sliding", "reference_sliding_attention")

# No model has as many modules of a kind that are not layers.
FEW = 1000


def dense(
    hf: HFConfig,
    architecture: str = "llama",
    config: type[DecoderConfig] = DecoderConfig,
    **given: Any,
) -> Reading:
    """A decoder with the sizes of the file and the switches given.

    A switch that is not given keeps its default, whatever the file says: a model type that does
    not know a key ignores it. The same holds for the window.
    """
    decided = ("layout", "task", "tie_embeddings", *size_names(config))
    fixed = {field.name: field.default for field in fields(config) if field.name not in decided}
    fixed |= {"window": None, "act": activation(hf), "token_bias": token_bias(hf)}
    # A switch that the file sets to null is off.
    given = {
        name: False if value is None and isinstance(fixed.get(name), bool) else value
        for name, value in given.items()
    }
    return Reading(architecture, hf.fill(config, **{**fixed, **given}))


def activation(hf: HFConfig) -> str:
    """The activation of the MLP."""
    return str(hf["hidden_activation"] if "hidden_activation" in hf else hf["hidden_act"])


def token_bias(hf: HFConfig) -> bool:
    """Whether a head that labels tokens has a bias."""
    return bool(hf["token_classification_bias"]) if hf.given("token_classification_bias") else True


def whole(hf: HFConfig, key: str) -> int:
    """A value of the file that must be a positive whole number, for arithmetic in a reader."""
    value = hf[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidConfig(f"{key} = {clip(repr(value))} is not a positive whole number")
    return value


def positive(key: str, value: Any) -> Any:
    """A value of the file that must be a positive number, such as a multiplier of a width."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_SIZE:
        raise InvalidConfig(f"{key} = {clip(repr(value))} is not a positive number")
    return value


def per_layer(hf: HFConfig, key: str) -> tuple[float, ...] | None:
    """A list with a number for each layer, where the file has one."""
    values = hf[key]
    if values is None:
        return None
    n_layers = listed_layers(hf)
    if not isinstance(values, list | tuple) or not all(isinstance(v, int | float) for v in values):
        raise InvalidConfig(f"{key} = {clip(repr(values))} is not a list of numbers, one a layer")
    if len(values) < n_layers:
        raise InvalidConfig(f"{key} lists {len(values)} layers of num_hidden_layers = {n_layers}")
    return tuple(values)


def count_of(hf: HFConfig, key: str) -> int:
    """A value of the file that must be a whole number and may be zero; null is zero."""
    return whole(hf, key) if hf[key] else 0


def few(hf: HFConfig, key: str) -> int:
    """A number of modules that are named one by one."""
    found = whole(hf, key)
    if found > FEW:
        raise InvalidConfig(f"{key} = {found:,} is beyond {FEW:,}")
    return found


def listed_layers(hf: HFConfig) -> int:
    """The number of layers, where something is listed for each; a file's are bounded when they are read."""
    return whole(hf, "num_hidden_layers")


def layer_types(hf: HFConfig, slides: Callable[[int], bool]) -> tuple[str, ...]:
    """The kind of each layer as the file lists it, or by the rule of the model type."""
    n_layers = listed_layers(hf)
    listed = hf.get("layer_types")
    if listed is None:
        return tuple("sliding_attention" if slides(i) else "full_attention" for i in range(n_layers))
    if not isinstance(listed, list | tuple) or not all(isinstance(kind, str) for kind in listed):
        raise InvalidConfig(f"layer_types = {clip(repr(listed))} is not a list of words, one a layer")
    return tuple(listed[:n_layers])


def sliding(hf: HFConfig, slides: Callable[[int], bool], *, window: int | None) -> dict[str, Any]:
    """`window` and `window_layers` of a model some of whose layers see the last W tokens only.

    `slides` is the rule of the model type, for a file that does not list its `layer_types`.
    """
    if not window:
        return {"window": None, "window_layers": None}
    kinds = tuple("window" if kind in SLIDING else "full" for kind in layer_types(hf, slides))
    if "window" not in kinds:
        return {"window": None, "window_layers": None}
    return {"window": window, "window_layers": Pattern(kinds) if "full" in kinds else None}


def every(hf: HFConfig) -> dict[str, Any]:
    """`sliding` of a model type whose window, if it has one, holds for every layer."""
    return sliding(hf, lambda i: True, window=hf["sliding_window"])


def rope_parameters(hf: HFConfig) -> Mapping[str, Any]:
    """The settings of the rotary positions, under their old name or the new one."""
    return _settings(hf, "rope_scaling") or _settings(hf, "rope_parameters")


def rope_by_kind(hf: HFConfig) -> dict[str, Mapping[str, Any]]:
    """The settings of each kind of layer; those under the old name are of the layers that see all."""
    by_kind = _settings(hf, "rope_parameters")
    unscaled = {"rope_type": "default"}
    full, windowed = (by_kind.get(kind) or unscaled for kind in ("full_attention", "sliding_attention"))
    return {
        "full_attention": {**full, **_settings(hf, "rope_scaling")},
        "sliding_attention": windowed,
    }


def _settings(hf: HFConfig, key: str) -> Mapping[str, Any]:
    value = hf.in_file(key)
    return value if isinstance(value, Mapping) else {}


def rotary_by_kind(hf: HFConfig, kinds: Iterable[str]) -> dict[str, Any]:
    """The rotary fields of a model whose kinds of layers have frequencies of their own."""
    rope = rope_by_kind(hf)
    full = rotary_width(hf, rope=rope["full_attention"])
    windowed = rotary_width(hf, rope=rope["sliding_attention"])
    if full is not None and windowed is None:
        windowed = round_up(head_width(hf), 2)
    return {
        "rotary_kinds": tuple(f"{kind}_" for kind in sorted(set(kinds))),
        "d_rotary": full,
        "d_rotary_window": windowed,
    }


def head_width(hf: HFConfig) -> int:
    """The width of a head as rotary positions see it."""
    if hf.get("head_dim"):
        return whole(hf, "head_dim")
    return whole(hf, "hidden_size") // whole(hf, "num_attention_heads")


def rotary_width(
    hf: HFConfig,
    d_head: int | None = None,
    *,
    default: float | None = None,
    kind: str = "default",
    rope: Mapping[str, Any] | None = None,
) -> int | None:
    """Width of the rotary part of a head, rounded up to whole pairs; `None` where it is the head.

    `d_head` is the width of a head, where it is not `head_width`. `default` is the fraction that the
    model type assumes; a type without one looks for a fraction only where its positions are scaled.
    `kind` is the scaling of a file without settings; `rope` the settings, where they are not those
    of the whole file.
    """
    rope = rope_parameters(hf) if rope is None else rope
    if rope:
        kind = rope.get("rope_type", rope.get("type", "default"))
    fraction: Any = None
    if kind != "proportional" and (default is not None or kind != "default"):
        fraction = rope.get("partial_rotary_factor")
        if fraction is None and hf.given("partial_rotary_factor"):
            fraction = hf["partial_rotary_factor"]
        fraction = default if fraction is None else fraction
    if fraction is None:
        fraction = 1.0
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction <= 1:
        raise InvalidConfig(f"partial_rotary_factor = {clip(repr(fraction))} is not between 0 and 1")
    d_head = head_width(hf) if d_head is None else d_head
    rotary: int = round_up(int(d_head * fraction), 2)
    return None if rotary == d_head else rotary
