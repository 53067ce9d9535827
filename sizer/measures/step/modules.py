"""The modules of a transformer, run on tensors without values, as transformers 5 writes them.

Variables are let go exactly where the original code lets them go, so these functions keep its
structure: sources are `modeling_gpt2.py`, `modeling_llama.py`, `modeling_bert.py`, `activations.py`
and `loss/loss_utils.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from sizer.core.dims import Dim
from sizer.errors import InvalidConfig
from sizer.measures.step import ops
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Tensor


def _gelu_new(tape: Tape, x: Tensor) -> Tensor:
    return ops.mul(tape, ops.scale(tape, x), ops.shift(tape, _tanh_of_cubic(tape, x)))


def _tanh_of_cubic(tape: Tape, x: Tensor) -> Tensor:
    return ops.unary(tape, "tanh", _cubic(tape, x), keeps="output")


def _cubic(tape: Tape, x: Tensor) -> Tensor:
    return ops.scale(tape, ops.add(tape, x, ops.scale(tape, ops.power(tape, x))))


def _quick_gelu(tape: Tape, x: Tensor) -> Tensor:
    return ops.mul(tape, x, ops.unary(tape, "sigmoid", ops.scale(tape, x), keeps="output"))


def _relu2(tape: Tape, x: Tensor) -> Tensor:
    return ops.power(tape, ops.unary(tape, "relu", x, keeps="output"))


def _kernel(name: str, keeps: str = "input") -> Callable[[Tape, Tensor], Tensor]:
    return lambda tape, x: ops.unary(tape, name, x, keeps=keeps)


ACTIVATIONS: dict[str, Callable[[Tape, Tensor], Tensor]] = {
    "gelu": _kernel("gelu"),
    "gelu_pytorch_tanh": _kernel("gelu"),
    "gelu_new": _gelu_new,
    "quick_gelu": _quick_gelu,
    "relu": _kernel("relu", "output"),
    "relu2": _relu2,
    "sigmoid": _kernel("sigmoid", "output"),
    "silu": _kernel("silu"),
    "swish": _kernel("silu"),
    "tanh": _kernel("tanh", "output"),
}


def elementwise(tape: Tape, name: str, x: Tensor) -> Tensor:
    """What stands between modules: a number that is multiplied with, or an activation."""
    return ops.scale(tape, x) if name == "scaled" else activation(tape, name, x)


def activation(tape: Tape, name: str, x: Tensor) -> Tensor:
    """An activation by name."""
    if name not in ACTIVATIONS:
        raise InvalidConfig(
            f"what the activation {name!r} keeps for its backward pass is not described; "
            f"known are {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name](tape, x)


def heads_first(tape: Tape, x: Tensor, heads: Dim, width: Dim) -> Tensor:
    """[B, T, H·Dh] as [B, H, T, Dh]."""
    batch, length, _ = x.shape
    return ops.transpose(tape, ops.reshape(tape, x, (batch, length, heads, width)), 1, 2)


def repeat_kv(tape: Tape, x: Tensor, heads: Dim) -> Tensor:
    """Keys or values of K heads as those of all: a copy, unless there are as many."""
    batch, kv_heads, length, width = x.shape
    if tape.choose(lambda: bool(kv_heads == heads)):
        return x
    times = heads // kv_heads if isinstance(heads, int) else heads / kv_heads
    x = ops.reshape(tape, x, (batch, kv_heads, 1, length, width))
    x = ops.expand(tape, x, (batch, kv_heads, times, length, width))
    return ops.reshape(tape, x, (batch, heads, length, width))


def eager_attention(
    tape: Tape,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    cast: Callable[[Tensor], Tensor],
    upcast: bool,
    in_fp32: bool,
    copied: bool,
    capped: bool = False,
) -> tuple[Tensor, Tensor]:
    """Scores, softmax and mixing, each an op of its own.

    `cast`: to the type of matrix products. `upcast`: the softmax is written in fp32 and goes back
    to the type of the queries; without it, to that of the values. `in_fp32`: autocast computes it
    so. `copied`: the result is laid out in order. `capped`: the scores have a soft cap.
    """
    keys = repeat_kv(tape, k, q.shape[1])
    values = repeat_kv(tape, v, q.shape[1])
    weights = ops.scale(tape, _scores(tape, q, keys, cast))
    if capped:
        weights = ops.scale(tape, weights)
        weights = ops.unary(tape, "tanh", weights, keeps="output")
        weights = ops.scale(tape, weights)
    if mask is not None:
        weights = ops.add(tape, weights, mask)
    if upcast:
        weights = ops.to(tape, _softmax(tape, weights, in_fp32=True), q.dtype)
    else:
        weights = _softmax(tape, weights, in_fp32=in_fp32)
        weights = ops.to(tape, weights, v.dtype)
    out = product(tape, weights, values, cast)
    out = ops.transpose(tape, out, 1, 2)
    return (ops.contiguous(tape, out) if copied else out), weights


def _softmax(tape: Tape, x: Tensor, *, in_fp32: bool) -> Tensor:
    return ops.softmax(tape, ops.to(tape, x, "fp32") if in_fp32 else x)


def _scores(tape: Tape, q: Tensor, k: Tensor, cast: Callable[[Tensor], Tensor]) -> Tensor:
    return product(tape, q, ops.transpose(tape, k, 2, 3), cast)


def product(tape: Tape, a: Tensor, b: Tensor, cast: Callable[[Tensor], Tensor]) -> Tensor:
    """A product of matrices of every head, in the type of such products."""
    # Autocast converts from the last argument to the first.
    b = cast(b)
    return ops.matmul(tape, cast(a), b)


def causal_loss(tape: Tape, logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of a language model: the labels are moved by one, the logits brought to fp32."""
    batch, length, vocab = logits.shape
    logits = ops.to(tape, logits, "fp32")
    labels = tape.new("constant_pad_nd", (batch, length + 1), "int64")
    # All but the first of each sequence, laid out in order: of one sequence that is a view.
    moved = ops.contiguous(tape, ops.without_first(tape, labels))
    logits = ops.reshape(tape, logits, (batch * length, vocab))
    moved = ops.view(moved, (batch * length,), None)
    return ops.cross_entropy(tape, logits, moved)


def masked_loss(tape: Tape, logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of a masked language model, straight over the logits."""
    batch, length, vocab = logits.shape
    flat = ops.reshape(tape, logits, (batch * length, vocab))
    return ops.cross_entropy(tape, flat, ops.view(labels, (batch * length,), None))
