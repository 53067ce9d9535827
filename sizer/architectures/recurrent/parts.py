"""What the recurrent families share: a short convolution, and the reading of layer kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.pattern import Pattern
from sizer.core.tree import Axis, Module, Op, Param, State
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# transformers' words for the layers of a hybrid, older ones included, and ours.
KINDS = {
    "linear_attention": "linear",
    "mamba": "linear",
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "window",
    "conv": "conv",
    "hybrid": "hybrid",
    "moe": "moe",
    "mlp": "mlp",
}


def short_conv(
    name: str,
    channels: Axis,
    width: Dim,
    *,
    bias: bool,
    kept: Dim | None = None,
    component: str = "",
    dtype: str | None = None,
) -> Module:
    """A causal convolution of each channel by itself, `weight [channels, 1, width]`.

    Decoding keeps the last `kept` inputs of each channel, `width` of them if not said,
    in a type of their own if `dtype` names one.
    """
    weight = Param("weight", (channels, Axis("one", 1), Axis("kernel", width)))
    return Module(
        name,
        (
            weight,
            *((Param("bias", (channels,)),) if bias else ()),
            Op("conv", "conv", {"channels": channels.size, "kernel": width}),
            State("conv", per_sequence=channels.size * (width if kept is None else kept), dtype=dtype),
        ),
        component=component,
    )


def in_layers(layers: Pattern, module: Module, *kinds: str) -> tuple[Module, ...]:
    """The module in the layers of these kinds; nothing where no layer is of them."""
    return (module._replace(at=layers.layers(*kinds)),) if layers.has(*kinds) else ()


def check_layers(n_layers: Dim, *patterns: Pattern | None) -> None:
    """Refuse a pattern that does not name each layer once."""
    for pattern in patterns:
        if pattern is None or pattern.letter is not None or not isinstance(n_layers, int):
            continue
        if len(pattern.kinds) != n_layers:
            raise InvalidConfig(
                f"n_layers = {n_layers}, and the kinds of {len(pattern.kinds)} layers are listed; change both"
            )


def layer_pattern(hf: HFConfig, kinds: Iterable[str], *allowed: str) -> Pattern:
    """The pattern of a list of layer types in transformers' words."""
    known = [word for word, kind in KINDS.items() if kind in allowed]
    words = tuple(kinds)
    for word in words:
        if word not in known:
            raise InvalidConfig(
                f"{hf.name}: a {hf.model_type} has no {word!r} layer; known: {', '.join(known)}"
            )
    return Pattern(tuple(KINDS[word] for word in words))
