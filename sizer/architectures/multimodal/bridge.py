"""What stands between a tower and a text: one matrix, or two with an activation between them."""

from __future__ import annotations

from sizer.architectures.composite import MultimodalConfig
from sizer.architectures.tower import Children
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import gate_op, layer_norm, linear, rms_norm
from sizer.core.tree import Axis, Module, Op


@configuration
class BridgedConfig(MultimodalConfig):
    """What joins a tower to the text.

    `layers`: names of the one or two matrices. `d_out`: the width they give, where it is not the
    text's. `n_square`: patches that are merged into one before them.
    `norm_before`, `norm_after`: names of norms around them, of kind `norm`.
    `gated`: the first matrix gives a gate too. `second_bias`: whether the second has a bias, where
    it is not as the first.
    """

    layers: tuple[str, ...] = ("linear_1", "linear_2")
    act: str = "gelu"
    d_out: Dim | None = None
    n_square: Dim | None = None
    norm: str = "layer"
    norm_before: str = ""
    norm_after: str = ""
    gated: bool = False
    second_bias: bool | None = None

    letters = {**MultimodalConfig.letters, "d_out": "D_out", "n_square": "Nsq"}
    meanings = {
        **MultimodalConfig.meanings,
        "d_out": "width that the text is given",
        "n_square": "patches that are merged into one",
    }


def bridge(c: BridgedConfig, tower: Dim, *extra: Module) -> Module:
    """The module that joins a tower of that width to the text; `extra` stands in it too."""
    joined = Axis("tower", c.merge * tower if c.d_joined is None else c.d_joined)
    out = Axis("embed", c.d_model if c.d_out is None else c.d_out)
    hidden = out if c.d_bridge is None else Axis("bridge", c.d_bridge)
    return Module(
        c.places.bridge,
        (
            *_norm(c, c.norm_before, joined),
            *extra,
            *_matrices(c, joined, hidden, out),
            *_norm(c, c.norm_after, out),
        ),
        component="other",
        stream="encoder",
    )


def _matrices(c: BridgedConfig, joined: Axis, hidden: Axis, out: Axis) -> Children:
    if len(c.layers) == 1:
        return (linear(c.layers[0], out, joined, bias=c.bridge_bias),)
    first, second = c.layers
    act = gate_op(c.act, hidden.size) if c.gated else Op("act", c.act, {"width": hidden.size})
    return (
        linear(first, 2 * hidden if c.gated else hidden, joined, bias=c.bridge_bias),
        act,
        linear(second, out, hidden, bias=c.bridge_bias if c.second_bias is None else c.second_bias),
    )


def _norm(c: BridgedConfig, name: str, width: Axis) -> tuple[Module, ...]:
    if not name:
        return ()
    return (rms_norm(name, width) if c.norm == "rms" else layer_norm(name, width),)
