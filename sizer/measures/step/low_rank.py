"""Adapters beside frozen matrices, as PEFT runs them (`tuners/lora/layer.py`, `tuners/lora/dora.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.measures.step import ops
from sizer.measures.step.tensors import Storage, Tensor

if TYPE_CHECKING:
    from sizer.measures.step.run import Run


def adapted(run: Run, path: str, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What a matrix with an adapter gives; `y` is what it gives without."""
    assert run.lora is not None
    tape, rank = run.tape, run.lora.rank
    out, dtype = y.shape[-1], y.dtype
    a = _learned(run, f"{path}.lora_A", (rank, x.shape[-1]))
    b = _learned(run, f"{path}.lora_B", (out, rank))
    x = ops.to(tape, x, a.dtype)
    if run.lora.dora:
        y = ops.add(tape, y, _with_magnitude(run, path, x, y, (a, b), weight, bias))
    else:
        y = ops.add(tape, y, ops.scale(tape, run.product(run.product(x, a, rank), b, out)))
    return ops.to(tape, y, dtype)


def _learned(run: Run, name: str, shape: tuple[Dim, ...]) -> Tensor:
    """A tensor of an adapter; PEFT keeps them in fp32."""
    found = Tensor(Storage(run.tape, 0, f"{name}.weight"), shape, "fp32")
    found.needs_grad = True
    return run.parameters.setdefault(f"{name}.weight", found)


def _with_magnitude(
    run: Run,
    path: str,
    x: Tensor,
    y: Tensor,
    pair: tuple[Tensor, Tensor],
    weight: Tensor,
    bias: Tensor | None,
) -> Tensor:
    """DoRA's part of the output (Liu et al. 2024, arXiv:2402.09353, section 4.3).

    The norm of the adapted matrix is a constant to the gradient. Its graph is made and let go again
    with the variables of this call, as the square of ones that the adapter's product is made of.
    """
    tape, (a, b) = run.tape, pair
    into, rank, out = x.shape[-1], a.shape[0], y.shape[-1]
    magnitude = _learned(run, f"{path}.lora_magnitude_vector", (out,))
    ones = tape.new("eye", (into, into), "fp32")
    narrow = run.product(ones, _constant(run.cast(a)), rank)
    change = ops.to(tape, run.product(narrow, _constant(run.cast(b)), out), x.dtype)
    own = ops.to(tape, _constant(weight), x.dtype)
    norm = _norm(run, own, change, out)
    factor = ops.generic(tape, "div", (magnitude, norm), (out,), "fp32", saved=(norm,))
    factor = ops.reshape(tape, factor, (1, out))
    lifted = run.product(run.product(x, a, rank), b, out)
    if bias is not None:
        y = ops.sub(tape, y, _constant(bias))
    first = ops.mul(tape, ops.shift(tape, factor), y)
    found = ops.add(tape, first, ops.scale(tape, ops.mul(tape, factor, lifted)))
    _until_the_end = ones, narrow, change, own
    return found


def _norm(run: Run, own: Tensor, change: Tensor, out: Dim) -> Tensor:
    tape = run.tape
    scaled = ops.map_of(tape, "mul", change)
    whole = tape.new("add", own.shape, own.dtype)
    del scaled
    return tape.new("linalg_vector_norm", (out,), whole.dtype)


def _constant(x: Tensor) -> Tensor:
    """The same tensor, of which no gradient is wanted."""
    return ops.view(x, x.shape, x.strides)
