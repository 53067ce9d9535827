"""torch's plain kernel of attention, which runs where its fused one declines.

Where a value head is narrower than a key head, torch's fused CPU kernel declines
(`sdp_utils_cpp.h`: `check_head_dim_size_cpp`) and the ops of `_scaled_dot_product_attention_math` run.
"""

from __future__ import annotations

from sizer.measures.step import ops
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Tensor


def attention(tape: Tape, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """torch's `_scaled_dot_product_attention_math` in fp32, under a mask or a causal one of its own."""
    dtype, length = q.dtype, q.shape[2]
    q32, k32, v32 = ops.to(tape, q, "fp32"), ops.to(tape, k, "fp32"), ops.to(tape, v, "fp32")
    scaled = ops.scale(tape, q32)
    if mask is None:
        seen = tape.new("ones", (length, length), "bool")
        seen = tape.new("tril", (length, length), "bool")
        mask = tape.new("where", (length, length), "fp32")
        del seen
    weights = ops.matmul(tape, scaled, ops.scale(tape, ops.transpose(tape, k32, 2, 3)))
    # Done in place outside of a tracker such as torch's own, which is what this follows.
    weights = ops.add(tape, weights, mask)
    weights = ops.softmax(tape, weights)
    out = ops.to(tape, ops.matmul(tape, weights, v32), dtype)
    _returned = ops.to(tape, weights, dtype)
    return out
