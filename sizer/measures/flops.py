"""FLOPs of one pass; a multiply-add is 2.

The convention is that of torch's counter and of published MFU figures: every matrix product and
every attention counts in full, without a discount for causal masks or windows; lookups, biases,
norms and elementwise functions count nothing. A tied head still multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from sizer.core.dims import Dim
from sizer.core.tree import Op, Param, Row
from sizer.errors import InvalidConfig, UnknownName

# A backward pass costs twice the forward; a flash kernel recomputes the scores, 2.5 times.
BACKWARD = {"eager": (2, 1), "sdpa": (2, 1), "flash": (5, 2)}


class Flops(NamedTuple):
    """FLOPs of one step: the forward pass, the backward pass, and both."""

    forward: Dim
    backward: Dim
    training: Dim
    components: dict[str, Dim]


def flops(
    rows: Iterable[Row],
    *,
    batch_size: Dim = 1,
    seq_len: Dim = 1024,
    encoder_len: Dim | None = None,
    attention: str = "eager",
) -> Flops:
    """FLOPs of a pass over `batch_size` sequences of `seq_len` tokens.

    `encoder_len` is the length of the encoder's sequence, `seq_len` unless given.

    >>> import sizer
    >>> flops(sizer.load("gpt2-small").rows()).forward
    291648307200
    """
    if attention not in BACKWARD:
        raise UnknownName("attention kernel", attention, BACKWARD, hint=", ".join(BACKWARD))
    for name, length in (("batch_size", batch_size), ("seq_len", seq_len)):
        if isinstance(length, int) and length <= 0:
            raise InvalidConfig(f"{name} = {length} is not a positive number")
    encoder = seq_len if encoder_len is None else encoder_len
    forward: Dim = 0
    backward: Dim = 0
    components: dict[str, Dim] = {}
    for row in rows:
        length = encoder if row.stream == "encoder" else seq_len
        amount, is_attention = _forward(row, length, encoder)
        if amount is None:
            continue
        amount = amount * batch_size * row.visits
        forward = forward + amount
        components[row.component] = components.get(row.component, 0) + amount
        times, over = BACKWARD[attention] if is_attention else (2, 1)
        backward = backward + (times * amount // over if isinstance(amount, int) else times * amount / over)
    return Flops(forward, backward, forward + backward, components)


def _forward(row: Row, length: Dim, encoder: Dim) -> tuple[Dim | None, bool]:
    """FLOPs of one visit by one sequence, and whether they are an attention's."""
    leaf = row.leaf
    if isinstance(leaf, Param):
        if leaf.use in ("matmul", "pooled"):
            elements = row.numel if leaf.active is None else leaf.active
            return 2 * (length if leaf.use == "matmul" else 1) * elements, False
        if leaf.use == "cross_qkv_matmul":
            # One fused matrix: the queries run over the decoder's tokens, keys and values over the encoder's.
            third = leaf.axes[0].parts[0].size * leaf.axes[1].size
            return 2 * third * (length + 2 * encoder), False
        return None, False
    if isinstance(leaf, Op) and leaf.kind in OPS:
        return OPS[leaf.kind](leaf.sizes, length, encoder), leaf.kind in ("attention", "cross_attention")
    return None, False


def _attention(sizes: Any, length: Dim, encoder: Dim) -> Dim:
    return 2 * length * length * sizes["heads"] * (sizes["d_qk"] + sizes["d_v"])


def _cross_attention(sizes: Any, length: Dim, encoder: Dim) -> Dim:
    return 2 * length * encoder * sizes["heads"] * (sizes["d_qk"] + sizes["d_v"])


def _conv(sizes: Any, length: Dim, encoder: Dim) -> Dim:
    return 2 * length * sizes["channels"] * sizes["kernel"]


def _ssd(sizes: Any, length: Dim, encoder: Dim) -> Dim:
    # The recurrent form: each state element is decayed and updated, then read (3 multiply-adds).
    return 6 * length * sizes["width"] * sizes["d_state"]


OPS: dict[str, Callable[[Any, Dim, Dim], Dim]] = {
    "attention": _attention,
    "cross_attention": _cross_attention,
    "conv": _conv,
    "ssd": _ssd,
}
