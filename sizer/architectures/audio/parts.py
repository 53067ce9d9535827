"""What models of waveforms share: convolutions under weight normalization or turned round, and LSTMs."""

from __future__ import annotations

from collections.abc import Iterable

from sizer.architectures.tower import Children
from sizer.core.dims import Dim
from sizer.core.tree import Axis, Module, Param

ONE = Axis("one", 1)


def weight_normed(name: str, out: Axis, inp: Axis, *kernel: Axis, bias: bool = True) -> Module:
    """A convolution under weight normalization: a direction for each output, and its length."""
    lengths = (out, *(ONE for _ in (inp, *kernel)))
    leaves = (
        *((Param("bias", (out,)),) if bias else ()),
        Param("parametrizations.weight.original0", lengths),
        Param("parametrizations.weight.original1", (out, inp, *kernel), "matmul"),
    )
    return Module(name, leaves, component="other", kind="conv")


def transposed(
    name: str, out: Axis, inp: Axis, kernel: Axis, *, bias: bool = True, normed: bool = False
) -> Module:
    """A convolution that makes several frames of one; it stores its inputs first."""
    biases = (Param("bias", (out,)),) if bias else ()
    if not normed:
        weight = Param("weight", (inp, out, kernel), "matmul")
        return Module(name, (weight, *biases), component="other", kind="conv")
    weights = (
        Param("parametrizations.weight.original0", (inp, ONE, ONE)),
        Param("parametrizations.weight.original1", (inp, out, kernel), "matmul"),
    )
    return Module(name, (*biases, *weights), component="other", kind="conv")


def lstm(name: str, width: Axis, n_layers: int) -> Module:
    """Layers with four gates, over their input and over what they remember."""
    return Module(name, tuple(leaf for i in range(n_layers) for leaf in _gates(i, width)), component="mixer")


def _gates(i: int, width: Axis) -> Children:
    gates = 4 * width
    return (
        Param(f"weight_ih_l{i}", (gates, width), "matmul"),
        Param(f"weight_hh_l{i}", (gates, width), "matmul"),
        Param(f"bias_ih_l{i}", (gates,)),
        Param(f"bias_hh_l{i}", (gates,)),
    )


def numbered(name: str, layers: Iterable[Module | None]) -> Children:
    """Layers under their places in a list, where `None` stands for one without tensors."""
    return tuple(layer._replace(name=f"{name}.{i}") for i, layer in enumerate(layers) if layer is not None)


def doubled(base: Dim, times: int) -> list[Axis]:
    """Channels of the stages of a codec, each twice those of the one before."""
    return [Axis("channels", 2**i * base) for i in range(times + 1)]
