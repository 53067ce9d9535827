"""What training leaves to the host: the optimizer's state and step, gradients too, or all but activations.

Ren et al. 2021 (ZeRO-Offload, arXiv:2101.06840) and Rajbhandari et al. 2021 (ZeRO-Infinity,
arXiv:2104.07857), with DeepSpeed's rules: the optimizer from stage 1 on, gradients from stage 2 on,
parameters with stage 3.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from sizer.planning.layout import Layout

# Bytes a second of the host's memory for one accelerator: two sockets of eight channels of DDR4-3200, of
# 8 bytes each, for eight accelerators.
HOST_RATE = 2 * 8 * 8 * 3_200_000_000 // 8


class Split(NamedTuple):
    """Bytes of a rank: what its accelerator holds of weights, gradients and states, and its host."""

    weights: int
    gradients: int
    states: int
    host: int


def split(layout: Layout, weights: int, gradients: int, states: int, layer: int) -> Split:
    """Where model states are. `layer`: bytes of gradients of the largest layer, which are on their way.

    >>> split(Layout(zero=2, dp=4, offload="gradients"), 100, 50, 300, 7)
    Split(weights=100, gradients=7, states=0, host=350)
    """
    if layout.offload == "none":
        return Split(weights, gradients, states, 0)
    if layout.offload == "optimizer":
        return Split(weights, gradients, 0, states)
    away = weights if layout.offload == "params" else 0
    return Split(weights - away, min(layer, gradients), 0, states + gradients + away)


def seconds(
    layout: Layout, elements: int, times: int, each: tuple[int, int, Fraction], link: float
) -> dict[str, float]:
    """How long a step is about that, of a rank with so many elements: on the link, and for the update.

    `each`: bytes of a weight, of a gradient and of the states of one element. The update reads and writes
    the states, reads gradients and writes weights.

    >>> seconds(Layout(offload="optimizer"), 10**9, 4, (2, 2, Fraction(12)), 32e9)
    {'host link': 0.125, 'host update': 0.546875}
    """
    if layout.offload == "none":
        return {}
    weight, gradient, state = each
    # Gradients are added up on the accelerator, or leave it after each micro-batch.
    sent = gradient * (1 if layout.offload == "optimizer" else times)
    # New weights come back once, or those of each layer before it runs, forward and backward.
    sent += weight * (2 * times if layout.offload == "params" else 1)
    return {
        "host link": elements * sent / link,
        "host update": float(elements * (2 * state + gradient + weight) / HOST_RATE),
    }
